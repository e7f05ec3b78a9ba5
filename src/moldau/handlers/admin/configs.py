"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: the settings of every kind of thing.

The rows come from the tables in `config/`; every change goes to the controller, which says
whether it is allowed. Log levels belong to the running process and never reach the controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.config.broker_config import BrokerConfig
from moldau.config.client_metrics_config import ClientMetricsConfig
from moldau.config.config_changes import DEFAULT_BROKER, ConfigChange, ResourceType
from moldau.config.config_sources import (
    BrokerLayers,
    Entry,
    Source,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    topic_defaults,
    topic_entries,
)
from moldau.config.config_updates import KeyChange, Operation, changed_overrides
from moldau.config.group_config import GroupConfig
from moldau.config.setting_definition import Kind, Setting
from moldau.config.topic_config import TopicConfig
from moldau.handlers.request_slices import Turn
from moldau.model.errors import ApiError, Error
from moldau.model.names import topic_name_fault
from moldau.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from moldau.handlers.request_context import RequestContext
    from moldau.handlers.services import Services

LOG_LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
ROOT_LOGGER = "root"

Resource = tuple[int, str]
"""Type and name, as they stand in the request."""


async def describe_configs(
    request: DescribeConfigsRequest, ctx: RequestContext, on: Services
) -> DescribeConfigsResponse:
    entries_of = _reader(on)
    turn = Turn(on.clock)
    results = []
    rows: dict[Entry, DescribeConfigsResourceResult] = {}

    def described(entry: Entry) -> DescribeConfigsResourceResult:
        """Thousands of topics have the same defaults: they share the rows of the answer."""
        row = rows.get(entry)
        if row is None:
            row = _described(entry, request.include_synonyms, request.include_documentation)
            rows[entry] = row
        return row

    for resource in _each_once(request.resources):
        if turn.is_over():
            await turn.rest()
        result = DescribeConfigsResult(
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            entries = entries_of(resource)
        except ApiError as refusal:
            result.error_code, result.error_message = refusal.error, refusal.message
        else:
            wanted = set(resource.configuration_keys or ())
            result.configs = [
                described(entry) for entry in entries if not wanted or entry.name in wanted
            ]
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _each_once(resources: Iterable[DescribeConfigsResource]) -> Iterable[DescribeConfigsResource]:
    """What is named again is answered once, with all the keys that were asked for: a few bytes
    must not buy the same long answer a thousand times."""
    found: dict[Resource, list[str] | None] = {}
    for resource in resources:
        more = resource.configuration_keys or None
        keys = found.setdefault((resource.resource_type, resource.resource_name), [])
        if more is None:
            found[resource.resource_type, resource.resource_name] = None
        elif keys is not None:
            keys += more
    for (kind, name), keys in found.items():
        yield DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=keys
        )


async def alter_configs(
    request: AlterConfigsRequest, ctx: RequestContext, on: Services
) -> AlterConfigsResponse:
    asked = [
        (
            (resource.resource_type, resource.resource_name),
            [KeyChange(row.name, Operation.SET, row.value) for row in resource.configs],
        )
        for resource in request.resources
    ]
    responses = await _alter(asked, on, validate_only=request.validate_only, replace_all=True)
    return AlterConfigsResponse(responses=responses)


async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: RequestContext, on: Services
) -> IncrementalAlterConfigsResponse:
    asked = [
        (
            (resource.resource_type, resource.resource_name),
            [KeyChange(row.name, row.config_operation, row.value) for row in resource.configs],
        )
        for resource in request.resources
    ]
    responses = await _alter(asked, on, validate_only=request.validate_only, replace_all=False)
    return IncrementalAlterConfigsResponse(responses=responses)


