"""User code that raises, forks, ends: it is told of, and costs no other record its answer."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau import Admin, NewTopic
from moldau.client import errors
from moldau.client.interceptors import ProducerInterceptor
from moldau.client.producer import Producer
from moldau.client.producer_async import Producer as AsyncProducer

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
        producer.send(topic, b"first", partition=0).get(30)
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
        assert [delivery.get(30).partition for delivery in deliveries] == [0, 0, 1, 1, 2, 2, 3, 3]
        producer.flush(30)
        assert sorted(heard) == list(range(PARTITIONS))
        # The loop goes on for everybody.
        assert producer.send(topic, b"after").get(30).offset >= 0
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == PARTITIONS
    assert all(
        "callback" in record.getMessage() and topic in record.getMessage() for record in told
    )


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
    assert delivery.get(0).offset >= 0
    assert closed == [True]


def test_closing_and_flushing_in_a_callback_are_refused_and_nothing_hangs(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        first = producer.send(topic, b"1", on_delivery=lambda *_: producer.close())
        second = producer.send(topic, b"2", on_delivery=lambda *_: producer.flush())
        assert first.get(30).offset >= 0
        assert second.get(30).offset >= 0
        producer.flush(30)
        assert producer.send(topic, b"3").get(30).offset >= 0
    assert sum("callback" in record.getMessage() for record in caplog.records) == 2


def test_a_waiter_whose_event_loop_is_gone_keeps_nobody_from_the_answer(
    bootstrap: str, topic: str
) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=300) as producer:
        producer.send(topic, b"first", partition=0).get(30)
        given_up = producer.send(topic, b"1", partition=0)
        other = producer.send(topic, b"2", partition=1)

        async def wait_a_little() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_of(given_up), 0.01)

        asyncio.run(wait_a_little())
        assert other.get(30).offset >= 0
        assert given_up.get(30).offset >= 0


async def _of(delivery: Any) -> Any:
    return await delivery


@pytest.mark.parametrize("stamp", [-1, 1 << 63, 1.5, "now"])
def test_a_timestamp_that_cannot_be_sent_is_refused_at_once(
    bootstrap: str, topic: str, stamp: Any
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"good", partition=0).get(30)
        with pytest.raises((ValueError, TypeError), match="timestamp"):
            producer.send(topic, b"bad", partition=0, timestamp_ms=stamp)
        assert producer.send(topic, b"good", partition=0).get(30).offset >= 0


def test_a_bulk_with_a_value_that_cannot_be_sent_harms_no_other_batch(
    bootstrap: str, topic: str
) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=100) as producer:
        producer.send(topic, b"first", partition=0).get(30)
        with pytest.raises(errors.SerializationError):
            producer.send_many(topic, [b"good", 17])
        deliveries = [producer.send(topic, b"x", partition=p) for p in range(PARTITIONS)]
        for delivery in deliveries:
            assert delivery.get(30).offset >= 0


def test_a_record_that_cannot_be_encoded_fails_and_the_others_of_its_request_do_not(
    bootstrap: str, topic: str
) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=200) as producer:
        producer.send(topic, b"first", partition=0).get(30)
        bad = producer.send(topic, b"bad", partition=0)
        bad.batch.stamps[0] = "no number"  # type: ignore[call-overload]
        good = producer.send(topic, b"good", partition=1)
        assert good.get(30).offset >= 0
        with pytest.raises(errors.KafkaError, match="encoded"):
            bad.get(30)
        assert producer.send(topic, b"after", partition=0).get(30).offset >= 0


def test_whoever_sends_while_another_thread_closes_hears_of_every_record(
    bootstrap: str, topic: str
) -> None:
    for _ in range(5):
        producer = Producer(bootstrap_servers=bootstrap, batch_size=200)
        producer.send(topic, b"first").get(30)
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


def run_program(text: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *args],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FORKED = """
import os, sys
from moldau import Producer, Consumer, Admin
bootstrap, topic = sys.argv[1:]
producer = Producer(bootstrap_servers=bootstrap, linger_ms=300)
consumer = Consumer(bootstrap_servers=bootstrap)
consumer.assign([(topic, 0)])
admin = Admin(bootstrap_servers=bootstrap)
admin.list_topics()
producer.send(topic, b"first", partition=0).get(30)
under_way = producer.send(topic, b"of the parent", partition=0)

def told(what, *args, **kwargs):
    try:
        return f"answered {what(*args, **kwargs)}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"

