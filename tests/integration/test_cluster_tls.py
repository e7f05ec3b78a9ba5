"""Brokers of a cluster that speak TLS with one another, each with a certificate of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess, free_ports
from moldau.testing.zookeeper_process import zookeeper
from tests.support.certificates import Authority
from tests.support.cluster_of_three import SETTINGS
from tests.support.eventually import eventually

SECONDS_MAX = 30
CA = Authority()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[BrokerProcess]]:
    with zookeeper(tmp_path / "zookeeper") as server, ExitStack() as running:
        found = []
        for number in range(2):
            directory = tmp_path / f"broker-{number}"
            directory.mkdir()
            plain, secured = free_ports(2)
            settings = {
                **SETTINGS,
                "broker.id": str(number),
                "offsets.topic.replication.factor": "1",
                "zookeeper.connect": f"{server.connect}/kafka",
                "listeners": f"PLAINTEXT://127.0.0.1:{plain},BROKERS://127.0.0.1:{secured}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SSL",
                "inter.broker.listener.name": "BROKERS",
                "listener.name.brokers.ssl.keystore.type": "PEM",
                "listener.name.brokers.ssl.keystore.location": CA.issue_broker().write(
                    directory / "broker.pem"
                ),
                "listener.name.brokers.ssl.truststore.type": "PEM",
                "listener.name.brokers.ssl.truststore.certificates": CA.certificate_pem.replace(
                    "\n", " "
                ),
                "listener.name.brokers.ssl.client.auth": "required",
            }
            broker = BrokerProcess(directory, port=plain, overrides=settings)
            found.append(running.enter_context(broker))
        yield found


def isr(admin: AdminClient, topic: str) -> list[int]:
    partition: Any = admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions[0]
    return sorted(partition.isrs)


def test_what_one_broker_takes_the_other_has(brokers: list[BrokerProcess]) -> None:
    bootstrap = ",".join(broker.bootstrap for broker in brokers)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2)
    admin.create_topics([NewTopic("t", 1, 2)])["t"].result(SECONDS_MAX)
    eventually(lambda: isr(admin, "t") == [0, 1])
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    values = [b"%d" % number * 10_000 for number in range(300)]
    for value in values:
        producer.produce("t", value, partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    leader = admin.list_topics("t", timeout=SECONDS_MAX).topics["t"].partitions[0].leader
    brokers[leader].kill()
    follower = brokers[1 - leader]
    left = AdminClient({"bootstrap.servers": follower.bootstrap, "log_level": 0})
    eventually(lambda: isr(left, "t") == [1 - leader])
    consumer = Consumer(
        {
            "bootstrap.servers": follower.bootstrap,
            "group.id": "g",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    for value in values:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        assert message.error() is None, message.error()
        assert message.value() == value
    consumer.close()
    assert "SSL handshake failed" not in brokers[0].log_text + brokers[1].log_text
