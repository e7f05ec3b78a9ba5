"""Brokers log in to a real ZooKeeper by Kerberos; Kafka's flag of the JVM says where the KDC is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.exceptions import NoAuthError

import moldau
from moldau.metadata.zookeeper_access import ZooKeeperAccess
from moldau.security.jaas import KERBEROS_MODULE
from moldau.testing.broker_process import BrokerProcess, BrokerStartError, free_port
from moldau.testing.zookeeper_process import ZooKeeperProcess, zookeeper
from tests.support.kerberos import REALM, Realm
from tests.support.secured_zookeeper import SASL, looking

pytestmark = pytest.mark.compat

SECONDS_MAX = 120
NAMED_BY_OPTIONS = "KRB5_CONFIG"


class Place(NamedTuple):
    realm: Realm
    server: ZooKeeperProcess
    directory: Path

    @property
    def connect(self) -> str:
        """By the name that the ticket is for."""
        return f"localhost:{self.server.port}/kafka"

    def jaas(self, name: str, table: Path, principal: str) -> Path:
        path = self.directory / f"{name}.conf"
        path.write_text(f"Client {{ {module(table, principal)} }};\n")
        return path

    def environment(self, jaas: Path) -> dict[str, str]:
        """Where the KDC is stands nowhere but among the options of a JVM."""
        told = {k: v for k, v in self.realm.environment.items() if k != NAMED_BY_OPTIONS}
        return {**told, "KAFKA_OPTS": f"{self.options} -Djava.security.auth.login.config={jaas}"}

    @property
    def options(self) -> str:
        return f"-Djava.security.krb5.conf={self.realm.configuration}"

    def broker(self, name: str, jaas: Path, **more: str) -> BrokerProcess:
        settings = {"zookeeper.connect": self.connect, "zookeeper.set.acl": "true", **more}
        environment = self.environment(jaas)
        return BrokerProcess(self.directory / name, overrides=settings, environment=environment)


def module(table: Path, principal: str) -> str:
    options = f'useKeyTab="true" storeKey="true" keyTab="{table}" principal="{principal}@{REALM}"'
    return f"{KERBEROS_MODULE} required {options};"


@pytest.fixture(scope="module")
def place(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("kerberos-zookeeper")
    jaas = directory / "server.conf"
    name = "zookeeper/localhost"
    jaas.write_text(f"Server {{ {module(realm.add(name), name)} }};\n")
    options = (
        f"-Djava.security.krb5.conf={realm.configuration} -Djava.security.auth.login.config={jaas}"
    )
    with zookeeper(directory / "data", more=SASL, java_options=options) as server:
        yield Place(realm, server, directory)


def test_a_broker_owns_its_nodes_by_a_ticket(place: Place) -> None:
    table = place.realm.add("kafka/localhost")
    jaas = place.jaas("broker", table, "kafka/localhost")
    with place.broker("first", jaas) as broker:
        settings = {"bootstrap.servers": broker.bootstrap}
        with moldau.Producer(settings) as producer:
            assert producer.send("orders", b"x").result().offset == 0
        with looking(ZooKeeperAccess(f"{place.server.connect}/kafka")) as anybody:
            owners, _ = anybody.get_acls("/brokers/topics/orders")
            assert {(each.id.scheme, each.id.id) for each in owners} == {
                ("sasl", f"kafka/localhost@{REALM}"),
                ("world", "anyone"),
            }
            with pytest.raises(NoAuthError):
                anybody.set("/brokers/topics/orders", b"stolen")
            with pytest.raises(NoAuthError):
                anybody.get("/config/users")
    with (
        place.broker("first", jaas) as again,
        moldau.Admin({"bootstrap.servers": again.bootstrap}) as admin,
    ):
        assert "orders" in admin.list_topics()


def test_a_tree_is_protected_by_whoever_has_a_ticket(place: Place) -> None:
    table = place.realm.add("kafka/operator")
    jaas = place.jaas("operator", table, "kafka/operator")
    words = [sys.executable, "-m", "moldau.main", "zookeeper-security-migration"]
    chosen = ["--zookeeper.acl=secure", f"--zookeeper.connect=localhost:{place.server.port}/other"]
    with looking(ZooKeeperAccess(place.server.connect)) as anybody:
        anybody.ensure_path("/other/brokers/topics")
    done = subprocess.run(
        [*words, *chosen],
        env={**os.environ, **place.environment(jaas)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with looking(ZooKeeperAccess(place.server.connect)) as anybody, pytest.raises(NoAuthError):
        anybody.set("/other/brokers/topics", b"stolen")


def test_a_broker_without_a_ticket_says_why_in_one_sentence(place: Place) -> None:
    unknown = place.jaas("unknown", place.realm.add("somebody"), "nobody")
    with pytest.raises(BrokerStartError) as stopped:
        place.broker("unknown", unknown).start()
    assert "does not let this broker in" in str(stopped.value)
    assert "no Kerberos ticket" in str(stopped.value)
    jaas = place.jaas("known", place.realm.add("kafka/third"), "kafka/third")
    service = {"zookeeper.sasl.client.username": "stranger"}
    with pytest.raises(BrokerStartError, match="not found in Kerberos database"):
        place.broker("stranger", jaas, **service).start()


def test_a_kdc_that_is_not_named_is_waited_for_no_longer_than_zookeeper(place: Place) -> None:
    jaas = place.jaas("lost", place.realm.add("kafka/fourth"), "kafka/fourth")
    settings = {
        "java.security.krb5.conf": str(place.directory / "nobody.conf"),
        "zookeeper.connection.timeout.ms": "3000",
    }
    with pytest.raises(BrokerStartError, match="the file cannot be read"):
        place.broker("unread", jaas, **settings).start()
    text = place.realm.configuration.read_text()
    empty_port = free_port()
    lost = place.directory / "nobody.conf"
    lost.write_text(text.replace(f":{place.realm.port}", f":{empty_port}"))
    with pytest.raises(BrokerStartError, match="the last try: localhost: no Kerberos ticket"):
        place.broker("lost", jaas, **settings).start()
