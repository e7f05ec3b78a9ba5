"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs; codes compared with Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from moldau.config.config_changes import ResourceType
from moldau.config.config_sources import Source
from moldau.config.config_updates import Operation
from moldau.model.errors import Error
from moldau.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.support.services import NODE_ID, Node, play

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
ME = str(NODE_ID)
SET, DELETE, APPEND, SUBTRACT = Operation
Change = tuple[str, int, str | None]


class Levels:
    def __init__(self) -> None:
        self.changed: dict[str, str | None] = {}

    def levels(self) -> Mapping[str, str]:
        return {"root": "INFO", "kafka.controller": "DEBUG"}

    def has(self, logger: str) -> bool:
        return logger in self.levels()

    def set_level(self, logger: str, level: str | None) -> None:
        self.changed[logger] = level


async def describe(
    node: Node, kind: int, name: str, *keys: str, version: int = 4, synonyms: bool = False
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=version >= 3
    )
    response = await node.call(request, version)
    (result,) = response.results
    assert isinstance(result, DescribeConfigsResult)
    return result


async def entry(
    node: Node, kind: int, name: str, key: str, **options: Any
) -> DescribeConfigsResourceResult:
    (row,) = (await describe(node, kind, name, key, **options)).configs
    return row


async def change(
    node: Node, *resources: tuple[int, str, list[Change]], validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    response = await node.call(request, 1)
    return [(row.error_code, row.error_message) for row in response.responses]


async def replace_all(
    node: Node, kind: int, name: str, configs: Mapping[str, str | None], validate_only: bool = False
) -> tuple[int, str | None]:
    rows = [AlterableConfig(name=key, value=value) for key, value in configs.items()]
    request = AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)],
        validate_only=validate_only,
    )
    (row,) = (await node.call(request, 2)).responses
    return row.error_code, row.error_message


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_topic_and_broker(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", configs={"segment.bytes": "2000000"})
        result = await describe(node, TOPIC, "t", version=version, synonyms=True)
        assert (result.error_code, len(result.configs)) == (Error.NONE, 33)
        row = next(row for row in result.configs if row.name == "segment.bytes")
        assert (row.value, row.config_source, row.read_only) == ("2000000", Source.TOPIC, False)
        assert [synonym.name for synonym in row.synonyms] == ["segment.bytes", "log.segment.bytes"]
        assert len((await describe(node, BROKER, ME, version=version)).configs) > 340

    play(scenario, tmp_path)


def test_only_the_keys_asked_for_are_described_and_unknown_ones_left_out(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        result = await describe(node, TOPIC, "t", "retention.ms", "nope", "segment.bytes")
        assert [row.name for row in result.configs] == ["retention.ms", "segment.bytes"]

    play(scenario, tmp_path)


def test_documentation_and_synonyms_come_when_asked_for(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        with_all = await entry(node, BROKER, ME, "log.dirs", synonyms=True)
        assert (with_all.documentation or "").startswith("Directories")
        assert with_all.config_type == 7
        assert len(with_all.synonyms) == 1
        resource = DescribeConfigsResource(
            resource_type=BROKER, resource_name=ME, configuration_keys=["log.dirs"]
        )
        response = await node.call(DescribeConfigsRequest(resources=[resource]), 4)
        (bare,) = response.results[0].configs
        assert (bare.documentation, bare.synonyms) == (None, [])

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    "kind, name, error",
    [
        (TOPIC, "missing", Error.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", Error.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", Error.INVALID_TOPIC_EXCEPTION),
        (BROKER, "77", Error.INVALID_REQUEST),
        (BROKER, "one", Error.INVALID_REQUEST),
        (LOGGER, "", Error.INVALID_REQUEST),
        (LOGGER, "77", Error.INVALID_REQUEST),
        (0, "x", Error.INVALID_REQUEST),
        (99, "x", Error.INVALID_REQUEST),
    ],
)
def test_a_resource_that_is_not_to_be_had_is_an_error_in_its_row(
    kind: int, name: str, error: Error, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        result = await describe(node, kind, name)
        assert (result.error_code, result.configs) == (error, [])
        assert (result.resource_type, result.resource_name) == (kind, name)
        assert result.error_message

    play(scenario, tmp_path)


def test_secrets_are_not_told(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        row = await entry(node, BROKER, ME, "ssl.keystore.password", synonyms=True)
        assert (row.value, row.is_sensitive) == (None, True)
        assert [synonym.value for synonym in row.synonyms] == [None]

    play(scenario, tmp_path, ssl_keystore_password="secret")


def test_a_topic_s_settings_change_one_by_one(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", configs={"retention.ms": "5"})
        changes: list[Change] = [
            ("segment.bytes", SET, "2000000"),
            ("retention.ms", DELETE, None),
            ("cleanup.policy", APPEND, "compact"),
        ]
        assert await change(node, (TOPIC, "t", changes)) == [(Error.NONE, None)]
        assert dict(node.image.topic_configs["t"]) == {
            "segment.bytes": "2000000",
            "cleanup.policy": "delete,compact",
        }
        subtract: list[Change] = [("cleanup.policy", SUBTRACT, "delete")]
        assert await change(node, (TOPIC, "t", subtract)) == [(Error.NONE, None)]
        assert (await entry(node, TOPIC, "t", "cleanup.policy")).value == "compact"

    play(scenario, tmp_path)


def test_a_list_is_extended_from_the_broker_s_value(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        await change(node, (TOPIC, "t", [("cleanup.policy", APPEND, "delete")]))
        assert node.image.topic_configs["t"]["cleanup.policy"] == "compact,delete"

    play(scenario, tmp_path, log_cleanup_policy="compact")


def test_alter_configs_replaces_everything(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", configs={"retention.ms": "5"})
        assert await replace_all(node, TOPIC, "t", {"segment.bytes": "2000000"}) == (0, None)
        assert dict(node.image.topic_configs["t"]) == {"segment.bytes": "2000000"}
        assert await replace_all(node, TOPIC, "t", {}) == (0, None)
        assert not node.image.topic_configs.get("t")

    play(scenario, tmp_path)


def test_a_trial_changes_nothing_and_answers_the_same(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        good: list[Change] = [("segment.bytes", SET, "2000000")]
        bad: list[Change] = [("segment.bytes", SET, "1")]
        assert await change(node, (TOPIC, "t", good), validate_only=True) == [(0, None)]
        ((code, _),) = await change(node, (TOPIC, "t", bad), validate_only=True)
        assert code == Error.INVALID_CONFIG
        trial = await replace_all(node, TOPIC, "t", {"retention.ms": "5"}, validate_only=True)
        assert trial == (0, None)
        assert not node.image.topic_configs.get("t")

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    "kind, name, changes, error",
    [
        (TOPIC, "t", [("nope", SET, "1")], Error.INVALID_CONFIG),
        (TOPIC, "t", [("segment.bytes", SET, "14")], Error.INVALID_CONFIG),
        (TOPIC, "t", [("segment.bytes", SET, "many")], Error.INVALID_CONFIG),
        (TOPIC, "t", [("segment.bytes", SET, None)], Error.INVALID_REQUEST),
        (TOPIC, "t", [("segment.bytes", APPEND, "1")], Error.INVALID_CONFIG),
        (TOPIC, "t", [("segment.bytes", 9, "1")], Error.INVALID_REQUEST),
        (TOPIC, "t", [("preallocate", SET, "true")] * 2, Error.INVALID_REQUEST),
        (TOPIC, "t", [("nope", DELETE, None)], Error.NONE),
        (TOPIC, "missing", [("segment.bytes", SET, "2000000")], Error.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", [("segment.bytes", SET, "1")], Error.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", [("segment.bytes", SET, "1")], Error.INVALID_REQUEST),
        (BROKER, ME, [("num.partitions", SET, "3")], Error.INVALID_REQUEST),
        (BROKER, ME, [("log.cleaner.threads", SET, "-1")], Error.INVALID_REQUEST),
        (BROKER, ME, [("log.cleaner.threads", APPEND, "1")], Error.INVALID_CONFIG),
        (BROKER, ME, [("listeners", SET, "PLAINTEXT://:1")], Error.INVALID_REQUEST),
        (BROKER, "", [("listeners", SET, "PLAINTEXT://:1")], Error.INVALID_REQUEST),
        (BROKER, "77", [("log.cleaner.threads", SET, "2")], Error.INVALID_REQUEST),
        (BROKER, "one", [("log.cleaner.threads", SET, "2")], Error.INVALID_REQUEST),
        (BROKER, ME, [("a.plug.in.key", SET, "x")], Error.NONE),
        (0, "x", [("a", SET, "b")], Error.INVALID_REQUEST),
        (99, "x", [("a", SET, "b")], Error.INVALID_REQUEST),
    ],
)
def test_a_change_is_answered_with_kafka_s_code(
    kind: int, name: str, changes: list[Change], error: Error, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        ((code, message),) = await change(node, (kind, name, changes))
        assert code == error
        assert bool(message) == (error is not Error.NONE)

    play(scenario, tmp_path)


def test_one_bad_resource_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        rows = await change(
            node,
            (TOPIC, "missing", [("retention.ms", SET, "5")]),
            (99, "x", []),
            (TOPIC, "t", [("retention.ms", SET, "5")]),
        )
        codes = [code for code, _ in rows]
        assert codes == [Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_REQUEST, Error.NONE]
        assert node.image.topic_configs["t"]["retention.ms"] == "5"

    play(scenario, tmp_path)


def test_a_resource_named_twice_is_refused_both_times(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        one: list[Change] = [("retention.ms", SET, "5")]
        rows = await change(node, (TOPIC, "t", one), (TOPIC, "t", one))
        assert [code for code, _ in rows] == [Error.INVALID_REQUEST] * 2
        assert not node.image.topic_configs.get("t")

    play(scenario, tmp_path)


def test_a_broker_s_value_wins_over_the_cluster_s_which_wins_over_the_file_s(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        key = "log.segment.bytes"
        seen = []
        for name, text in (("", "3000000"), (ME, "4000000")):
            assert await change(node, (BROKER, name, [(key, SET, text)])) == [(0, None)]
            row = await entry(node, BROKER, ME, key, synonyms=True)
            seen.append((row.value, row.config_source, len(row.synonyms)))
            of_topic = await entry(node, TOPIC, "t", "segment.bytes")
            assert (of_topic.value, of_topic.config_source) == (row.value, row.config_source)
        assert seen == [
            ("3000000", Source.DYNAMIC_DEFAULT_BROKER, 3),
            ("4000000", Source.DYNAMIC_BROKER, 4),
        ]
        cluster = await describe(node, BROKER, "")
        assert [(row.name, row.value) for row in cluster.configs] == [(key, "3000000")]

    play(scenario, tmp_path, log_segment_bytes="2000000")


def test_loggers_are_described_and_set(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        levels = node.on.log_levels = Levels()
        result = await describe(node, LOGGER, ME)
        assert [(row.name, row.value) for row in result.configs] == [
            ("kafka.controller", "DEBUG"),
            ("root", "INFO"),
        ]
        assert {row.config_source for row in result.configs} == {Source.DYNAMIC_BROKER_LOGGER}
        changes: list[Change] = [("root", SET, "WARN"), ("kafka.controller", DELETE, None)]
        assert await change(node, (LOGGER, ME, changes), validate_only=True) == [(0, None)]
        assert levels.changed == {}
        assert await change(node, (LOGGER, ME, changes)) == [(0, None)]
        assert levels.changed == {"root": "WARN", "kafka.controller": None}

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    "name, changes, error",
    [
        (ME, [("root", SET, "WARN"), ("root", SET, "LOUD")], Error.INVALID_CONFIG),
        (ME, [("root", SET, "WARN"), ("missing", SET, "INFO")], Error.INVALID_CONFIG),
        (ME, [("root", DELETE, None)], Error.INVALID_REQUEST),
        (ME, [("root", APPEND, "INFO")], Error.INVALID_REQUEST),
        ("77", [("root", SET, "INFO")], Error.INVALID_REQUEST),
        ("", [("root", SET, "INFO")], Error.INVALID_REQUEST),
    ],
)
def test_a_bad_log_level_changes_none(
    name: str, changes: list[Change], error: Error, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        levels = node.on.log_levels = Levels()
        ((code, _),) = await change(node, (LOGGER, name, changes))
        assert (code, levels.changed) == (error, {})

    play(scenario, tmp_path)


def test_alter_configs_cannot_replace_log_levels(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        code, _ = await replace_all(node, LOGGER, ME, {"root": "INFO"})
        assert code == Error.INVALID_REQUEST

    play(scenario, tmp_path)
