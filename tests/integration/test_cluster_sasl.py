"""Brokers that log in to one another: every mechanism, renewed sessions, and a wrong password.

Clients come in by a listener of their own. What brokers ask of one another is allowed to the user
that they log in as, and to nobody else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from moldau.security.sasl.scram_keys import credential_text, make_credential
from moldau.testing.broker_process import BrokerProcess, BrokerStartError, free_ports
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
    home: Path, protocol: str, mechanism: str, settings: Mapping[str, str]
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
            brokers.append(BrokerProcess(directory, port=port, overrides=overrides))
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


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_PLAINTEXT", "OAUTHBEARER"),
    ],
)
def test_brokers_replicate_and_end_transactions_over_connections_that_log_in(
    tmp_path: Path, protocol: str, mechanism: str
) -> None:
    key = f"listener.name.brokers.{mechanism.lower()}.sasl.jaas.config"
    with cluster_of_two(tmp_path, protocol, mechanism, {key: MODULES[mechanism]}) as brokers:
        admin = admin_of(*brokers)
        eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2)
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(SECONDS_MAX)
        eventually(lambda: isr(admin, "t") == [0, 1])
        write_in_a_transaction(brokers, "t", "first")
        logs = "".join(broker.log_text for broker in brokers)
        assert "ailed authentication" not in logs
        assert "is Denied" not in logs
        assert SECRET not in logs


def test_sessions_that_end_are_renewed_on_the_same_connections(tmp_path: Path) -> None:
    settings = {
        "listener.name.brokers.plain.sasl.jaas.config": MODULES["PLAIN"],
        "connections.max.reauth.ms": "1500",
    }
    with cluster_of_two(tmp_path, "SASL_PLAINTEXT", "PLAIN", settings) as brokers:
        admin = admin_of(*brokers)
        eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2)
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(SECONDS_MAX)
        eventually(lambda: isr(admin, "t") == [0, 1])
        for number in range(12):
            # Each takes a part of a second: several sessions end meanwhile.
            write_in_a_transaction(brokers, "t", f"producer-{number}")
        logs = "".join(broker.log_text for broker in brokers)
        assert "was not renewed" not in logs
        assert "ailed re-authentication" not in logs
        assert "ailed authentication" not in logs


def test_a_password_that_another_broker_does_not_know_is_said_in_one_sentence(
    tmp_path: Path,
) -> None:
    key = "listener.name.brokers.plain.sasl.jaas.config"
    with cluster_of_two(tmp_path, "SASL_PLAINTEXT", "PLAIN", {key: MODULES["PLAIN"]}) as brokers:
        admin = admin_of(*brokers)
        eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2)
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(SECONDS_MAX)
        eventually(lambda: isr(admin, "t") == [0, 1])
        other = brokers[1]
        other.stop()
        other.settings[key] = MODULES["PLAIN"].replace(
            f'password="{SECRET}"', 'password="mistyped"', 1
        )
        other.spawn()
        sentence = (
            "failed authentication due to: Authentication failed: Invalid username or password"
        )
        eventually(lambda: sentence in other.log_text)
        assert "mistyped" not in other.log_text
        assert SECRET not in other.log_text


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            "Invalid value GSSAPI for configuration sasl.mechanism.inter.broker.protocol",
        ),
        (
            {"listener.name.brokers.sasl.enabled.mechanisms": "OAUTHBEARER"},
            "must be included in sasl.enabled.mechanisms when SASL is used for inter-broker "
            "communication",
        ),
        (
            {"listener.name.brokers.plain.sasl.jaas.config": ""},
            "brokers log in to one another by PLAIN, so it must say as whom",
        ),
        (
            {
                "listener.name.brokers.plain.sasl.jaas.config": (
                    f'{KAFKA}.plain.PlainLoginModule required user_broker="{SECRET}";'
                )
            },
            "PLAIN needs a username and a password",
        ),
    ],
)
def test_a_broker_that_could_not_log_in_to_others_does_not_start(
    tmp_path: Path, settings: Mapping[str, str], sentence: str
) -> None:
    overrides = {
        **listening("SASL_PLAINTEXT", "PLAIN"),
        "listener.name.brokers.plain.sasl.jaas.config": MODULES["PLAIN"],
        "zookeeper.connect": "127.0.0.1:1",
        **settings,
    }
    broker = BrokerProcess(tmp_path, overrides=overrides)
    with pytest.raises(BrokerStartError):
        broker.start()
    assert sentence in broker.log_text
    assert SECRET not in broker.log_text
    assert "Traceback" not in broker.log_text


@pytest.mark.parametrize("section", ["KafkaServer", "brokers.KafkaServer"])
def test_a_jaas_file_named_as_for_java_says_who_logs_in(tmp_path: Path, section: str) -> None:
    file = tmp_path / "jaas.conf"
    modules = MODULES["PLAIN"].replace(" required ", "\n  required\n  ")
    file.write_text(f"// brokers\n{section} {{\n {modules}\n}};\n")
    settings = {"java.security.auth.login.config": str(file)}
    with cluster_of_two(tmp_path, "SASL_PLAINTEXT", "PLAIN", settings) as brokers:
        admin = admin_of(*brokers)
        eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2)
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(SECONDS_MAX)
        eventually(lambda: isr(admin, "t") == [0, 1])
        assert SECRET not in "".join(broker.log_text for broker in brokers)
