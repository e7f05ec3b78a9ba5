"""How a broker shows ZooKeeper who it is: what the settings say, and what they cannot mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.metadata.zookeeper_access import ZooKeeperAccess, ZooKeeperLogin
from moldau.metadata.zookeeper_nodes import Access, access_of
from moldau.security.jaas import KERBEROS_MODULE
from tests.support.secured_zookeeper import DIGEST, client_jaas


def access(**settings: str) -> ZooKeeperAccess:
    given = {key.replace("__", "."): value for key, value in settings.items()}
    config, _ = BrokerConfig.parse({"zookeeper.connect": "zk:2181", **given})
    return ZooKeeperAccess.of(config)


def jaas(tmp_path: Path, text: str) -> str:
    path = tmp_path / "jaas.conf"
    path.write_text(text)
    return str(path)


def test_the_section_client_of_the_jaas_file_says_who_the_broker_is(tmp_path: Path) -> None:
    file = jaas(tmp_path, client_jaas("kafka", "s3cret"))
    found = access(java__security__auth__login__config=file)
    assert found.login == ZooKeeperLogin("kafka", "s3cret")
    assert "s3cret" not in repr(found)


def test_another_section_may_be_named(tmp_path: Path) -> None:
    text = client_jaas("kafka", "a") + client_jaas("operator", "b").replace("Client", "Ours")
    named = {"zookeeper.sasl.clientconfig": "Ours"}
    found = access(java__security__auth__login__config=jaas(tmp_path, text), **named)
    assert found.login == ZooKeeperLogin("operator", "b")


def test_without_the_section_nobody_logs_in(tmp_path: Path) -> None:
    file = jaas(tmp_path, "")
    assert access(java__security__auth__login__config=file).login is None
    assert access().login is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'Client {{ {DIGEST} required username="a"; }};', "a username and a password"),
        ("Client { org.apache.kafka.common.security.plain.PlainLoginModule required; };", "one"),
        (f"Client {{ {KERBEROS_MODULE} required serviceName=other; }};", "conflicting serviceName"),
        (f"Client {{ {KERBEROS_MODULE} required krb=x; }};", "has no option krb"),
        (f"Client {{ {DIGEST} required; {DIGEST} required; }};", "one login module"),
        ("Client { };", "one login module"),
    ],
)
def test_a_section_that_cannot_be_used_stops_the_start(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        access(java__security__auth__login__config=jaas(tmp_path, text))


def test_a_log_in_that_is_switched_off_and_described_stops_the_start(tmp_path: Path) -> None:
    file = jaas(tmp_path, client_jaas())
    with pytest.raises(ConfigError, match="which this would leave unused"):
        access(java__security__auth__login__config=file, zookeeper__sasl__client="false")


def test_nodes_cannot_be_protected_for_nobody() -> None:
    with pytest.raises(ConfigError, match="the broker must show who it is"):
        access(zookeeper__set__acl="true")
    # A connection that is encrypted, without a certificate of the broker's, shows nothing.
    with pytest.raises(ConfigError, match="the broker must show who it is"):
        access(zookeeper__set__acl="true", zookeeper__ssl__client__enable="true")


@pytest.mark.parametrize("key", ["zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"])
def test_what_cannot_be_checked_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="nobody would be asked"):
        access(**{key: "true"})


def test_a_store_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    settings = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(tmp_path / "missing.pem"),
    }
    with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.\*.*cannot be read"):
        access(**settings)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", Access.READABLE),
        ("/brokers/ids/1", Access.READABLE),
        ("/config/topics/t", Access.READABLE),
        ("/kafka-acl/Topic/t", Access.READABLE),
        ("/config/users", Access.SECRET),
        ("/config/users/alice", Access.SECRET),
        ("/config/brokers/0", Access.SECRET),
        ("/delegation_token", Access.READABLE),
        ("/delegation_token/tokens/x", Access.SECRET),
        ("/consumers", Access.OPEN),
        ("/consumers/old", Access.READABLE),
    ],
)
def test_every_node_belongs_to_whom_kafka_gives_it(path: str, expected: Access) -> None:
    assert access_of(path, is_protected=True) is expected
    assert access_of(path, is_protected=False) is Access.OPEN
