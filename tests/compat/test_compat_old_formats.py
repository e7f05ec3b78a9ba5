"""A directory in message format 0.9 or 0.10 goes from Apache Kafka 3.9.1 to Moldau: served as it
is to every client, shown by dump-log as Kafka's tool shows it, recovered, compacted, written to."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from moldau.client.consumer.blocking_consumer import Consumer as MoldauConsumer
from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import zookeeper
from tests.compat.test_compat_old_clients import Row, consume, consume_by_librdkafka, produce
from tests.support.apache_kafka import run_tool
from tests.support.eventually import eventually
from tests.support.mixed_cluster import Kafka39Process

pytestmark = pytest.mark.compat

DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
MOLDAU = (sys.executable, "-m", "moldau.main")
CODECS = (None, "gzip", "snappy", "lz4")
OLD_FORMAT = {
    "inter.broker.protocol.version": "2.8",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "log.cleaner.enable": "false",
    "num.partitions": "1",
}
KEYS = 5


def write(bootstrap: str, magic: int) -> dict[str, list[Row]]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic("plain", 1, 1, config={"segment.bytes": "4096", "index.interval.bytes": "200"}),
        NewTopic("latest", 1, 1, config={"cleanup.policy": "compact", "segment.bytes": "2048"}),
    ]
    for future in admin.create_topics(topics).values():
        future.result(60)
    plain = []
    for version in ((0, 9), (0, 10)):
        # kafka-python needs another package for lz4 as it was in 0.9.
        for codec in CODECS[: 4 if version > (0, 9) and magic else 3]:
            plain += produce(bootstrap, version, codec, "plain")
    if not magic:
        plain = [row._replace(timestamp=-1) for row in plain]
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    reader.commit(offsets=[TopicPartition("plain", 0, 17)], asynchronous=False)
    reader.close()
    modern = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(200):
        modern.produce("latest", f"value {number}".encode(), f"key {number % KEYS}".encode())
        if number % 10 == 0:
            modern.flush(30)
    assert modern.flush(30) == 0
    return {"plain": plain, "latest": consume(bootstrap, None, "latest", 200)}


def consume_by_moldau(bootstrap: str, topic: str, count: int) -> list[Row]:
    rows: list[Row] = []
    with MoldauConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        deadline = time.monotonic() + 30
        while len(rows) < count and time.monotonic() < deadline:
            found = consumer.poll(0.5)
            rows += [Row(each.offset, each.timestamp, each.key, each.value) for each in found]
    return rows


def dumped_alike(directory: Path, scratch: Path) -> None:
    paths = sorted(p for p in directory.iterdir() if p.suffix in (".log", ".index", ".timeindex"))
    names = ",".join(map(str, paths))
    for options in (("--deep-iteration",), ("--print-data-log",), ()):
        theirs = run_tool(DUMP_TOOL, *options, "--files", names, scratch=scratch)
        ours = subprocess.run(
            [*MOLDAU, "dump-log", *options, "--files", names], capture_output=True, text=True
        )
        assert theirs.returncode == ours.returncode == 0, theirs.stderr + ours.stderr
        assert ours.stdout.splitlines() == theirs.stdout.splitlines()


@pytest.mark.parametrize(("version", "magic"), [("0.9.0", 0), ("0.10.2", 1)])
def test_a_directory_of_an_old_format_is_adopted_and_served(
    version: str, magic: int, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with zookeeper(tmp_path / "zookeeper") as server:
        settings = {**OLD_FORMAT, "zookeeper.connect": server.connect, "log.dirs": str(data)}
        settings["log.message.format.version"] = version
        with Kafka39Process(tmp_path / "kafka", overrides=settings) as kafka:
            written = write(kafka.bootstrap, magic)
    assert (data / "plain-0" / f"{0:020}.log").read_bytes()[16] == magic
    dumped_alike(data / "plain-0", tmp_path)
    adopted = subprocess.run(
        [*MOLDAU, "storage", "adopt", "--log-dir", str(data)], capture_output=True, text=True
    )
    assert adopted.returncode == 0, adopted.stderr + adopted.stdout
    settings = {
        "broker.id": "0",
        "log.dirs": str(data),
        "log.cleaner.backoff.ms": "200",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "offsets.topic.num.partitions": "2",
    }
    broker = BrokerProcess(tmp_path / "moldau", overrides=settings)
    broker.start()
    try:
        check_plain(broker, written["plain"])
        assert committed(broker.bootstrap) == 17
        compact(broker.bootstrap)
        eventually(lambda: len(latest(broker)) < 100, seconds_max=30)
        newest = {row.key: row.value for row in written["latest"]}
        assert {row.key: row.value for row in latest(broker)} == newest
        written["plain"] += produce(broker.bootstrap, (0, 10), "gzip", "plain")
        check_plain(broker, written["plain"])
        broker.kill()
        for index in (data / "plain-0").glob("*.*index"):
            index.unlink()
        (data / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        broker.start()
        check_plain(broker, written["plain"])
    finally:
        assert broker.stop() == 0
    dumped_alike(data / "plain-0", tmp_path)


def committed(bootstrap: str) -> int:
    """From the offsets topic, which is in the old format, too."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition("plain", 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def compact(bootstrap: str) -> None:
    """A broker on ZooKeeper keeps a topic's settings there, not in the directory."""
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", "latest", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def latest(broker: BrokerProcess) -> list[Row]:
    return consume(broker.bootstrap, None, "latest", 10**6, seconds_max=2)


def check_plain(broker: BrokerProcess, rows: list[Row]) -> None:
    count, where = len(rows), broker.bootstrap
    assert consume(where, None, "plain", count) == rows
    assert consume(where, (0, 10), "plain", count) == rows
    assert consume_by_librdkafka(where, "plain", count) == rows
    assert consume_by_moldau(where, "plain", count) == rows
