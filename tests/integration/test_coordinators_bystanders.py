"""One client's request that cannot be stored is its own affair: groups and transactions that share
its coordinator go on as if nothing had been asked.

A real broker with one partition for all groups and one for all transactions, a consumer and a
transactional producer at work, and a client that sends what no field of the logs can hold.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.model.errors import Error
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.apis import APIS
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.wire.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from moldau.wire.messages.transactions import (
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.wire.request_framing import decode_response, encode_request
from moldau.wire.schema import Message
from tests.support.eventually import eventually

TOPIC = "t"
SECONDS_MAX = 60
LONG = "x" * 40_000
"""No field of text on the wire may be so long, and none in the coordinators' logs is."""
LONGEST = "y" * 32_767
CLOSED = None
JOIN_GROUP = 11
FOR_EVER_MS = 2**63 - 1
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offset.metadata.max.bytes": "100000",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, overrides=SETTINGS) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(SECONDS_MAX)
        yield process


class Bystander(threading.Thread):
    """A consumer that reads and notes how often it got and lost its partition."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.assigned = self.lost = self.read = 0
        self._leaves = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bystanders",
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 100,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe([TOPIC], on_assign=self._got, on_revoke=self._gone)
        while not self._leaves.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read += 1
        self._consumer.close()

    def _got(self, _: Consumer, places: list[Any]) -> None:
        self.assigned += 1

    def _gone(self, _: Consumer, places: list[Any]) -> None:
        self.lost += 1

    def leave(self) -> None:
        self._leaves.set()
        self.join(SECONDS_MAX)


def call(broker: BrokerProcess, request: Message, version: int, client_id: str = "hostile") -> Any:
    """The answer, or CLOSED."""
    name = type(request).__name__.removesuffix("Request")
    key = next(api.key for api in APIS if api.name == name)
    with socket.create_connection(("127.0.0.1", broker.port), SECONDS_MAX) as connection:
        connection.sendall(encode_request(key, version, 7, client_id, request))
        reader = connection.makefile("rb")
        size = reader.read(4)
        if not size:
            return CLOSED
        return decode_response(key, version, reader.read(int.from_bytes(size, "big")))


def commit(group_id: str = "hostile", metadata: str = "", **options: Any) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=metadata
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[row])
    return OffsetCommitRequest(group_id=group_id, topics=[topic], **options)


def commit_in_transaction(group_id: str) -> TxnOffsetCommitRequest:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[row])
    return TxnOffsetCommitRequest(
        transactional_id="hostile", group_id=group_id, producer_id=1, topics=[topic]
    )


def join(name: str = "range", **options: Any) -> JoinGroupRequest:
    fields = {"group_id": "hostile", "protocol_type": "consumer", **options}
    return JoinGroupRequest(
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=b"")],
        **fields,
    )


def init(transactional_id: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)


HOSTILE: dict[str, tuple[Message, int, str]] = {
    "an offset to be kept for ever": (commit(retention_time_ms=FOR_EVER_MS), 3, "c"),
    "an offset of a long group": (commit(LONG), 9, "c"),
    "an offset of the longest group": (commit(LONGEST), 9, "c"),
    "an offset of a long member": (commit(member_id=LONG), 9, "c"),
    "an offset of a long instance": (commit(group_instance_id=LONG), 9, "c"),
    "an offset with long metadata": (commit(metadata=LONG), 9, "c"),
    "an offset in a transaction, of a long group": (commit_in_transaction(LONG), 3, "c"),
    "a long group": (join(group_id=LONG), 9, "c"),
    "a long protocol": (join(LONG), 9, "c"),
    "a long type of protocols": (join(protocol_type=LONG), 9, "c"),
    "a long instance": (join(group_instance_id=LONG), 9, "c"),
    "the longest instance": (join(group_instance_id=LONGEST), 9, "c"),
    "the longest client id": (join(), 9, LONGEST),
    "the longest client id, of an older client": (join(), 2, LONGEST),
    "a heartbeat in a long group": (HeartbeatRequest(group_id=LONG, member_id="m"), 4, "c"),
    "a heartbeat in the longest group": (HeartbeatRequest(group_id=LONGEST, member_id="m"), 4, "c"),
    "a long transactional id": (init(LONG), 4, "c"),
    "the longest transactional id": (init(LONGEST), 4, "c"),
    "the coordinator of a long name": (FindCoordinatorRequest(coordinator_keys=[LONG]), 4, "c"),
}


def told(answer: Any) -> Error | None:
    """The answer's error; None where the connection was closed."""
    if answer is CLOSED:
        return CLOSED
    if hasattr(answer, "error_code"):
        return Error(answer.error_code)
    return Error(answer.topics[0].partitions[0].error_code)


EXPECTED: dict[str, Error | None] = {
    "an offset to be kept for ever": Error.NONE,
    "an offset of the longest group": Error.NONE,
    "the longest instance": Error.UNKNOWN_SERVER_ERROR,
    "the longest client id": Error.UNKNOWN_SERVER_ERROR,
    "the longest client id, of an older client": Error.UNKNOWN_SERVER_ERROR,
    "a heartbeat in the longest group": Error.UNKNOWN_MEMBER_ID,
    "the longest transactional id": Error.NONE,
}
"""What Apache Kafka answers; all others make it close the connection."""


def test_what_cannot_be_stored_is_refused_to_its_sender_and_bystanders_stay(
    broker: BrokerProcess,
) -> None:
    bystander = Bystander(broker.bootstrap)
    bystander.start()
    eventually(lambda: bystander.assigned == 1, SECONDS_MAX)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "bystander", "log_level": 0}
    )
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(TOPIC, b"1")
    answers = {what: told(call(broker, *asked)) for what, asked in HOSTILE.items()}
    producer.commit_transaction(SECONDS_MAX)
    eventually(lambda: bystander.read == 1, SECONDS_MAX)
    bystander.leave()
    assert "loading anew" not in broker.log_text
    assert "Traceback" not in broker.log_text
    assert (bystander.assigned, bystander.lost) == (1, 1), "the group was disturbed"
    assert answers == {what: EXPECTED.get(what, CLOSED) for what in HOSTILE}


LEFT_BYTES_MAX = 80 * 1024 * 1024
"""Twice what groups may take, and what else was loaded; without a limit it would be 200 MB."""


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_members_that_hang_up_leave_no_more_behind_than_groups_may_take(tmp_path: Path) -> None:
    overrides = {**SETTINGS, "group.state.max.bytes": str(32 * 1024 * 1024)}
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(1_000_000))
    with BrokerProcess(tmp_path, overrides=overrides) as broker:
        assert call(broker, FindCoordinatorRequest(key="g"), 3).error_code == Error.NONE
        before = resident_bytes(broker.pid)
        for number in range(200):
            # Of version 3: a member at once, though it is never heard of again.
            request = JoinGroupRequest(
                group_id=f"left-{number}",
                session_timeout_ms=60_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=[protocol],
            )
            with socket.create_connection(("127.0.0.1", broker.port), SECONDS_MAX) as connection:
                connection.sendall(encode_request(JOIN_GROUP, 3, 7, "hostile", request))
        # Without a limit it would wait for others to join, as they did.
        assert told(call(broker, request, 3)) is Error.COORDINATOR_NOT_AVAILABLE
        # The requests themselves, all of them at once perhaps, are given back a little later.
        eventually(lambda: resident_bytes(broker.pid) - before < LEFT_BYTES_MAX, SECONDS_MAX)