def _reader(on: Services) -> Callable[[DescribeConfigsResource], list[Entry]]:
    """What looks a resource up, raising ApiError if it is not to be had. The defaults of topics
    are worked out once, since a client may ask for a thousand topics in one request."""
    layers = _layers(on)
    defaults: dict[str, Entry] = {}

    def entries_of(resource: DescribeConfigsResource) -> list[Entry]:
        name = resource.resource_name
        if resource.resource_type == ResourceType.TOPIC:
            overrides = _topic_overrides(name, on)
            if not defaults:
                defaults.update(topic_defaults(layers))
            return topic_entries(overrides, defaults)
        if resource.resource_type == ResourceType.BROKER:
            if not name:
                return default_broker_entries(layers.dynamic_default)
            _check_own_id(name, on, f"{on.node_id} or empty string")
            return broker_entries(layers)
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            _check_own_id(name, on, f"{on.node_id}")
            return _logger_entries(on.log_levels.levels())
        if resource.resource_type == ResourceType.GROUP:
            if not name:
                raise ApiError(Error.INVALID_REQUEST, "Group name must not be empty")
            return group_entries(on.image().group_configs.get(name, {}), layers)
        if resource.resource_type == ResourceType.CLIENT_METRICS:
            if not name:
                empty = "Client metrics subscription name must not be empty"
                raise ApiError(Error.INVALID_REQUEST, empty)
            return client_metrics_entries(on.image().client_metrics.get(name, {}))
        raise _unknown_type(resource.resource_type)

    return entries_of


async def _alter(
    asked: Sequence[tuple[Resource, list[KeyChange]]],
    on: Services,
    *,
    validate_only: bool,
    replace_all: bool,
) -> list[AlterConfigsResourceResponse]:
    times = Counter(resource for resource, _ in asked)
    outcomes: list[ConfigChange | ApiError | None] = []
    for resource, changes in asked:
        try:
            if times[resource] > 1:
                raise ApiError(Error.INVALID_REQUEST, "Each resource must appear at most once.")
            if resource[0] == ResourceType.BROKER_LOGGER and not replace_all:
                _change_log_levels(resource[1], changes, on, validate_only)
                outcomes.append(None)
            else:
                change = _change(resource, changes, on, replace_all)
                await _check_stores(change, on)
                outcomes.append(change)
        except ApiError as refusal:
            outcomes.append(refusal.kept())
    to_controller = [each for each in outcomes if isinstance(each, ConfigChange)]
    answers = iter(await _submit(to_controller, on, validate_only))
    responses = []
    for (resource, _), outcome in zip(asked, outcomes, strict=True):
        row = next(answers) if isinstance(outcome, ConfigChange) else outcome
        if row is None and not validate_only and _names_stores(outcome, on):
            on.read_stores_anew()
        responses.append(_response(resource, row))
    return responses


def _names_stores(change: ConfigChange | ApiError | None, on: Services) -> bool:
    """Whether it is about certificates and keys of this broker."""
    return (
        isinstance(change, ConfigChange)
        and change.resource_type == ResourceType.BROKER
        and change.resource_name == str(on.node_id)
        and any(".ssl." in f".{key}" for key in change.overrides)
    )


async def _check_stores(change: ConfigChange, on: Services) -> None:
    if on.check_stores is None or not _names_stores(change, on):
        return
    configs = on.image().broker_configs
    own = {} if change.replace_all else dict(configs.get(change.resource_name, {}))
    for key, value in change.overrides.items():
        if value is None:
            own.pop(key, None)
        else:
            own[key] = value
    await on.check_stores({**configs.get(DEFAULT_BROKER, {}), **own})


async def _submit(
    changes: list[ConfigChange], on: Services, validate_only: bool
) -> Iterable[ApiError | None]:
    if not changes:
        return ()
    try:
        rows = await on.controller.alter_configs(changes, validate_only=validate_only)
    except ApiError as refusal:
        return [refusal] * len(changes)
    return [row if isinstance(row, ApiError) else None for row in rows]


