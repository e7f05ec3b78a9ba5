"""Producers that come once and never again leave nothing behind: what was known of them expires.

Each start of an idempotent producer is a new producer id in every partition that it writes to, and
each transactional id is a row of its coordinator. Both are forgotten in time, and so is the memory
that they took: wave after wave needs no more than the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from moldau.model.errors import Error
from moldau.records.batch_codec import Record, encode_batch
from moldau.storage.log_state.producer_room import PRODUCER_BYTES
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.produce import ProduceResponse
from moldau.wire.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TopicRequest,
)
from moldau.wire.messages.transactions import InitProducerIdRequest
from tests.support.eventually import eventually
from tests.support.hostile_costs import (
    Client,
    batch_of,
    create,
    produce_of,
    request_of,
    resident_bytes,
    send_and_read,
)

WAVES = 6
PRODUCERS = 10_000
LEFT_BYTES_MAX = 12_000_000
"""Between the first wave and the last: 20 MB if producers are kept, 30 MB if transactional ids are;
2 to 3 MB if they expire at once, some more where a busy machine lets waves overlap: pieces that the
C library keeps."""
TOPIC = "waves"
LIMIT = 1024 * 1024
ROOM = LIMIT // PRODUCER_BYTES


def grown_bytes(broker: BrokerProcess, wave: Callable[[int], None]) -> int:
    """What the waves after the first have left in memory."""
    wave(0)
    before = resident_bytes(broker.pid)
    for number in range(1, WAVES):
        wave(number)
    grown = resident_bytes(broker.pid) - before
    print(f"{WAVES - 1} waves more have left {grown / 1e6:.1f} MB")
    return grown


def test_producers_that_do_not_come_back_leave_no_memory_behind(tmp_path: Path) -> None:
    overrides = {"producer.id.expiration.ms": "500"}
    overrides["producer.id.expiration.check.interval.ms"] = "200"
    with BrokerProcess(tmp_path, overrides=overrides) as broker:
        create(broker.port, {TOPIC: 1})

        def wave(number: int) -> None:
            ids = range(number * PRODUCERS, (number + 1) * PRODUCERS)
            frames = [request_of(0, 7, produce_of(TOPIC, {0: batch_of(b"x", n)})) for n in ids]
            send_and_read(broker.port, frames)
            eventually(lambda: producers_of(broker.port) == 0, 60.0)

        assert grown_bytes(broker, wave) < LEFT_BYTES_MAX


def producers_of(port: int) -> int:
    with Client(port) as client:
        topics = [TopicRequest(name=TOPIC, partition_indexes=[0])]
        answer = client.ask(61, 0, DescribeProducersRequest(topics=topics))
    assert isinstance(answer, DescribeProducersResponse)
    return len(answer.topics[0].partitions[0].active_producers)


def test_transactional_ids_that_do_not_come_back_leave_no_memory_behind(tmp_path: Path) -> None:
    overrides = {
        "transactional.id.expiration.ms": "500",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
        "transaction.state.log.num.partitions": "1",
    }
    with BrokerProcess(tmp_path, overrides=overrides) as broker:
        with Client(broker.port) as client:
            client.ask(10, 1, FindCoordinatorRequest(key="first", key_type=1))
        eventually(lambda: init(broker.port, "first") == 0)

        def wave(number: int) -> None:
            requests = [
                InitProducerIdRequest(
                    transactional_id=f"id-{number}-{n}", transaction_timeout_ms=1_000
                )
                for n in range(PRODUCERS)
            ]
            send_and_read(broker.port, [request_of(22, 1, each) for each in requests])
            eventually(lambda: transactions_of(broker.port) == 0, 60.0)

        assert grown_bytes(broker, wave) < LEFT_BYTES_MAX


def init(port: int, transactional_id: str) -> int:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1_000)
    with Client(port) as client:
        return int(getattr(client.ask(22, 1, request), "error_code"))  # noqa: B009


def transactions_of(port: int) -> int:
    with Client(port) as client:
        answer = client.ask(66, 0, ListTransactionsRequest())
    assert isinstance(answer, ListTransactionsResponse)
    assert answer.error_code == 0
    return len(answer.transaction_states)


def test_producers_have_a_limit_and_one_partition_that_is_full_keeps_nobody_out_of_others(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path, overrides={"producer.state.max.bytes": f"{LIMIT}"}) as broker:
        create(broker.port, {TOPIC: 1, "others": 1})
        with Client(broker.port) as client:
            told = [produced(client, TOPIC, 100 + n) for n in range(2 * ROOM)]
            assert told == [Error.NONE] * ROOM + [Error.NOT_ENOUGH_REPLICAS] * ROOM
            assert produced(client, TOPIC, 100, sequence=1) == Error.NONE, "who is known goes on"
            assert produced(client, "others", 7) == Error.NONE
            set_broker(client, "producer.state.max.bytes", f"{2 * LIMIT}")
            eventually(lambda: produced(client, TOPIC, 5) == Error.NONE)


def test_a_changed_producer_id_expiration_takes_effect_at_once(tmp_path: Path) -> None:
    overrides = {"producer.id.expiration.check.interval.ms": "100"}
    with BrokerProcess(tmp_path, overrides=overrides) as broker:
        create(broker.port, {TOPIC: 1})
        with Client(broker.port) as client:
            assert produced(client, TOPIC, 7) == Error.NONE
            assert producers_of(broker.port) == 1
            set_broker(client, "producer.id.expiration.ms", "50")
        eventually(lambda: producers_of(broker.port) == 0)


def produced(client: Client, topic: str, producer_id: int, sequence: int = 0) -> Error:
    row = Record(0, int(time.time() * 1000), None, b"x")
    records = encode_batch([row], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    answer = client.ask(0, 7, produce_of(topic, {0: records}))
    assert isinstance(answer, ProduceResponse)
    return Error(answer.responses[0].partition_responses[0].error_code)


def set_broker(client: Client, name: str, value: str) -> None:
    change = IncrementalAlterableConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsResource(resource_type=4, resource_name="", configs=[change])
    answer = client.ask(44, 1, IncrementalAlterConfigsRequest(resources=[resource]))
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == 0, answer
