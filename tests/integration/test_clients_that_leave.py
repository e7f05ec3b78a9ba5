"""What a client has sent before it left is done, as in Apache Kafka: with acks=0 nobody waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.request_framing import encode_request
from tests.support.eventually import eventually
from tests.support.hostile_batches import batch_of_many
from tests.support.hostile_costs import Client, batch_of, produce_of

PRODUCE, LIST_OFFSETS, CREATE_TOPICS = 0, 2, 19


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    overrides = {"message.max.bytes": "20000000"}
    with BrokerProcess(tmp_path_factory.mktemp("leaving"), overrides=overrides) as broker:
        yield broker


def leave_behind(broker: BrokerProcess, topic: str, *batches: bytes) -> None:
    """Send each with acks=0, all at once, and leave."""
    frames = b""
    for batch in batches:
        request = produce_of(topic, {0: batch})
        request.acks = 0
        frames += encode_request(PRODUCE, 9, 7, "leaving", request)
    with Client(broker.port) as client:
        client.socket.sendall(frames)


def end_of(broker: BrokerProcess, topic: str) -> int:
    with Client(broker.port) as client:
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        asked = ListOffsetsTopic(name=topic, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[asked])
        answer = client.ask(LIST_OFFSETS, 7, request)
    end: int = answer.topics[0].partitions[0].offset  # type: ignore[attr-defined]
    return end


def create(broker: BrokerProcess, topic: str) -> None:
    with Client(broker.port) as client:
        new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        client.ask(CREATE_TOPICS, 7, CreateTopicsRequest(topics=[new], timeout_ms=10_000))


@pytest.mark.parametrize("count", [10, 1_000])
def test_many_small_batches_are_all_stored(broker: BrokerProcess, count: int) -> None:
    create(broker, topic := f"small-{count}")
    leave_behind(broker, topic, *[batch_of(b"x")] * count)
    eventually(lambda: end_of(broker, topic) == count)


def test_what_is_checked_beside_the_loop_is_stored_and_what_follows_it(
    broker: BrokerProcess,
) -> None:
    create(broker, "long")
    leave_behind(broker, "long", batch_of_many(400_000), batch_of(b"x"), batch_of(b"y"))
    eventually(lambda: end_of(broker, "long") == 400_002)
