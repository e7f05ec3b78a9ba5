"""Clients whose process forks, or whose loop ends: everybody is told, and nothing is accepted."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

from moldau import Admin, NewTopic

Name = Callable[[str], str]
PARTITIONS = 4


@pytest.fixture(scope="module")
def topic(bootstrap: str, fresh_name: Name) -> Iterator[str]:
    name = fresh_name("forked")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)]).check()
        yield name


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
producer.send(topic, b"first", partition=0).result(30)
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
        told(under_way.result, 30),
        told(consumer.poll, None),
        told(consumer.position, (topic, 0)),
        told(admin.list_topics),
    ):
        print(line, flush=True)
    producer.close(), consumer.close(), admin.close()
    with Producer(bootstrap_servers=bootstrap) as own:
        print(own.send(topic, b"of the child's own", partition=1).result(30).offset, flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert under_way.result(30).offset > 0
assert producer.send(topic, b"later", partition=0).result(30).offset > 0
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
    await (await producer.send(topic, b"1"))
    await admin.list_topics()
    consumer.assign([(topic, 0)])
    await consumer.poll(0.1)
    if (child := os.fork()) == 0:
        return False
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    await (await producer.send(topic, b"2"))
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
from moldau.client.shared import background_loop as loop_thread
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

getter = threading.Thread(target=lambda: flushed.append(told(waiting.result)))
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
    print(own.send(topic, b"4", partition=1).result(30).offset)
"""


def test_when_the_client_loop_dies_everybody_who_waits_is_told(bootstrap: str, topic: str) -> None:
    *refusals, heard, own = run_program(ENDED, bootstrap, topic).splitlines()
    assert len(refusals) == 5
    for line in refusals:
        assert "Error: " in line and "ZeroDivisionError" in line, line
    assert int(heard) == 1
    assert int(own) >= 0


def test_system_exit_in_a_coroutine_ends_the_call_and_not_the_loop() -> None:
    from moldau.client.shared.background_loop import background_loop, run

    async def leave() -> None:
        raise SystemExit(7)

    async def answer() -> int:
        return 1

    before = background_loop()
    with pytest.raises(SystemExit):
        run(leave())
    assert run(answer()) == 1
    assert background_loop() is before
