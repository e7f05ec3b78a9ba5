"""Producers that nobody closes: dropped, or alive when the interpreter ends. Real processes."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau import Admin, Consumer, NewTopic
from moldau.testing.broker_process import BrokerProcess
from tests.client.conftest import SETTINGS

Name = Callable[[str], str]


@pytest.fixture()
def topic(bootstrap: str, fresh_name: Name) -> str:
    name = fresh_name("unclosed")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1, 1)]).check()
    return name


def run_program(text: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(text), *args],
        capture_output=True,
        text=True,
        timeout=100,
    )


def stored(bootstrap: str, topic: str) -> list[bytes]:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([(topic, 0)])[(topic, 0)]
        found: list[bytes] = []
        while len(found) < end:
            found += [record.value for record in consumer.poll(10)]
        return found


ENDS = """
import sys
from moldau import Producer
bootstrap, topic = sys.argv[1:]
producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
for n in range(3):
    producer.send(topic, b"%d" % n)
"""


def test_a_process_that_ends_sends_what_it_has_not_sent_and_says_so(
    bootstrap: str, topic: str
) -> None:
    done = run_program(ENDS, bootstrap, topic)
    assert done.returncode == 0, done.stderr
    assert stored(bootstrap, topic) == [b"0", b"1", b"2"], done.stderr
    assert "ResourceWarning" in done.stderr
    assert "3 records" in done.stderr
    assert "were not sent" not in done.stderr


def test_a_process_that_ends_finds_a_broker_by_its_name(tmp_path: Path, fresh_name: Name) -> None:
    """The threads that look up names are gone by then."""
    with BrokerProcess(tmp_path, overrides=SETTINGS) as broker:
        named = f"localhost:{broker.port}"
        broker.stop()
        broker.settings["advertised.listeners"] = f"PLAINTEXT://{named}"
        broker.start()
        with Admin(bootstrap_servers=named) as admin:
            admin.create_topics([NewTopic("named", 1, 1)]).check()
        done = run_program(ENDS, named, "named")
        assert done.returncode == 0, done.stderr
        assert stored(named, "named") == [b"0", b"1", b"2"], done.stderr


DROPS = """
import sys, warnings
from moldau import Consumer, Producer
bootstrap, topic = sys.argv[1:]

def lose():
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=600_000, delivery_timeout_ms=700_000)
    for n in range(3):
        producer.send(topic, b"%d" % n)

with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    lose()
    print(*(f"{w.category.__name__}: {w.message}" for w in seen), sep="\\n", flush=True)
consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
consumer.assign([(topic, 0)])
left = 3
while left:
    left -= len(consumer.poll(30))
print("all are there")
consumer.close()
"""


def test_a_producer_that_is_dropped_sends_what_it_has_not_sent_and_says_so(
    bootstrap: str, topic: str
) -> None:
    done = run_program(DROPS, bootstrap, topic)
    assert done.returncode == 0, done.stderr
    warning, there = done.stdout.splitlines()
    assert warning.startswith("ResourceWarning: ")
    assert "3 records" in warning
    assert there == "all are there"


QUIET = """
import sys
from moldau import Producer
bootstrap, topic = sys.argv[1:]

def use():
    Producer(bootstrap_servers=bootstrap)
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
    producer.send(topic, b"3")
    producer.flush()
    with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as closed:
        closed.send(topic, b"4")

use()
"""


def test_a_producer_with_nothing_to_send_goes_without_a_word(bootstrap: str, topic: str) -> None:
    done = run_program(QUIET, bootstrap, topic)
    assert (done.returncode, done.stderr) == (0, "")


DEAF = """
import sys
from moldau import Producer
bootstrap, topic = sys.argv[1:]
producer = Producer(bootstrap_servers=bootstrap)
producer.send(topic, b"heard").result(60)
print("heard", flush=True)
sys.stdin.readline()
for n in range(3):
    producer.send(topic, b"%d" % n)
"""


def test_a_process_ends_although_its_broker_does_not_answer_and_says_what_is_lost(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path, overrides=SETTINGS) as broker:
        with subprocess.Popen(
            [sys.executable, "-c", DEAF, broker.bootstrap, "deaf"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "heard\n"
            assert broker.process is not None
            broker.process.send_signal(signal.SIGSTOP)
            try:
                _, told = program.communicate("\n", timeout=60)
            finally:
                broker.process.send_signal(signal.SIGCONT)
        assert program.returncode == 0
        assert "3 records were not sent" in told


CHILD = """
import multiprocessing, sys
from moldau import Producer

def work(bootstrap, topic):
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
    for n in range(3):
        producer.send(topic, b"%d" % n)
    globals()["kept"] = producer

if __name__ == "__main__":
    with Producer(bootstrap_servers=sys.argv[1]) as own:
        own.partitions_for(sys.argv[2])
        child = multiprocessing.get_context(sys.argv[3]).Process(target=work, args=sys.argv[1:3])
        child.start()
        child.join()
    sys.exit(child.exitcode)
"""


@pytest.mark.parametrize(
    "method", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]
)
def test_a_child_of_multiprocessing_that_ends_sends_what_it_has_not_sent(
    bootstrap: str, topic: str, method: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(CHILD)
    done = subprocess.run(
        [sys.executable, program, bootstrap, topic, method],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert stored(bootstrap, topic) == [b"0", b"1", b"2"], done.stderr


AIO = """
import asyncio, sys
from moldau import aio
bootstrap, topic, kept = sys.argv[1:]
producers = []

async def main():
    producer = aio.Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
    for n in range(3):
        await producer.send(topic, b"%d" % n)
    if kept == "kept":
        producers.append(producer)

asyncio.run(main())
"""


@pytest.mark.parametrize("kept", ["kept", "dropped"])
def test_an_asyncio_producer_that_nobody_closed_says_what_is_lost(
    bootstrap: str, topic: str, kept: str
) -> None:
    done = run_program(AIO, bootstrap, topic, kept)
    assert done.returncode == 0, done.stderr
    assert "ResourceWarning" in done.stderr
    assert "3 records" in done.stderr
