"""Two brokers on ZooKeeper that log in to one another, and clients that need not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from moldau.security.sasl.scram_keys import credential_text, make_credential
from moldau.testing.broker_process import BrokerProcess, free_ports
from moldau.testing.zookeeper_process import zookeeper
from tests.support.certificates import Authority
from tests.support.cluster_of_three import SETTINGS
from tests.support.eventually import eventually

SECONDS_MAX = 30
SECRET = "brokers-secret"
CA = Authority()
KAFKA = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f'{KAFKA}.plain.PlainLoginModule required username="broker" password="{SECRET}" '
    f'user_broker="{SECRET}";',
    "SCRAM-SHA-256": f'{KAFKA}.scram.ScramLoginModule required username="broker" '
    f'password="{SECRET}";',
    "SCRAM-SHA-512": f'{KAFKA}.scram.ScramLoginModule required username="broker" '
    f'password="{SECRET}";',
    "OAUTHBEARER": f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";',
}


def listening(protocol: str, mechanism: str) -> Mapping[str, str]:
    plain, secured = free_ports(2)
    return {
        **SETTINGS,
        "offsets.topic.replication.factor": "2",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "default.replication.factor": "2",
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},BROKERS://127.0.0.1:{secured}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,BROKERS:{protocol}",
        "inter.broker.listener.name": "BROKERS",
        "listener.name.brokers.sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS;User:broker",
    }


def tls(directory: Path) -> Mapping[str, str]:
    directory.mkdir(parents=True, exist_ok=True)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": CA.issue_broker().write(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA.certificate_pem.replace("\n", " "),
    }


def store_user(connect: str, mechanism: str) -> None:
    """As `configs --zookeeper` does before the first broker starts."""
    credential = credential_text(make_credential(mechanism, SECRET, b"salt"))
    client = KazooClient(connect)
    client.start()
    try:
        text = json.dumps({"version": 1, "config": {mechanism: credential}})
        client.create("/kafka/config/users/broker", text.encode(), makepath=True)
    finally:
        client.stop()
        client.close()


@contextmanager
def cluster_of_two(
    home: Path,
    protocol: str,
    mechanism: str,
    settings: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> Iterator[list[BrokerProcess]]:
    with zookeeper(home / "zookeeper") as server, ExitStack() as running:
        if mechanism.startswith("SCRAM"):
            store_user(server.connect, mechanism)
        brokers = []
        for number in range(2):
            directory = home / f"broker-{number}"
            overrides = {
                **listening(protocol, mechanism),
                **(tls(directory) if protocol == "SASL_SSL" else {}),
                "broker.id": str(number),
                "zookeeper.connect": f"{server.connect}/kafka",
                **settings,
            }
            port = int(overrides["listeners"].split(",")[0].rpartition(":")[2])
            brokers.append(
                BrokerProcess(directory, port=port, overrides=overrides, environment=environment)
            )
        for broker in brokers:
            running.enter_context(broker)
        yield brokers


def admin_of(*brokers: BrokerProcess) -> AdminClient:
    bootstrap = ",".join(broker.bootstrap for broker in brokers)
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def isr(admin: AdminClient, topic: str) -> list[int]:
    return sorted(admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions[0].isrs)


def write_in_a_transaction(brokers: list[BrokerProcess], topic: str, name: str) -> None:
    """To partitions of both brokers: markers have to travel."""
    bootstrap = ",".join(broker.bootstrap for broker in brokers)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(topic, b"x" * 1000, partition=partition)
    producer.commit_transaction(SECONDS_MAX)


def replicate_and_end_a_transaction(brokers: list[BrokerProcess]) -> str:
    """The brokers' logs, in which nobody is refused."""
    admin = admin_of(*brokers)
    eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2)
    admin.create_topics([NewTopic("t", 2, 2)])["t"].result(SECONDS_MAX)
    eventually(lambda: isr(admin, "t") == [0, 1])
    write_in_a_transaction(brokers, "t", "first")
    logs = "".join(broker.log_text for broker in brokers)
    assert "ailed authentication" not in logs
    assert "is Denied" not in logs
    assert SECRET not in logs
    return logs