if (child := os.fork()) == 0:
    for line in (
        told(producer.send, topic, b"of the child", partition=0),
        told(producer.send, topic, b"of the child", key=b"k"),
        told(producer.send_many, topic, [b"of the child"]),
        told(producer.flush),
        told(producer.partitions_for, topic),
        told(under_way.get, 30),
        told(consumer.poll, None),
        told(consumer.position, (topic, 0)),
        told(admin.list_topics),
    ):
        print(line, flush=True)
    producer.close(), consumer.close(), admin.close()
    with Producer(bootstrap_servers=bootstrap) as own:
        print(own.send(topic, b"of the child's own", partition=1).get(30).offset, flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert under_way.get(30).offset > 0
assert producer.send(topic, b"later", partition=0).get(30).offset > 0
consumer.seek_to_beginning([(topic, 0)])
assert consumer.poll(30)
producer.close(), consumer.close(), admin.close()
print("the parent is well")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_clients_inherited_by_a_fork_refuse_in_one_sentence(bootstrap: str, topic: str) -> None:
    *refusals, own, parent = run_program(FORKED, bootstrap, topic).splitlines()
    assert len(refusals) == 9
    for line in refusals:
        assert line.startswith("IllegalStateError: "), line
        assert "fork" in line, line
    assert int(own) >= 0
    assert parent == "the parent is well"


FORKED_AIO = """
import asyncio, os, sys
from moldau import aio
bootstrap, topic = sys.argv[1:]
producer = aio.Producer(bootstrap_servers=bootstrap)
consumer = aio.Consumer(bootstrap_servers=bootstrap)
admin = aio.Admin(bootstrap_servers=bootstrap)

async def first():
    await producer.send_and_wait(topic, b"1")
    await admin.list_topics()
    consumer.assign([(topic, 0)])
    await consumer.poll(0.1)
    if (child := os.fork()) == 0:
        return False
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    await producer.send_and_wait(topic, b"2")
    return True

async def again():
    for call in (
        producer.send(topic, b"3"), producer.flush(), consumer.poll(30), admin.list_topics()
    ):
        try:
            await call
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        else:
            print("accepted", flush=True)

is_parent = asyncio.run(first())
asyncio.run(again())
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_asyncio_clients_refuse_in_a_fork_and_on_another_loop(bootstrap: str, topic: str) -> None:
    lines = run_program(FORKED_AIO, bootstrap, topic).splitlines()
    assert len(lines) == 8
    assert all(line.startswith("IllegalStateError: ") for line in lines), lines
    assert all("fork" in line for line in lines[:4]), lines
    assert all("loop" in line for line in lines[4:]), lines


ENDED = """
import sys, threading
from moldau import Producer, Admin
from moldau.client import loop_thread
bootstrap, topic = sys.argv[1:]
producer = Producer(bootstrap_servers=bootstrap, linger_ms=20_000, delivery_timeout_ms=60_000)
admin = Admin(bootstrap_servers=bootstrap)
admin.list_topics()
producer.send(topic, b"1", partition=0)
producer.flush()
heard = []
waiting = producer.send(topic, b"2", partition=0, on_delivery=lambda m, e: heard.append(e))
flushed = []

def told(what, *args):
    try:
        return f"answered {what(*args)}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"

getter = threading.Thread(target=lambda: flushed.append(told(waiting.get)))
getter.start()
async def for_ever():
    import asyncio
    await asyncio.sleep(1000)
caller = threading.Thread(target=lambda: flushed.append(told(loop_thread.run, for_ever())))
caller.start()
loop = loop_thread.background_loop()
def break_selector():
    loop._selector.select = lambda timeout: 1 / 0
loop.call_soon_threadsafe(break_selector)
getter.join(30), caller.join(30)
print(*flushed, sep="\\n")
print(told(producer.send, topic, b"3"))
print(told(producer.flush))
print(told(admin.list_topics))
print(len(heard))
with Producer(bootstrap_servers=bootstrap) as own:
    print(own.send(topic, b"4", partition=1).get(30).offset)
"""


def test_when_the_client_loop_dies_everybody_who_waits_is_told(bootstrap: str, topic: str) -> None:
    *refusals, heard, own = run_program(ENDED, bootstrap, topic).splitlines()
    assert len(refusals) == 5
    for line in refusals:
        assert "Error: " in line and "ZeroDivisionError" in line, line
    assert int(heard) == 1
    assert int(own) >= 0


def test_system_exit_in_a_coroutine_ends_the_call_and_not_the_loop() -> None:
    from moldau.client.loop_thread import background_loop, run

    async def leave() -> None:
        raise SystemExit(7)

    async def answer() -> int:
        return 1

    before = background_loop()
    with pytest.raises(SystemExit):
        run(leave())
    assert run(answer()) == 1
    assert background_loop() is before


def test_keyboard_interrupt_in_a_callback_of_the_asyncio_producer_leaves_its_loop_last(
    bootstrap: str, topic: str
) -> None:
    """The loop is the user's, so is the interrupt; but first every batch has its answer."""
    landed: list[int] = []

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap, linger_ms=100) as producer:
            await producer.send_and_wait(topic, b"first", partition=0)
            for partition in range(PARTITIONS):
                await producer.send(
                    topic,
                    b"x",
                    partition=partition,
                    on_delivery=raiser(KeyboardInterrupt()) if not partition else None,
                )
            batches = list(producer.accumulator.incomplete)
            for batch in batches:
                batch.when_done(lambda: landed.append(1))
            await asyncio.sleep(30)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert len(landed) >= PARTITIONS
