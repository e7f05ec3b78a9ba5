"""User code around the producer that raises: it costs no other record its answer."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau import Admin, Consumer, NewTopic
from moldau.client.producer.asyncio_producer import Producer as AsyncProducer
from moldau.client.producer.blocking_producer import Producer
from moldau.client.shared import client_errors as errors
from moldau.client.shared.interceptors import ProducerInterceptor, ProducerRecord

Name = Callable[[str], str]
PARTITIONS = 4
FAULTS = [ValueError("no"), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt()]


@pytest.fixture(scope="module")
def topic(bootstrap: str, fresh_name: Name) -> Iterator[str]:
    name = fresh_name("answered")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)]).check()
        yield name


def raiser(fault: BaseException) -> Callable[..., None]:
    def fail(*_: Any) -> None:
        raise fault

    return fail


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("way", ["on_delivery", "add_done_callback"])
def test_a_callback_that_raises_leaves_no_other_batch_unanswered(
    bootstrap: str, topic: str, way: str, fault: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []
    with Producer(bootstrap_servers=bootstrap, linger_ms=200) as producer:
        producer.send(topic, b"first", partition=0).result(30)
        deliveries = []
        # One request with a batch for each partition; each has a bad callback and a good one.
        for partition in range(PARTITIONS):
            on_delivery = raiser(fault) if way == "on_delivery" else None
            bad = producer.send(topic, b"bad", partition=partition, on_delivery=on_delivery)
            if way == "add_done_callback":
                bad.add_done_callback(raiser(fault))
            good = producer.send(
                topic,
                b"good",
                partition=partition,
                on_delivery=lambda metadata, error: heard.append(metadata.partition),
            )
            deliveries += [bad, good]
        assert [delivery.result(30).partition for delivery in deliveries] == [
            0,
            0,
            1,
            1,
            2,
            2,
            3,
            3,
        ]
        producer.flush(30)
        assert sorted(heard) == list(range(PARTITIONS))
        # The loop goes on for everybody.
        assert producer.send(topic, b"after").result(30).offset >= 0
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == PARTITIONS
    assert all(
        "callback" in record.getMessage() and topic in record.getMessage() for record in told
    )


@pytest.mark.parametrize("choice", [99, -1, None, 1.5, ValueError("no"), SystemExit(3)], ids=repr)
def test_a_partitioner_that_fails_ends_its_send_and_nothing_else(
    bootstrap: str, topic: str, choice: Any
) -> None:
    def choose(_: Any, key: bytes | None, value: bytes | None) -> Any:
        if key == b"good":
            return 1
        if isinstance(choice, BaseException):
            raise choice
        return choice

    with Producer(bootstrap_servers=bootstrap, partitioner_class=choose) as producer:
        assert producer.send(topic, b"x", key=b"good").result(30).partition == 1
        with pytest.raises((ValueError, TypeError, SystemExit)):
            producer.send(topic, b"x", key=b"bad")
        assert producer.send(topic, b"x", key=b"good").result(30).partition == 1


@pytest.mark.parametrize("fault", [OSError("no"), RecursionError(), SystemExit(3)], ids=repr)
def test_a_serializer_that_fails_ends_its_send_and_nothing_else(
    bootstrap: str, topic: str, fault: BaseException
) -> None:
    def serialize(value: bytes) -> bytes:
        if value == b"bad":
            raise fault
        return value

    with Producer(bootstrap_servers=bootstrap, value_serializer=serialize) as producer:
        producer.send(topic, b"good").result(30)
        with pytest.raises(type(fault)):
            producer.send(topic, b"bad")
        producer.send(topic, b"good").result(30)
        assert producer.metrics()["record-send-total"] == 2


class Failing(ProducerInterceptor):
    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        raise RuntimeError("an interceptor's fault")


class Hearing(ProducerInterceptor):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self.heard.append(metadata)


def test_an_interceptor_that_raises_keeps_nobody_else_from_the_news(
    bootstrap: str, topic: str
) -> None:
    hearing, heard = Hearing(), []
    with Producer(
        bootstrap_servers=bootstrap, interceptor_classes=[Failing(), hearing]
    ) as producer:
        producer.send(topic, b"x", on_delivery=lambda metadata, error: heard.append(metadata))
        producer.flush(30)
    assert len(heard) == len(hearing.heard) == 1


def test_an_interceptor_that_raises_in_on_send_is_logged_and_passed_over(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Angry(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError("an interceptor's fault")

    class Marking(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record._replace(headers=(("marked", record.value),))

    hearing = Hearing()
    with Producer(
        bootstrap_servers=bootstrap, interceptor_classes=[Marking(), Angry(), hearing]
    ) as producer:
        stored = producer.send(topic, b"x").result(30)
    assert hearing.heard == [stored]
    assert any("an interceptor's fault" in record.getMessage() for record in caplog.records)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([(topic, stored.partition)])
        consumer.seek((topic, stored.partition), stored.offset)
        assert consumer.poll(30)[0].headers == (("marked", b"x"),)


def test_an_interceptor_that_cannot_close_keeps_the_producer_from_nothing(
    bootstrap: str, topic: str
) -> None:
    class Stuck(ProducerInterceptor):
        def close(self) -> None:
            raise RuntimeError("no end")

    hearing = Hearing()
    closed: list[bool] = []
    hearing.close = lambda: closed.append(True)  # type: ignore[method-assign]
    producer = Producer(bootstrap_servers=bootstrap, interceptor_classes=[Stuck(), hearing])
    delivery = producer.send(topic, b"x")
    producer.close()
    assert delivery.result(0).offset >= 0
    assert closed == [True]


def test_closing_and_flushing_in_a_callback_are_refused_and_nothing_hangs(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        first = producer.send(topic, b"1", on_delivery=lambda *_: producer.close())
        second = producer.send(topic, b"2", on_delivery=lambda *_: producer.flush())
        assert first.result(30).offset >= 0
        assert second.result(30).offset >= 0
        producer.flush(30)
        assert producer.send(topic, b"3").result(30).offset >= 0
    assert sum("callback" in record.getMessage() for record in caplog.records) == 2


def test_a_waiter_whose_event_loop_is_gone_keeps_nobody_from_the_answer(
    bootstrap: str, topic: str
) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=300) as producer:
        producer.send(topic, b"first", partition=0).result(30)
        given_up = producer.send(topic, b"1", partition=0)
        other = producer.send(topic, b"2", partition=1)

        async def wait_a_little() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_of(given_up), 0.01)

        asyncio.run(wait_a_little())
        assert other.result(30).offset >= 0
        assert given_up.result(30).offset >= 0


async def _of(delivery: Any) -> Any:
    return await asyncio.wrap_future(delivery)


@pytest.mark.parametrize("stamp", [-1, 1 << 63, 1.5, "now"])
def test_a_timestamp_that_cannot_be_sent_is_refused_at_once(
    bootstrap: str, topic: str, stamp: Any
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"good", partition=0).result(30)
        with pytest.raises((ValueError, TypeError), match="timestamp"):
            producer.send(topic, b"bad", partition=0, timestamp_ms=stamp)
        assert producer.send(topic, b"good", partition=0).result(30).offset >= 0


def test_a_bulk_with_a_value_that_cannot_be_sent_harms_no_other_batch(
    bootstrap: str, topic: str
) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=100) as producer:
        producer.send(topic, b"first", partition=0).result(30)
        with pytest.raises(errors.SerializationError):
            producer.send_many(topic, [b"good", 17])
        # What was taken before it is sent; a batch without records would end the whole request.
        producer.flush(30)
        assert producer.metrics()["record-send-total"] == 2
        deliveries = [producer.send(topic, b"x", partition=p) for p in range(PARTITIONS)]
        for delivery in deliveries:
            assert delivery.result(30).offset >= 0


def test_a_record_that_cannot_be_encoded_fails_and_the_others_of_its_request_do_not(
    bootstrap: str, topic: str
) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=200) as producer:
        producer.send(topic, b"first", partition=0).result(30)
        bad = producer.send(topic, b"bad", partition=0)
        bad._batch.stamps[0] = "no number"  # type: ignore[call-overload]
        good = producer.send(topic, b"good", partition=1)
        assert good.result(30).offset >= 0
        with pytest.raises(errors.KafkaError, match="encoded"):
            bad.result(30)
        assert producer.send(topic, b"after", partition=0).result(30).offset >= 0


def test_whoever_sends_while_another_thread_closes_hears_of_every_record(
    bootstrap: str, topic: str
) -> None:
    for _ in range(5):
        producer = Producer(bootstrap_servers=bootstrap, batch_size=200)
        producer.send(topic, b"first").result(30)
        accepted: list[Any] = []

        def send_on(producer: Producer = producer, accepted: list[Any] = accepted) -> None:
            with pytest.raises(errors.IllegalStateError):
                while True:
                    accepted.append(producer.send(topic, b"x" * 90))

        thread = threading.Thread(target=send_on)
        thread.start()
        while len(accepted) < 50:
            pass
        producer.close(0)
        thread.join(30)
        assert not thread.is_alive()
        assert all(delivery.done() for delivery in accepted)


def test_keyboard_interrupt_in_a_callback_of_the_asyncio_producer_leaves_its_loop_last(
    bootstrap: str, topic: str
) -> None:
    """The loop is the user's, so is the interrupt; but first every batch has its answer."""
    landed: list[int] = []

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap, linger_ms=100) as producer:
            await (await producer.send(topic, b"first", partition=0))
            for partition in range(PARTITIONS):
                await producer.send(
                    topic,
                    b"x",
                    partition=partition,
                    on_delivery=raiser(KeyboardInterrupt()) if not partition else None,
                )
            batches = list(producer._core.accumulator.incomplete)
            for batch in batches:
                batch.when_done(lambda: landed.append(1))
            await asyncio.sleep(30)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert len(landed) >= PARTITIONS
