"""Small things that a client can tell one broker from another by, seen on a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from moldau.model.errors import Error
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from moldau.wire.messages.groups import FindCoordinatorRequest
from tests.support.eventually import eventually
from tests.support.hostile_costs import Client

RATES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("broker")
    overrides = {"offsets.topic.num.partitions": "1"}
    with BrokerProcess(folder, overrides=overrides) as running:
        yield running


def test_before_there_is_any_group_who_asks_is_sent_to_look_for_a_coordinator(
    broker: BrokerProcess,
) -> None:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    with Client(broker.port) as client:
        answer = client.ask(9, 8, request)
    assert isinstance(answer, OffsetFetchResponse)
    assert answer.groups[0].error_code == Error.NOT_COORDINATOR


def test_a_missing_group_is_told_before_an_unknown_topic(broker: BrokerProcess) -> None:
    row = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name="nothing", partitions=[row])
    request = OffsetDeleteRequest(group_id="nobody", topics=[topic])
    with Client(broker.port) as client:
        client.ask(10, 1, FindCoordinatorRequest(key="nobody"))

        def is_told() -> bool:
            answer = client.ask(47, 0, request)
            assert isinstance(answer, OffsetDeleteResponse)
            return answer.error_code == Error.GROUP_ID_NOT_FOUND

        eventually(is_told)


def test_throttles_are_shown_once_they_are_set(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    changes = [
        ConfigEntry(key, str(1000 + n), incremental_operation=AlterConfigOpType.SET)
        for n, key in enumerate(RATES)
    ]
    changed = ConfigResource(ResourceType.BROKER, "0", incremental_configs=changes)
    admin.incremental_alter_configs([changed])[changed].result(30)
    asked = ConfigResource(ResourceType.BROKER, "0")
    entries = admin.describe_configs([asked])[asked].result(30)
    assert [entries[key].value for key in RATES] == ["1000", "1001", "1002"]
    assert not any(entries[key].is_sensitive for key in RATES)
