"""What is answered to an end of a transaction that the state does not allow, request by request.

librdkafka ends such a producer: INVALID_TXN_STATE is fatal to it. So this compares with Apache
Kafka 4.3.1 when it is told so, and when it is not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.model.errors import Error
from moldau.records.batch_codec import Record, encode_batch
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.produce import ProduceResponse
from moldau.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.eventually import eventually
from tests.support.hostile_costs import Client, create, produce_of

pytestmark = pytest.mark.compat

TOPIC = "states"
VERSION_1, VERSION_2 = 4, 5
"""Of EndTxn: the second tells that the client has an epoch for every transaction."""
BEFORE_ABORTABLE = 9
"""A version of Produce whose clients do not know TRANSACTION_ABORTABLE."""


class Producer:
    def __init__(self, port: int, name: str) -> None:
        self.name = name
        self.client = Client(port)
        eventually(lambda: self._coordinator() is Error.NONE, 30.0)
        eventually(self._initialized, 30.0)

    def _coordinator(self) -> Error:
        answer = self.client.ask(10, 1, FindCoordinatorRequest(key=self.name, key_type=1))
        assert isinstance(answer, FindCoordinatorResponse)
        return Error(answer.error_code)

    def _initialized(self) -> bool:
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = self.client.ask(22, 4, request)
        assert isinstance(answer, InitProducerIdResponse)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code == 0

    def add(self) -> Error:
        topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )
        while True:
            answer = self.client.ask(24, 3, request)
            assert isinstance(answer, AddPartitionsToTxnResponse)
            rows = answer.results_by_topic_v3_and_below[0].results_by_partition
            error = Error(rows[0].partition_error_code)
            if error is not Error.CONCURRENT_TRANSACTIONS:
                return error
            time.sleep(0.02)

    def end(self, version: int, committed: bool) -> Error:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        while True:
            answer = self.client.ask(26, version, request)
            assert isinstance(answer, EndTxnResponse)
            error = Error(answer.error_code)
            if error is Error.NONE and version >= VERSION_2:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            if error is not Error.CONCURRENT_TRANSACTIONS:
                return error
            time.sleep(0.02)

    def produce(self) -> Error:
        row = Record(0, int(time.time() * 1000), None, b"x")
        records = encode_batch(
            [row],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        request = produce_of(TOPIC, {0: records})
        request.transactional_id, request.acks = self.name, -1
        answer = self.client.ask(0, BEFORE_ABORTABLE, request)
        assert isinstance(answer, ProduceResponse)
        return Error(answer.responses[0].partition_responses[0].error_code)


@pytest.fixture(scope="module", params=["moldau", "kafka-4.3.1"])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory: Path = tmp_path_factory.mktemp("states")
    if request.param == "moldau":
        with BrokerProcess(directory) as broker:
            create(broker.port, {TOPIC: 1})
            yield broker.port
        return
    with ApacheKafka(directory) as kafka:
        create(kafka.port, {TOPIC: 1})
        yield kafka.port


def outcome(port: int, version: int, steps: str) -> str:
    """`steps` is a letter each: add a partition, produce, commit, abort, Initialize anew."""
    producer = Producer(port, f"{steps}-{version}-{time.monotonic_ns()}")
    does = {
        "+": producer.add,
        "p": producer.produce,
        "c": lambda: producer.end(version, committed=True),
        "a": lambda: producer.end(version, committed=False),
    }
    told = " ".join(does[step]().name for step in steps)
    producer.client.socket.close()
    return told.replace("INVALID_TXN_STATE", "invalid").replace("NONE", "ok")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("c", "invalid"),
        ("a", "invalid"),
        ("+c", "ok ok"),
        ("+cc", "ok ok ok"),
        ("+ca", "ok ok invalid"),
        ("+a", "ok ok"),
        ("+aa", "ok ok ok"),
        ("+ac", "ok ok invalid"),
        ("+c+a", "ok ok ok ok"),
        ("p", "invalid"),
        ("+cp", "ok ok invalid"),
        ("+p+c", "ok ok ok ok"),
    ],
)
def test_ends_of_version_1_are_answered_as_by_apache_kafka(
    port: int, steps: str, expected: str
) -> None:
    assert outcome(port, VERSION_1, steps) == expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("c", "invalid"),
        ("a", "ok"),
        ("aa", "ok ok"),
        ("ac", "ok invalid"),
        ("+cc", "ok ok invalid"),
        ("+ca", "ok ok ok"),
        ("+ac", "ok ok invalid"),
        ("+aa", "ok ok ok"),
    ],
)
def test_ends_of_version_2_are_answered_as_by_apache_kafka(
    port: int, steps: str, expected: str
) -> None:
    assert outcome(port, VERSION_2, steps) == expected
