"""Who a producer is, on a real broker that is killed between the steps; spoken on the wire.

No Python client has transactions of version 2: the requests are made by hand.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.model.errors import Error
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.apis import APIS
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from moldau.wire.request_framing import decode_response, encode_request
from moldau.wire.schema import Message
from tests.support.eventually import eventually

TOPIC, ID = "t", "id"
TRANSACTION_KEY = 1
END_1, END_2 = 3, 5
"""Versions of EndTxn: the epoch stays, and every end raises it."""
PASSING = {Error.CONCURRENT_TRANSACTIONS, Error.NOT_COORDINATOR, Error.COORDINATOR_LOAD_IN_PROGRESS}
SECONDS_MAX = 30.0


def call(broker: BrokerProcess, request: Message, version: int) -> Any:
    name = type(request).__name__.removesuffix("Request")
    key = next(api.key for api in APIS if api.name == name)
    with socket.create_connection(("127.0.0.1", broker.port), SECONDS_MAX) as connection:
        connection.sendall(encode_request(key, version, 7, "test", request))
        reader = connection.makefile("rb")
        size = int.from_bytes(reader.read(4), "big")
        return decode_response(key, version, reader.read(size))


def patiently(broker: BrokerProcess, request: Message, version: int) -> Any:
    """The answer that does not ask to come back."""
    answers: list[Any] = []

    def is_settled() -> bool:
        answers.append(call(broker, request, version))
        return answers[-1].error_code not in PASSING

    eventually(is_settled, SECONDS_MAX)
    return answers[-1]


def init(broker: BrokerProcess) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    granted = patiently(broker, request, 4)
    assert granted.error_code == 0
    return granted.producer_id, granted.producer_epoch


def add(broker: BrokerProcess, producer: tuple[int, int]) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
    )
    added = call(broker, request, 3).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert added.partition_error_code == 0


def end(broker: BrokerProcess, producer: tuple[int, int], version: int, committed: bool) -> Any:
    request = EndTxnRequest(
        transactional_id=ID,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=committed,
    )
    return patiently(broker, request, version)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    overrides = {"transaction.state.log.num.partitions": "1"}
    with BrokerProcess(tmp_path, overrides=overrides) as process:
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        call(process, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        found = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[ID])
        eventually(lambda: call(process, found, 4).coordinators[0].error_code == 0, SECONDS_MAX)
        yield process


def test_after_a_kill_a_lost_answer_is_given_again_and_a_fenced_producer_gets_nothing(
    broker: BrokerProcess,
) -> None:
    first = init(broker)
    add(broker, first)
    told = end(broker, first, END_2, True)
    assert (told.producer_id, told.producer_epoch) == (first[0], first[1] + 1)
    broker.kill()
    broker.start()
    again = end(broker, first, END_2, True)
    assert again.error_code == 0
    assert (again.producer_id, again.producer_epoch) == (first[0], first[1] + 1)

    old = again.producer_id, again.producer_epoch
    successor = init(broker)
    assert successor == (old[0], old[1] + 1)
    add(broker, successor)
    assert end(broker, successor, END_1, False).error_code == 0
    assert end(broker, old, END_2, False).error_code == Error.PRODUCER_FENCED
    broker.kill()
    broker.start()
    assert end(broker, old, END_2, False).error_code == Error.PRODUCER_FENCED
    add(broker, successor)
    assert end(broker, old, END_2, True).error_code == Error.PRODUCER_FENCED
    assert end(broker, successor, END_1, True).error_code == 0
