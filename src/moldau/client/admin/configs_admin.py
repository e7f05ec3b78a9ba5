"""Settings of topics, brokers, groups and client metrics: describe, alter, list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moldau.client.admin.admin_requests import AdminRequests, value_or_error
from moldau.client.admin.admin_results import (
    AlterConfig,
    AlterOperation,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    Outcomes,
    ResourceType,
)
from moldau.client.shared.client_errors import KafkaError
from moldau.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from moldau.wire.schema import Message


class ConfigsAdmin(AdminRequests):
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, dict[str, ConfigEntry]]:
        """The settings in force, all or only `keys`.

        topic = ConfigResource.topic("orders")
        admin.describe_configs([topic]).check()[topic]["retention.ms"].value
        """
        wanted_keys = None if keys is None else list(keys)

        def request(part: list[ConfigResource]) -> Message:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=item.type,
                        resource_name=item.name,
                        configuration_keys=wanted_keys,
                    )
                    for item in part
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )

        results: Outcomes[ConfigResource, dict[str, ConfigEntry]] = {}
        for node_id, part in _by_node(resources).items():
            try:
                response = await self._ask(node_id, request(part), timeout_ms)
            except KafkaError as error:
                results.update(dict.fromkeys(part, error))
                continue
            for row in response.results:
                entries = {config.name: _entry(row.resource_type, config) for config in row.configs}
                results[_resource(row)] = value_or_error(row, entries)
        return results

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[AlterConfig] | Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Change single settings and leave the others alone. In a mapping None deletes.

        admin.incremental_alter_configs(
            {ConfigResource.topic("orders"): {"retention.ms": "1000", "segment.bytes": None}}
        ).check()
        """

        def request(part: list[ConfigResource]) -> Message:
            return IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsResource(
                        resource_type=item.type,
                        resource_name=item.name,
                        configs=[
                            IncrementalAlterableConfig(
                                name=change.name,
                                config_operation=change.operation,
                                value=change.value,
                            )
                            for change in _changes(changes[item])
                        ],
                    )
                    for item in part
                ],
                validate_only=validate_only,
            )

        return await self._alter(changes, request, timeout_ms)

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Replace all settings of each resource: what is not named goes back to its default.

        Prefer `incremental_alter_configs`."""

        def request(part: list[ConfigResource]) -> Message:
            return AlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=item.type,
                        resource_name=item.name,
                        configs=[
                            AlterableConfig(name=name, value=value)
                            for name, value in configs[item].items()
                        ],
                    )
                    for item in part
                ],
                validate_only=validate_only,
            )

        return await self._alter(configs, request, timeout_ms)

    async def list_config_resources(
        self, types: Iterable[ResourceType] = (), *, timeout_ms: int | None = None
    ) -> list[ConfigResource]:
        """What has settings, of these types or of all."""
        request = ListConfigResourcesRequest(resource_types=list(types))
        response = await self._from_any(request, timeout_ms)
        return [
            ConfigResource(ResourceType(row.resource_type), row.resource_name)
            for row in response.config_resources
        ]

    async def _alter(
        self, resources: Iterable[ConfigResource], request: Any, timeout_ms: int | None
    ) -> Outcomes[ConfigResource, None]:
        results: Outcomes[ConfigResource, None] = {}
        for node_id, part in _by_node(resources).items():
            try:
                response = await self._ask(node_id, request(part), timeout_ms)
            except KafkaError as error:
                results.update(dict.fromkeys(part, error))
                continue
            for row in response.responses:
                results[_resource(row)] = value_or_error(row, None)
        return results

    async def _ask(self, node_id: int | None, request: Message, timeout_ms: int | None) -> Any:
        if node_id is None:
            return await self._from_any(request, timeout_ms)
        return await self._from_node(node_id, request, timeout_ms)


def _by_node(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """A broker answers for its own settings and its loggers; None stands for any broker."""
    parts: dict[int | None, list[ConfigResource]] = {}
    for kind, name in dict.fromkeys(resources):
        own = kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name.isdigit()
        parts.setdefault(int(name) if own else None, []).append(ConfigResource(kind, name))
    return parts


def _changes(given: Sequence[AlterConfig] | Mapping[str, str | None]) -> Iterable[AlterConfig]:
    if not isinstance(given, Mapping):
        return given
    delete = AlterOperation.DELETE
    return [
        AlterConfig(name, value) if value is not None else AlterConfig(name, None, delete)
        for name, value in given.items()
    ]


def _resource(row: Any) -> ConfigResource:
    return ConfigResource(ResourceType(row.resource_type), row.resource_name)


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if 0 < number <= max(ConfigSource) else ConfigSource.UNKNOWN


def _entry(resource_type: int, row: DescribeConfigsResourceResult) -> ConfigEntry:
    source = _source(row.config_source)
    if row.config_source < 0:
        # Version 0 says only whether the value is a default.
        is_topic = resource_type == ResourceType.TOPIC
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG if is_topic else ConfigSource.STATIC_BROKER_CONFIG
        source = ConfigSource.DEFAULT_CONFIG if row.is_default else own
    synonyms = [ConfigSynonym(s.name, s.value, _source(s.source)) for s in row.synonyms]
    return ConfigEntry(
        row.name,
        row.value,
        source,
        row.is_sensitive,
        row.read_only,
        synonyms,
        row.config_type,
        row.documentation,
    )
