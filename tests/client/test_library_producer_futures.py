"""What `send` gives back behaves as a future of the standard library does."""

from __future__ import annotations

import asyncio
import concurrent.futures
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from moldau import Admin, NewTopic, Producer, RecordMetadata, aio, errors
from moldau.client.producer.producer_batch import ProducerBatch
from moldau.client.producer.record_future import RecordFuture

Name = Callable[[str], str]


@pytest.fixture(scope="module")
def topic(bootstrap: str, fresh_name: Name) -> Iterator[str]:
    name = fresh_name("futures")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    yield name


def test_wait_and_as_completed_take_what_send_gives(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        sent = [producer.send(topic, b"x") for _ in range(20)]
        done, left = concurrent.futures.wait(sent, timeout=60)
        assert (len(done), len(left)) == (20, 0)
        more = [producer.send(topic, b"y") for _ in range(20)]
        offsets = {f.result().offset for f in concurrent.futures.as_completed(more, timeout=60)}
        assert len(offsets) == 20
        assert producer.send_many(topic, [b"z"] * 7).result(60) == 7


def test_asyncio_can_wrap_what_send_gives(bootstrap: str, topic: str) -> None:
    async def main(producer: Producer) -> RecordMetadata:
        return await asyncio.wrap_future(producer.send(topic, b"x"))

    with Producer(bootstrap_servers=bootstrap) as producer:
        assert asyncio.run(main(producer)).topic == topic


def test_a_callback_is_given_the_future(bootstrap: str, topic: str) -> None:
    heard: list[object] = []
    told = threading.Event()

    def tell(future: object) -> None:
        heard.append(future)
        told.set()

    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        future = producer.send(topic, b"x")
        future.add_done_callback(tell)
        assert told.wait(60)
        future.add_done_callback(tell)
        assert heard == [future, future]
        assert future.exception() is None
        assert isinstance(future, concurrent.futures.Future)
        assert not future.cancel() and not future.cancelled()


def test_waiting_too_long_is_a_timeout_of_kafka_and_of_python() -> None:
    future = RecordFuture(ProducerBatch("t", 0, 1000, 0), 0, 0)
    for wait in (future.result, future.exception):
        with pytest.raises(TimeoutError) as caught:
            wait(0.01)
        assert isinstance(caught.value, errors.KafkaTimeoutError)
    assert future.running() and not future.done()


def test_the_error_of_a_record_comes_out_of_result_and_of_exception() -> None:
    batch = ProducerBatch("t", 0, 1000, 0)
    waited, seen = RecordFuture(batch, 0, 0), RecordFuture(batch, 1, 0)
    thread = threading.Thread(target=lambda: batch.fail(errors.KafkaTimeoutError("too late")))
    concurrent.futures.wait([waited], timeout=0)
    thread.start()
    with pytest.raises(errors.KafkaTimeoutError, match="too late"):
        waited.result(60)
    assert isinstance(seen.exception(), errors.KafkaTimeoutError)
    thread.join()


def test_many_threads_may_wait_for_one_record() -> None:
    for _ in range(50):
        batch = ProducerBatch("t", 0, 1000, 0)
        future = RecordFuture(batch, 0, 0)
        found: list[RecordMetadata] = []
        start = threading.Barrier(4)

        def get(
            future: RecordFuture = future,
            start: threading.Barrier = start,
            found: list[RecordMetadata] = found,
        ) -> None:
            start.wait()
            found.append(future.result(60))

        threads = [threading.Thread(target=get) for _ in range(3)]
        for thread in threads:
            thread.start()
        start.wait()
        batch.complete(5, -1)
        for thread in threads:
            thread.join(60)
        assert [row.offset for row in found] == [5, 5, 5]


def test_a_future_that_nobody_looks_at_makes_no_lock() -> None:
    future = RecordFuture(ProducerBatch("t", 0, 1000, 0), 0, 0)
    assert not vars(future)
    assert not future.done()
    assert not vars(future)
    future.running()
    assert vars(future)


def test_what_the_asyncio_producer_gives_is_awaited(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with aio.Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
            sent = await producer.send(topic, b"x")
            with pytest.raises(asyncio.InvalidStateError):
                sent.result()
            stored = await sent
            assert sent.done() and sent.result() == stored and sent.exception() is None
            heard: list[object] = []
            sent.add_done_callback(heard.append)
            assert heard == [sent]
            assert await (await producer.send_many(topic, [b"y"] * 3)) == 3
            many = await producer.send_many(topic, [b"y"] * 3, keys=[b"a", b"b", b"a"])
            assert await many == 3

    asyncio.run(main())


def test_importing_the_producer_loads_neither_consumer_nor_admin() -> None:
    program = "import sys; from moldau import Producer; Producer; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "moldau.client.producer.blocking_producer" in loaded, done.stderr
    assert "moldau.client.consumer.blocking_consumer" not in loaded
    assert "moldau.client.admin.blocking_admin" not in loaded
