"""ListConfigResources, and the settings of groups and of subscriptions to client metrics."""

from __future__ import annotations

from pathlib import Path

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
    DescribeConfigsResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from tests.support.services import NODE_ID, Node, play

GROUP, METRICS = ResourceType.GROUP, ResourceType.CLIENT_METRICS
ME = str(NODE_ID)
TIMEOUT = "consumer.session.timeout.ms"


async def change(
    node: Node, kind: int, name: str, key: str, value: str | None, operation: int = Operation.SET
) -> int:
    row = IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
    resource = IncrementalAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[row]
    )
    response = await node.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    code: int = response.responses[0].error_code
    return code


async def describe(node: Node, kind: int, name: str) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    response = await node.call(DescribeConfigsRequest(resources=[resource]), 4)
    result = response.results[0]
    assert isinstance(result, DescribeConfigsResult)
    return result


async def listed(node: Node, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    response = await node.call(ListConfigResourcesRequest(resource_types=list(kinds)), version)
    assert response.error_code == Error.NONE
    return [(row.resource_type, row.resource_name) for row in response.config_resources]


def test_what_has_settings_is_listed_by_kind(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        await change(node, GROUP, "g", TIMEOUT, "50000")
        await change(node, METRICS, "m", "interval.ms", "1000")
        assert await listed(node) == [(32, "g"), (16, "m"), (8, ME), (4, ME), (2, "t")]
        assert await listed(node, 32, 2) == [(32, "g"), (2, "t")]
        assert await listed(node, version=0) == [(16, "m")]

    play(scenario, tmp_path)


@pytest.mark.parametrize("kind", [0, 99])
def test_a_kind_that_nobody_knows_is_not_listed(kind: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        response = await node.call(ListConfigResourcesRequest(resource_types=[2, kind]), 1)
        assert response.error_code == Error.UNSUPPORTED_VERSION

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("kind", "key", "value", "default", "source"),
    [
        (GROUP, TIMEOUT, "50000", "45000", Source.GROUP),
        (METRICS, "interval.ms", "1000", "300000", Source.CLIENT_METRICS),
    ],
)
def test_a_setting_is_made_described_and_taken_back(
    kind: int, key: str, value: str, default: str, source: Source, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        seen = []
        for operation in (None, Operation.SET, Operation.DELETE):
            if operation is not None:
                assert await change(node, kind, "x", key, value, operation) == Error.NONE
            result = await describe(node, kind, "x")
            assert result.error_code == Error.NONE
            row = next(row for row in result.configs if row.name == key)
            seen.append((row.value, row.config_source))
        assert seen == [(default, Source.DEFAULT), (value, source), (default, Source.DEFAULT)]
        assert await listed(node, kind) == []

    play(scenario, tmp_path)


def test_the_old_request_replaces_the_settings_of_a_group(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await change(node, GROUP, "g", TIMEOUT, "50000")
        for configs in ({"share.session.timeout.ms": "46000"}, {}):
            rows = [AlterableConfig(name=key, value=value) for key, value in configs.items()]
            resource = AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=rows)
            response = await node.call(AlterConfigsRequest(resources=[resource]), 2)
            assert response.responses[0].error_code == Error.NONE
            assert dict(node.image.group_configs.get("g", {})) == configs

    play(scenario, tmp_path)


def test_metrics_are_added_to_and_taken_from_a_subscription(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await change(node, METRICS, "m", "metrics", "a", Operation.APPEND)
        await change(node, METRICS, "m", "metrics", "b", Operation.APPEND)
        await change(node, METRICS, "m", "metrics", "a", Operation.SUBTRACT)
        assert node.image.client_metrics["m"] == {"metrics": "b"}

    play(scenario, tmp_path)


@pytest.mark.parametrize("kind", [GROUP, METRICS])
def test_a_resource_without_a_name_is_refused(kind: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        result = await describe(node, kind, "")
        assert (result.error_code, result.configs) == (Error.INVALID_REQUEST, [])
        assert await change(node, kind, "", TIMEOUT, "50000") == Error.INVALID_REQUEST

    play(scenario, tmp_path)


def test_the_broker_s_limits_hold_for_groups(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        assert await change(node, GROUP, "g", TIMEOUT, "1000") == Error.NONE
        assert await change(node, GROUP, "g", TIMEOUT, "70000") == Error.INVALID_CONFIG

    limits = {
        "group_consumer_min_session_timeout_ms": "1000",
        "group_consumer_heartbeat_interval_ms": "500",
        "group_consumer_min_heartbeat_interval_ms": "500",
    }
    play(scenario, tmp_path, **limits)