def _change(
    resource: Resource, changes: list[KeyChange], on: Services, replace_all: bool
) -> ConfigChange:
    kind, name = resource
    image = on.image()
    if kind == ResourceType.TOPIC:

        def inherited(row: Setting) -> tuple[str, ...]:
            items: tuple[str, ...] = (
                row.default
                if row.synonym is None
                else getattr(on.config, BrokerConfig.rows[row.synonym].name)
            )
            return items

        present = image.topic_configs.get(name, {})
        overrides = changed_overrides(TopicConfig, changes, present, inherited)
        return ConfigChange(ResourceType.TOPIC, name, overrides, replace_all)
    if kind == ResourceType.BROKER:
        name = name or DEFAULT_BROKER
        present = image.broker_configs.get(name, {})
        overrides = changed_overrides(
            BrokerConfig, changes, present, lambda row: getattr(on.config, row.name) or ()
        )
        stored = on.passwords.encoded(name, overrides)
        return ConfigChange(ResourceType.BROKER, name, stored, replace_all)
    if kind == ResourceType.GROUP:
        present = image.group_configs.get(name, {})
        overrides = changed_overrides(GroupConfig, changes, present, lambda row: row.default)
        return ConfigChange(ResourceType.GROUP, name, overrides, replace_all)
    if kind == ResourceType.CLIENT_METRICS:
        present = image.client_metrics.get(name, {})
        table = ClientMetricsConfig
        overrides = changed_overrides(table, changes, present, lambda row: row.default)
        return ConfigChange(ResourceType.CLIENT_METRICS, name, overrides, replace_all)
    raise _unknown_type(kind)


def _change_log_levels(
    name: str, changes: list[KeyChange], on: Services, validate_only: bool
) -> None:
    """All or nothing: no level changes unless every one can."""
    _check_own_id(name, on, f"{on.node_id}")
    for logger, operation, level in changes:
        if operation not in (Operation.SET, Operation.DELETE):
            fault = "Log levels can be set and deleted, nothing else"
            raise ApiError(Error.INVALID_REQUEST, fault)
        if not on.log_levels.has(logger):
            raise ApiError(Error.INVALID_CONFIG, f"Logger {logger} does not exist")
        if operation == Operation.DELETE and logger == ROOT_LOGGER:
            fault = "The log level of the root logger cannot be deleted"
            raise ApiError(Error.INVALID_REQUEST, fault)
        if operation == Operation.SET and level not in LOG_LEVELS:
            fault = f"Log level {level} of {logger} is none of {', '.join(LOG_LEVELS)}"
            raise ApiError(Error.INVALID_CONFIG, fault)
    if not validate_only:
        for logger, operation, level in changes:
            on.log_levels.set_level(logger, None if operation == Operation.DELETE else level)


def _layers(on: Services) -> BrokerLayers:
    dynamic = on.image().broker_configs
    return BrokerLayers(
        on.config, dynamic.get(DEFAULT_BROKER, {}), dynamic.get(str(on.node_id), {})
    )


def _topic_overrides(name: str, on: Services) -> Mapping[str, str]:
    fault = topic_name_fault(name)
    if fault is not None:
        raise ApiError(Error.INVALID_TOPIC_EXCEPTION, fault)
    image = on.image()
    if name not in image.topics:
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return image.topic_configs.get(name, {})


def _check_own_id(name: str, on: Services, expected: str) -> None:
    """A broker speaks for itself only; clients send such requests to the broker they name."""
    if not name.isascii() or not name.isdecimal():
        raise ApiError(Error.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != on.node_id:
        fault = f"Unexpected broker id, expected {expected}, but received {name}"
        raise ApiError(Error.INVALID_REQUEST, fault)


def _unknown_type(kind: int) -> ApiError:
    return ApiError(Error.INVALID_REQUEST, f"Unknown resource type {kind}")


def _logger_entries(levels: Mapping[str, str]) -> list[Entry]:
    source = Source.DYNAMIC_BROKER_LOGGER
    return [
        Entry(name, level, source, Kind.UNKNOWN, documentation="")
        for name, level in sorted(levels.items())
    ]


def _described(entry: Entry, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.source == Source.DEFAULT,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=n, value=v, source=s) for n, v, s in entry.synonyms]
        if synonyms
        else [],
        config_type=entry.kind,
        documentation=entry.documentation if documentation else None,
    )


def _response(resource: Resource, refusal: ApiError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=Error.NONE if refusal is None else refusal.error,
        error_message=None if refusal is None else refusal.message,
        resource_type=resource[0],
        resource_name=resource[1],
    )
