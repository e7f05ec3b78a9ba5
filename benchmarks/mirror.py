"""`moldau mirror` beside MirrorMaker 2, in one run: the same data from the same Apache Kafka, each
to a new Moldau broker.

    python -m benchmarks.mirror --megabytes 500

MirrorMaker 2 is run as it comes, with as many tasks as there are partitions. Two times are said of
each: from its start, and from its first record on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

import moldau.testing
from tests.support.apache_kafka import ApacheKafka, fetch, logging_option
from tests.support.tracked_topic import create

VERSION = "4.3.1"
POM = Path("tests/compat/clients/java_mirror/pom.xml")
TOPIC = "data"
PARTITIONS = 4
RECORD_BYTES = 1000
SECONDS_MAX = 900
POLL_S = 0.05


class Took(NamedTuple):
    total_s: float
    copying_s: float
    """From the first record on."""


def mirror_maker_home() -> Path:
    home = Path.home() / ".cache" / "moldau" / f"mirror-maker-{VERSION}"
    if not (home / "libs" / f"connect-mirror-{VERSION}.jar").exists():
        fetch(home, POM)
    return home


def fill(bootstrap: str, megabytes: int) -> int:
    """How many records there are."""
    create(bootstrap, TOPIC, PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 200_000}
    )
    count = megabytes * 1_000_000 // RECORD_BYTES
    value = os.urandom(RECORD_BYTES)
    for number in range(count):
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(SECONDS_MAX):
        raise RuntimeError("not all records were written")
    return count


class Ends:
    """How many records a topic has by now."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "-", "log_level": 0})

    def __call__(self) -> int:
        try:
            return sum(
                self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), 10)[1]
                for number in range(PARTITIONS)
            )
        except KafkaException:
            return 0


def timed(command: list[str], ends: Callable[[], int], count: int, log: Path) -> Took:
    started = time.monotonic()
    first = None
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            while (there := ends()) < count:
                now = time.monotonic()
                if first is None and there:
                    first = now
                if now - started > SECONDS_MAX or process.poll() not in (None, 0):
                    raise RuntimeError(f"it did not end: {log.read_text()[-2000:]}")
                time.sleep(POLL_S)
            ended = time.monotonic()
        finally:
            process.terminate()
            process.wait()
    return Took(ended - started, ended - (first or started))


def moldau_mirror(source: str, scratch: Path, count: int) -> Took:
    with moldau.testing.broker(with_faults=False) as target:
        file = scratch / "mirror.properties"
        file.write_text(
            f"source.bootstrap.servers={source}\n"
            f"target.bootstrap.servers={target.bootstrap}\ntopics={TOPIC}\n"
        )
        command = [sys.executable, "-m", "moldau.main", "mirror", "run", str(file)]
        return timed(command, Ends(target.bootstrap, TOPIC), count, scratch / "mirror.log")


def mirror_maker(source: str, scratch: Path, count: int) -> Took:
    with moldau.testing.broker(with_faults=False) as target:
        rows = {
            "clusters": "a, b",
            "a.bootstrap.servers": source,
            "b.bootstrap.servers": target.bootstrap,
            "a->b.enabled": "true",
            "b->a.enabled": "false",
            "a->b.topics": TOPIC,
            "tasks.max": str(PARTITIONS),
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "config.storage.replication.factor": "1",
        }
        file = scratch / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in rows.items()))
        command = [
            *("java", "-Xms256m", "-Xmx2g", "-XX:+UseG1GC", logging_option("WARN", scratch)),
            *("-cp", str(mirror_maker_home() / "libs" / "*")),
            *("org.apache.kafka.connect.mirror.MirrorMaker", str(file)),
        ]
        ends = Ends(target.bootstrap, f"a.{TOPIC}")
        return timed(command, ends, count, scratch / "mm2.log")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    mirror_maker_home()
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        with ApacheKafka(scratch / "kafka") as kafka:
            count = fill(kafka.bootstrap, given.megabytes)
            for _ in range(given.rounds):
                ours = moldau_mirror(kafka.bootstrap, scratch, count)
                theirs = mirror_maker(kafka.bootstrap, scratch, count)
                for name, took in (("moldau mirror", ours), ("MirrorMaker 2", theirs)):
                    print(
                        f"{name}: {given.megabytes / took.total_s:.1f} MB/s from its start,"
                        f" {given.megabytes / took.copying_s:.1f} MB/s from its first record"
                    )
                print(
                    f"ratio {theirs.total_s / ours.total_s:.1f} from the start,"
                    f" {theirs.copying_s / ours.copying_s:.1f} from the first record"
                )


if __name__ == "__main__":
    main()
