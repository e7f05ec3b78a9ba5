"""A broker on ZooKeeper that is given no number takes one from there, and keeps it."""

from __future__ import annotations

from pathlib import Path

from kazoo.client import KazooClient

from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import zookeeper
from tests.support.eventually import eventually


def unnumbered(directory: Path, connect: str, **settings: str) -> BrokerProcess:
    overrides = {key.replace("_", "."): value for key, value in settings.items()}
    broker = BrokerProcess(directory, overrides={"zookeeper.connect": connect, **overrides})
    if "broker.id" not in overrides:
        del broker.settings["broker.id"]
    return broker


def written_number(broker: BrokerProcess) -> str:
    lines = (broker.data / "meta.properties").read_text().splitlines()
    return next(line.removeprefix("broker.id=") for line in lines if line.startswith("broker.id="))


def refusal(broker: BrokerProcess) -> str:
    broker.spawn()
    assert broker.wait() == 1
    return broker.log_text


def test_brokers_without_a_number_take_the_next_ones_and_keep_them(tmp_path: Path) -> None:
    with zookeeper(tmp_path / "zookeeper") as server:
        connect = f"{server.connect}/kafka"
        tree = KazooClient(server.connect)
        tree.start()
        brokers = [unnumbered(tmp_path / f"broker-{n}", connect) for n in range(2)]
        third = unnumbered(tmp_path / "third", connect, reserved_broker_max_id="7")
        try:
            for broker in brokers:
                broker.spawn()
            for broker in brokers:
                broker.wait_until_it_answers()
            numbers = [written_number(broker) for broker in brokers]
            assert set(numbers) == {"1001", "1002"}
            eventually(lambda: set(tree.get_children("/kafka/brokers/ids")) == set(numbers))

            # Whoever has a number asks for none.
            assert brokers[0].stop() == 0
            brokers[0].start()
            assert written_number(brokers[0]) == numbers[0]
            assert tree.get("/kafka/brokers/seqid")[1].version == 2
            eventually(lambda: set(tree.get_children("/kafka/brokers/ids")) == set(numbers))

            # A number that does not fit the one in meta.properties is another broker's.
            assert brokers[0].stop() == 0
            other = unnumbered(brokers[0].directory, connect, broker_id="5")
            said = refusal(other)
            assert f"it belongs to node {numbers[0]} and this is node 5" in said
            assert written_number(brokers[0]) == numbers[0]

            third.start()
            assert written_number(third) == "10"
        finally:
            for broker in (*brokers, third):
                broker.kill()
            tree.stop()
            tree.close()


def test_a_damaged_meta_properties_does_not_make_another_broker(tmp_path: Path) -> None:
    broker = unnumbered(tmp_path, "127.0.0.1:1")
    broker.data.mkdir(parents=True)
    (broker.data / "meta.properties").write_text("version=0\nbroker.id=10x\n")
    assert "'10x' is not a number" in refusal(broker)
