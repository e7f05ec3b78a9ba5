"""Brokers without a number, of Apache Kafka 3.9.1 and of Moldau, take theirs from one sequence."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient

from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import zookeeper
from tests.support.eventually import eventually
from tests.support.mixed_cluster import SECONDS_MAX, Kafka39Process

pytestmark = pytest.mark.compat


def written_number(broker: BrokerProcess) -> str:
    lines = (broker.data / "meta.properties").read_text().splitlines()
    return next(line.removeprefix("broker.id=") for line in lines if line.startswith("broker.id="))


def test_both_kinds_take_their_numbers_from_one_sequence(tmp_path: Path) -> None:
    with zookeeper(tmp_path / "zookeeper") as server:
        settings = {"zookeeper.connect": f"{server.connect}/kafka"}
        kinds = (BrokerProcess, Kafka39Process, BrokerProcess)
        brokers = [kind(tmp_path / f"{n}", overrides=settings) for n, kind in enumerate(kinds)]
        tree = KazooClient(server.connect)
        tree.start()
        try:
            for count, broker in enumerate(brokers, start=1):
                del broker.settings["broker.id"]
                broker.start()
                assert written_number(broker) == str(1000 + count)
            ids = {"1001", "1002", "1003"}
            eventually(lambda: set(tree.get_children("/kafka/brokers/ids")) == ids, SECONDS_MAX)

            # Each takes over the other's directory under the number that is written there.
            for broker in brokers[:2]:
                assert broker.stop() in (0, 143)
            taken = [
                kind(each.directory, overrides=settings)
                for kind, each in zip((Kafka39Process, BrokerProcess), brokers[:2], strict=True)
            ]
            brokers += taken
            for broker in taken:
                del broker.settings["broker.id"]
                broker.start()
            assert [written_number(broker) for broker in taken] == ["1001", "1002"]
            eventually(lambda: set(tree.get_children("/kafka/brokers/ids")) == ids, SECONDS_MAX)
            assert tree.get("/kafka/brokers/seqid")[1].version == 3
        finally:
            for broker in brokers:
                broker.kill()
            tree.stop()
            tree.close()
