"""The exactly-once demonstration: instances of a loop that reads, writes and commits as one.

Each instance is a process of a foreign client (`clients/confluent_transform.py`,
`clients/java/Transform.java`, `transform` in `clients/franzgo`) that gets one JSON object:
bootstrap, source, target, group, transactional_id, session_timeout_ms, heartbeat_ms, records_max
(per transaction) and abort_every (so many transactions, 0 for none). It ends with its input.
An instance that is killed is replaced by one with the same transactional id.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
from confluent_kafka import KafkaError, TopicPartition

from tests.compat.clients.program import franz_go_command, java_command

ROOT = Path(__file__).parents[2]
SESSION_TIMEOUT_MS = 2000
HEARTBEAT_MS = 300
END_SECONDS_MAX = 30

COMMANDS: dict[str, Callable[[], list[str]]] = {
    "confluent-kafka": lambda: [sys.executable, "-m", "tests.compat.clients.confluent_transform"],
    "franz-go": lambda: [*franz_go_command(), "transform"],
    "java": lambda: java_command("Transform"),
}


class Demo(NamedTuple):
    """Where the loop reads and writes, and its size."""

    bootstrap: str
    source: str
    target: str
    group: str
    partitions: int
    records_max: int = 100
    abort_every: int = 0


class Instances:
    """Running processes by their number; the number is part of the transactional id."""

    def __init__(self, client: str, demo: Demo) -> None:
        self.command = COMMANDS[client]()
        self.demo = demo
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int) -> None:
        wanted = {
            **self.demo._asdict(),
            "transactional_id": f"{self.demo.group}-{number}",
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_ms": HEARTBEAT_MS,
        }
        self.running[number] = subprocess.Popen(
            [*self.command, json.dumps(wanted)], stdin=subprocess.PIPE, cwd=ROOT
        )

    def kill(self, number: int) -> None:
        """Without a word of goodbye, wherever it is in its transaction."""
        process = self.running.pop(number)
        assert process.poll() is None, f"instance {number} ended by itself: {process.returncode}"
        process.kill()
        self.wait(process)

    def end(self) -> None:
        """All of them finish what they are at."""
        for process in self.running.values():
            assert process.stdin is not None
            process.stdin.close()
        codes = {number: self.wait(process) for number, process in self.running.items()}
        self.running.clear()
        assert not any(codes.values()), f"instances ended badly: {codes}"

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        assert process.stdin is not None
        try:
            return process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            process.stdin.close()

    def __enter__(self) -> Instances:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
            self.wait(process)


@contextmanager
def reader(demo: Demo) -> Iterator[confluent_kafka.Consumer]:
    """Reads committed records of the target from its start."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": demo.bootstrap,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    start = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([TopicPartition(demo.target, p, start) for p in range(demo.partitions)])
    yield consumer
    consumer.close()


def run(
    client: str, demo: Demo, count: int, instances: int, kills: Sequence[int], chance: random.Random
) -> None:
    """Runs until the target holds `count` different records.

    Whenever so many records as `kills` says have come out, one instance is killed.
    """
    seen: set[bytes] = set()
    due = sorted(kills)
    deadline = time.monotonic() + 60 + count / 500 + 15 * len(kills)
    with Instances(client, demo) as running, reader(demo) as consumer:
        for number in range(instances):
            running.start(number)
        while len(seen) < count:
            assert time.monotonic() < deadline, f"only {len(seen)} of {count} records came out"
            for message in consumer.consume(500, 0.05):
                if message.error() is None:
                    seen.add(message.value())
            if due and len(seen) >= due[0]:
                due.pop(0)
                number = chance.randrange(instances)
                running.kill(number)
                running.start(number)
        running.end()


def committed_values(demo: Demo) -> list[bytes]:
    """All that a reader of committed records finds in the target."""
    found: list[bytes] = []
    at_end: set[int] = set()
    deadline = time.monotonic() + 60
    with reader(demo) as consumer:
        while len(at_end) < demo.partitions:
            assert time.monotonic() < deadline, "the end of the target was not reached"
            for message in consumer.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    found.append(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(message.partition())
    return found
