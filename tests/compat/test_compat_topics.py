"""Each foreign client administers topics: make, list, describe, configure, grow, trim, delete."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compat.clients.port import Client, Partition, Record, Refused
from tests.compat.records import START_MS
from tests.compat.waiting import eventually

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40
RETENTION_DEFAULT_MS = "604800000"

NewName = Callable[[str], str]


def records(count: int, partition: int = 0) -> list[Record]:
    return [Record(b"k", b"v%d" % n, (), START_MS + 1000 * n, partition) for n in range(count)]


@pytest.fixture
def topic(client: Client, new_name: NewName) -> str:
    name = new_name("topics")
    client.create_topic(name, partitions=2, configs={"retention.ms": "7200000"})
    eventually(lambda: len(client.describe_topic(name)) == 2)
    return name


def test_a_new_topic_is_listed_and_described(client: Client, topic: str) -> None:
    assert topic in client.topics()
    partitions = client.describe_topic(topic)
    leader = partitions[0].leader
    assert leader >= 0
    assert partitions == [Partition(index, leader, (leader,), (leader,)) for index in (0, 1)]


def test_configs_show_overrides_beside_defaults(client: Client, topic: str) -> None:
    configs = client.configs(topic)

    assert configs["retention.ms"] == "7200000"
    assert configs["max.message.bytes"] == "1048588"
    assert configs["cleanup.policy"] == "delete"
    assert configs["compression.type"] == "producer"
    assert configs["message.timestamp.type"] == "CreateTime"
    assert len(configs) >= 25


def test_altered_configs_take_effect_and_keep_or_reset_the_others(
    client: Client, topic: str
) -> None:
    client.alter_configs(topic, {"max.message.bytes": "5000", "segment.bytes": "2000000"})

    eventually(lambda: client.configs(topic)["max.message.bytes"] == "5000")
    configs = client.configs(topic)
    assert configs["segment.bytes"] == "2000000"
    # AlterConfigs states the whole set, IncrementalAlterConfigs only what changes.
    kept = "7200000" if client.alters_incrementally else RETENTION_DEFAULT_MS
    assert configs["retention.ms"] == kept
    with pytest.raises(Refused):
        client.produce(topic, [Record(b"k", b"x" * 6000, (), START_MS)])


def test_added_partitions_can_be_written_to(client: Client, topic: str) -> None:
    client.create_partitions(topic, 5)

    eventually(lambda: len(client.describe_topic(topic)) == 5)
    written = records(3, partition=4)
    assert client.produce(topic, written) == [0, 1, 2]
    assert [row.record for row in client.consume(topic, {4: 3})] == written


def test_deleted_records_are_gone_and_later_ones_keep_their_offsets(
    client: Client, topic: str
) -> None:
    written = records(20)
    client.produce(topic, written)

    client.delete_records(topic, 0, 15)

    assert client.offsets(topic, 0) == (15, 20)
    rest = client.consume(topic, {0: 5})
    assert [row.offset for row in rest] == [15, 16, 17, 18, 19]
    assert [row.record for row in rest] == written[15:]


def test_offsets_are_found_by_time(client: Client, topic: str) -> None:
    client.produce(topic, records(10, partition=1))

    assert client.offsets(topic, 1) == (0, 10)
    assert client.offset_at(topic, 1, START_MS + 3000) == 3
    assert client.offset_at(topic, 1, START_MS + 3001) == 4


def test_a_deleted_topic_is_gone_and_its_name_free_again(client: Client, topic: str) -> None:
    client.produce(topic, records(3))

    client.delete_topic(topic)

    eventually(lambda: topic not in client.topics())
    client.create_topic(topic, partitions=1, configs={})
    eventually(lambda: client.offsets(topic, 0) == (0, 0))


def test_refusals_carry_kafkas_error_codes(client: Client, topic: str, new_name: NewName) -> None:
    def code(refused: Callable[[], None]) -> int:
        with pytest.raises(Refused) as refusal:
            refused()
        return refusal.value.code

    unknown = new_name("unknown")
    faulty = {"retention.ms": "soon"}
    assert code(lambda: create(client, topic, {})) == TOPIC_ALREADY_EXISTS
    assert code(lambda: create(client, "no/slashes", {})) == INVALID_TOPIC
    assert code(lambda: create(client, unknown, faulty)) == INVALID_CONFIG
    assert code(lambda: client.alter_configs(topic, faulty)) == INVALID_CONFIG
    assert code(lambda: client.create_partitions(topic, 1)) == INVALID_PARTITIONS
    assert code(lambda: client.delete_topic(unknown)) == UNKNOWN_TOPIC_OR_PARTITION
    if client.checks_delete_offsets_itself:
        return
    assert code(lambda: client.delete_records(topic, 0, 1000)) == OFFSET_OUT_OF_RANGE


def create(client: Client, topic: str, configs: dict[str, str]) -> None:
    client.create_topic(topic, partitions=1, configs=configs)
