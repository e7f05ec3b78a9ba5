"""On ZooKeeper a broker of Apache Kafka 3.9.1 and one of Moldau take turns at one log directory
with one broker id, after clean stops and after kill -9: every record, offset, timestamp, header,
transaction, producer and committed offset is what it was."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import zookeeper
from tests.compat.adoption import (
    CODECS,
    Row,
    all_topics,
    commit,
    committed,
    create_topics,
    dump_all,
    end_open,
    fill,
    latest_values,
    leave_open,
    producers,
)
from tests.support.eventually import eventually
from tests.support.mixed_cluster import Kafka39Process

pytestmark = pytest.mark.compat

SETTINGS = {
    "broker.id": "1",
    "zookeeper.session.timeout.ms": "6000",
    "log.cleaner.backoff.ms": "200",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class Turns:
    """Two brokers that are never there at the same time."""

    def __init__(self, directory: Path, connect: str) -> None:
        self.data = directory / "data"
        self.directory = directory
        settings = {**SETTINGS, "zookeeper.connect": connect, "log.dirs": str(self.data)}
        self.kafka = Kafka39Process(directory / "kafka", overrides=settings)
        self.moldau = BrokerProcess(directory / "moldau", overrides=settings)
        self.tree = KazooClient(connect)

    def start(self, broker: BrokerProcess) -> str:
        """Once nobody else is registered under the id; where it answers."""
        if self.tree.connected:
            eventually(lambda: self.tree.exists("/brokers/ids/1") is None)
        broker.start()
        if not self.tree.connected:
            self.tree.start()
        eventually(lambda: self.tree.exists("/brokers/ids/1") is not None)
        return broker.bootstrap

    def close(self) -> None:
        for broker in (self.kafka, self.moldau):
            if broker.process is not None:
                broker.kill()
        self.tree.stop()
        self.tree.close()


@contextmanager
def turns(directory: Path) -> Iterator[Turns]:
    with zookeeper(directory / "zookeeper") as server:
        made = Turns(directory, f"{server.connect}/kafka")
        try:
            yield made
        finally:
            made.close()


def same(found: Mapping[str, list[Row]], before: Mapping[str, list[Row]]) -> None:
    """Compaction may go on meanwhile; what is the latest for each key does not change."""
    assert found.keys() == before.keys()
    for name, rows in before.items():
        if name == "latest":
            assert latest_values(found[name]) == latest_values(rows)
        else:
            assert found[name] == rows, name


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_apache_kafka_takes_over_what_moldau_made_and_moldau_takes_it_back(
    tmp_path: Path, way: str
) -> None:
    with turns(tmp_path) as one:
        bootstrap = one.start(one.moldau)
        create_topics(bootstrap, "internal.segment.bytes")
        fill(bootstrap, "moldau")
        leave_open(bootstrap, "moldau")
        commit(bootstrap)
        state, records = producers(bootstrap, tmp_path), all_topics(bootstrap)
        assert len(records["plain"]) == 200 * len(CODECS)
        assert len(records["ledger"]) == 12
        assert [len(records[name]) for name in ("pending", "pending, undecided too")] == [0, 1]
        assert len(list((one.data / "plain-0").glob("*.log"))) > 1
        end(one.moldau, way)
        if way == "stop":
            dump_all(one.data, tmp_path)
            scrubbed(one.data)

        bootstrap = one.start(one.kafka)
        same(all_topics(bootstrap), records)
        assert producers(bootstrap, tmp_path) == state
        assert committed(bootstrap) == 17
        end_open(bootstrap, "moldau")
        fill(bootstrap, "kafka")
        leave_open(bootstrap, "kafka")
        state, records = producers(bootstrap, tmp_path), all_topics(bootstrap)
        end(one.kafka, way)
        if way == "stop":
            scrubbed(one.data)

        bootstrap = one.start(one.moldau)
        same(all_topics(bootstrap), records)
        assert producers(bootstrap, tmp_path) == state
        assert committed(bootstrap) == 17
        end_open(bootstrap, "kafka")
        fill(bootstrap, "moldau again")
        assert len(all_topics(bootstrap)["plain"]) == 3 * 200 * len(CODECS)


def end(broker: BrokerProcess, way: str) -> None:
    if way == "kill":
        broker.kill()
    else:
        assert broker.stop() in (0, 143)


def scrubbed(data: Path) -> None:
    """The scrubber finds no fault in any file, whoever wrote it."""
    command = [sys.executable, "-m", "moldau.main", "log-scrub", "--log-dir", str(data)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_lone_moldau_adopts_the_directory_of_a_broker_on_zookeeper(tmp_path: Path) -> None:
    with turns(tmp_path) as one:
        bootstrap = one.start(one.kafka)
        create_topics(bootstrap)
        fill(bootstrap, "kafka")
        leave_open(bootstrap, "kafka")
        commit(bootstrap)
        state, records = producers(bootstrap, tmp_path), all_topics(bootstrap)
        end(one.kafka, "stop")
        scrubbed(one.data)
        assert "version=0" in (one.data / "meta.properties").read_text()
        ids = {path.parent.name: path.read_text() for path in one.data.glob("*/partition.metadata")}

        adopted = subprocess.run(
            [sys.executable, "-m", "moldau.main", "storage", "adopt", "--log-dir", str(one.data)],
            capture_output=True,
            text=True,
        )
        assert adopted.returncode == 0, adopted.stderr
        assert "Adopted topic plain with 3 partitions." in adopted.stdout
        settings = {**SETTINGS, "log.dirs": str(one.data)}
        alone = BrokerProcess(tmp_path / "alone", overrides=settings)
        alone.start()
        try:
            same(all_topics(alone.bootstrap), records)
            assert producers(alone.bootstrap, tmp_path) == state
            assert committed(alone.bootstrap) == 17
            assert {
                path.parent.name: path.read_text() for path in one.data.glob("*/partition.metadata")
            } == ids
            end_open(alone.bootstrap, "kafka")
            fill(alone.bootstrap, "moldau")
            records = all_topics(alone.bootstrap)
        finally:
            assert alone.stop() == 0
        assert len(records["plain"]) == 2 * 200 * len(CODECS)

        # And back: the file that names the directory's owner is still of the form it takes.
        bootstrap = one.start(one.kafka)
        same(all_topics(bootstrap), records)
