"""Mirrors of Apache Kafka, killed at random: both hold the same bytes, Kafka can read them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

import moldau.testing
from moldau.admin import Admin, ConfigResource
from moldau.testing.local_broker import LocalBroker
from tests.support import seeds
from tests.support.apache_kafka import ApacheKafka, run_tool
from tests.support.eventually import eventually
from tests.support.fork_load import COPIES, TOPICS, TransactionalLoad, check_fork
from tests.support.mirrors import bytes_of, kill, mirror_file, mirror_well, start_mirror
from tests.support.tracked_topic import create, delete_records, produce, read

pytestmark = [pytest.mark.compat, pytest.mark.timeout(1800)]

SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "1000",
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KILLS = 20
SECONDS_MAX = 120
KEYS = 50


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), SETTINGS) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def target() -> Iterator[LocalBroker]:
    # What is compacted at two moments differs; here it is the copying that is judged.
    own = {**SETTINGS, "log.cleaner.enable": "false"}
    with moldau.testing.broker(own, with_faults=False) as target:
        yield target


def content(kafka: ApacheKafka, place: str) -> bytes:
    paths = sorted((kafka.log_directory / place).glob("*.log"))
    return b"".join(path.read_bytes() for path in paths)


def check_same(kafka: ApacheKafka, target: LocalBroker, topic: str, partitions: int = 1) -> None:
    for partition in range(partitions):
        original = content(kafka, f"{topic}-{partition}")
        assert original
        assert bytes_of(target, topic, partition) == original


def write_in_all_codecs(bootstrap: str, topic: str) -> None:
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "log_level": 0}
        )
        for number in range(500):
            producer.produce(topic, f"{number} {codec} ".encode() * 30, key=str(number))
        assert producer.flush(SECONDS_MAX) == 0


def write_compacted(bootstrap: str, topic: str) -> int:
    """Compacted until there are gaps, and then left alone; how many records were written."""
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "0",
    }
    create(bootstrap, topic, **settings)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    written = 0

    def is_compacted() -> bool:
        nonlocal written
        for number in range(KEYS * 4):
            producer.produce(topic, f"{written} " + "x" * 50, key=str(number % KEYS))
            written += 1
        assert producer.flush(SECONDS_MAX) == 0
        time.sleep(0.3)
        return written > 2000 and len(read(bootstrap, topic)) < written / 2

    eventually(is_compacted, SECONDS_MAX)
    with Admin(bootstrap_servers=bootstrap) as admin:
        still = {"min.compaction.lag.ms": "100000000000"}
        admin.incremental_alter_configs({ConfigResource.topic(topic): still})
    time.sleep(2)
    return written


def test_a_mirror_of_apache_kafka_that_is_killed_twenty_times_has_the_same_bytes(
    kafka: ApacheKafka, target: LocalBroker, tmp_path: Path
) -> None:
    chance = seeds.chance()
    create(kafka.bootstrap, "begun-late")
    produce(kafka.bootstrap, "begun-late", range(1000), size=100)
    delete_records(kafka.bootstrap, "begun-late", 501)
    create(kafka.bootstrap, "codecs", partitions=3)
    write_in_all_codecs(kafka.bootstrap, "codecs")
    written = write_compacted(kafka.bootstrap, "compacted")
    file = mirror_file(tmp_path, kafka.bootstrap, target.bootstrap)
    with TransactionalLoad(kafka.bootstrap, "load") as load:
        for number in range(KILLS):
            process = start_mirror(file)
            time.sleep(chance.uniform(0.3, 3))
            kill(process)
            if number == KILLS // 2:
                write_in_all_codecs(kafka.bootstrap, "codecs")
                target.kill()
                target.restart()
    mirror_well("run", file, "--once")

    check_same(kafka, target, "codecs", 3)
    check_same(kafka, target, "compacted")
    for name in (*TOPICS, COPIES):
        check_same(kafka, target, load.topic(name))
    assert content(kafka, "begun-late-0").endswith(bytes_of(target, "begun-late"))
    assert read(target.bootstrap, "begun-late") == [str(number) for number in range(501, 1000)]
    assert 0 < len(read(target.bootstrap, "compacted")) < written
    mirror_well("promote", file)
    check_fork(target.bootstrap, load, load.acknowledged, load.begun)
    for path in (target.data / f"{load.topic(TOPICS[0])}-0").glob("*.log"):
        words = ("--deep-iteration", "--files", str(path))
        done = run_tool("org.apache.kafka.tools.DumpLogSegments", *words, scratch=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "isvalid: true" in done.stdout and "isvalid: false" not in done.stdout


def test_java_clients_move_from_apache_kafka_to_its_mirror(
    kafka: ApacheKafka, target: LocalBroker, tmp_path: Path
) -> None:
    """The leader epochs in records, in commits and in metadata fit together."""
    create(kafka.bootstrap, "moved")
    produce(kafka.bootstrap, "moved", range(100))
    consume_in_java(kafka.bootstrap, tmp_path, 60)
    file = mirror_file(tmp_path, kafka.bootstrap, target.bootstrap, topics_regex="moved")
    mirror_well("run", file, "--once")
    mirror_well("promote", file)
    done = run_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", target.bootstrap, "--topic", "moved"),
        scratch=tmp_path,
        stdin="100\n101\n",
    )
    assert done.returncode == 0, done.stderr
    values = consume_in_java(target.bootstrap, tmp_path, 42)
    assert values == [str(number) for number in range(60, 102)]


def consume_in_java(bootstrap: str, scratch: Path, count: int) -> list[str]:
    done = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", "moved", "--group", "movers"),
        *("--from-beginning", "--max-messages", str(count), "--timeout-ms", "60000"),
        scratch=scratch,
    )
    assert done.returncode == 0, done.stderr
    return [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
