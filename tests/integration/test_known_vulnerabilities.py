"""What Apache Kafka was once open to, one test for each number: Moldau does not have it.

Claims of huge frames before a log-in (CVE-2022-34917) are in test_hostile_logins.
"""

from __future__ import annotations

import hmac
import secrets
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, KafkaError, Producer
from moldau.errors import AuthenticationError
from moldau.model.errors import Error
from moldau.records.batch_codec import Record, encode_batch
from moldau.security.acl.acl_model import Operation, Permission, ResourceType
from moldau.security.sasl import plain, scram_server
from moldau.security.sasl.plain import PlainServer, check_against
from moldau.security.sasl.sasl_failures import SaslFailure
from moldau.security.sasl.scram_client import ScramClient
from moldau.security.sasl.scram_keys import make_credential
from moldau.security.sasl.scram_server import ScramServer
from moldau.testing.broker_process import BrokerProcess
from moldau.testing.broker_security import Security
from moldau.wire.messages.acls import AclCreation, CreateAclsRequest
from moldau.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from moldau.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.hostile_costs import Client

TOPIC = "mine"
JNDI = "com.sun.security.auth.module.JndiLoginModule"
LDAP = "com.sun.security.auth.module.LdapLoginModule"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256")
FOLLOWER = 7


@pytest.fixture(scope="module")
def security() -> Security:
    users = {"root": "root-secret", "alice": "alice-secret", "bob": "bob-secret"}
    return Security("SASL_PLAINTEXT", mechanisms=MECHANISMS, users=users)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, security: Security) -> Iterator[BrokerProcess]:
    overrides = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:root",
        "offsets.topic.num.partitions": "1",
    }
    folder = tmp_path_factory.mktemp("vulnerable")
    with BrokerProcess(folder, security=security, overrides=overrides) as running:
        with logged_in(running, "root") as client:
            row = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            made: Any = client.ask(19, 5, CreateTopicsRequest(topics=[row]))
            assert made.topics[0].error_code == 0
            entries = [
                AclCreation(
                    resource_type=ResourceType.TOPIC,
                    resource_name=TOPIC,
                    principal="User:alice",
                    host="*",
                    operation=operation,
                    permission_type=Permission.ALLOW,
                )
                for operation in (Operation.READ, Operation.WRITE)
            ]
            client.ask(30, 1, CreateAclsRequest(creations=entries))
        yield running


def say(client: Client, token: bytes) -> Any:
    return client.ask(36, 1, SaslAuthenticateRequest(auth_bytes=token))


def greeted(broker: BrokerProcess, mechanism: str) -> Client:
    client = Client(broker.port)
    client.ask(17, 1, SaslHandshakeRequest(mechanism=mechanism))
    return client


def logged_in(broker: BrokerProcess, name: str) -> Client:
    client = greeted(broker, "PLAIN")
    assert say(client, f"\0{name}\0{name}-secret".encode()).error_code == 0
    return client


def test_cve_2017_12610_nobody_logs_in_as_somebody_else(broker: BrokerProcess) -> None:
    told = "Client requested an authorization id that is different from username"
    with greeted(broker, "PLAIN") as client:
        answer = say(client, b"root\0alice\0alice-secret")
        assert answer.error_code == Error.SASL_AUTHENTICATION_FAILED
        assert told in answer.error_message
    with greeted(broker, "SCRAM-SHA-256") as client:
        answer = say(client, b"n,a=root,n=alice,r=abcdefgh")
        assert answer.error_code == Error.SASL_AUTHENTICATION_FAILED
        assert told in answer.error_message


@pytest.mark.parametrize("version", [4, 12])
def test_cve_2018_1288_nobody_but_a_broker_reads_as_a_follower(
    broker: BrokerProcess, version: int
) -> None:
    """Who may read the topic may not move its high watermark."""

    def read(replica_id: int) -> Any:
        rows = [FetchPartition(partition=0, partition_max_bytes=1000)]
        topics = [FetchTopic(topic=TOPIC, partitions=rows)]
        request = FetchRequest(replica_id=replica_id, max_bytes=1000, topics=topics)
        answer: Any = client.ask(1, version, request)
        return answer.responses[0].partitions[0].error_code

    with logged_in(broker, "alice") as client:
        assert read(FOLLOWER) == Error.TOPIC_AUTHORIZATION_FAILED
        assert read(-1) == 0


@pytest.mark.parametrize("named", [None, "not-mine"])
def test_cve_2018_17196_what_is_in_the_batches_counts(
    broker: BrokerProcess, named: str | None
) -> None:
    """A transactional batch needs leave for its id, whatever the request says of itself."""
    record = Record(0, 1_700_000_000_000, None, b"v")
    batch = encode_batch(
        [record], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    rows = [PartitionProduceData(index=0, records=batch)]
    data = [TopicProduceData(name=TOPIC, partition_data=rows)]
    request = ProduceRequest(transactional_id=named, acks=-1, timeout_ms=1000, topic_data=data)
    with logged_in(broker, "alice") as client:
        answer: Any = client.ask(0, 7, request)
    (row,) = answer.responses[0].partition_responses
    assert row.error_code == Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_cve_2021_38153_secrets_are_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    class Counting:
        digest, new = staticmethod(hmac.digest), staticmethod(hmac.new)

        @staticmethod
        def compare_digest(one: bytes, other: bytes) -> bool:
            compared.append((one, other))
            return hmac.compare_digest(one, other)

    monkeypatch.setattr(plain, "hmac", Counting)
    monkeypatch.setattr(scram_server, "hmac", Counting)
    check = check_against({"user_alice": "alice-secret"}, b"of-this-process")
    for token in (b"\0alice\0wrong", b"\0nobody\0wrong", b"\0alice\0alice-secreT"):
        compared.clear()
        with pytest.raises(SaslFailure):
            PlainServer(check).evaluate(token, 0)
        # Once, and not on the passwords themselves, whose length would show.
        ((one, other),) = compared
        assert len(one) == len(other) == 32


def test_cve_2023_25194_no_class_is_loaded_for_a_client(broker: BrokerProcess) -> None:
    for module in (JNDI, LDAP, "evil.Module"):
        jaas = f'{module} required user.provider.url="ldap://127.0.0.1:1/x";'
        with pytest.raises(ValueError, match="login module") as refusal:
            Producer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.jaas.config": jaas,
                }
            )
        assert "ldap://" not in str(refusal.value)


def test_cve_2024_31141_settings_name_no_files_to_read(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """`${...}` is text like any other: nothing behind it is read."""
    stolen = tmp_path / "stolen.properties"
    stolen.write_text("password=alice-secret\n")
    jaas = f'{PLAIN_MODULE} required username="alice" password="${{file:{stolen}:password}}";'
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas,
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    with pytest.raises((KafkaError, ValueError)) as refusal, Admin(settings) as admin:
        admin.describe_cluster()
    assert isinstance(refusal.value, AuthenticationError | ValueError)
    assert "alice-secret" not in str(refusal.value)


def test_cve_2024_56128_the_nonce_must_be_the_one_that_was_agreed(broker: BrokerProcess) -> None:
    """A proof that is right for another nonce is a replay."""
    with greeted(broker, "SCRAM-SHA-256") as client:
        good = ScramClient("SCRAM-SHA-256", "alice", "alice-secret", secrets.token_hex(12))
        challenge = say(client, good.first()).auth_bytes
        final = good.evaluate(bytes(challenge))
        assert final is not None
        channel, nonce, proof = final.split(b",")
        answer = say(client, b",".join((channel, nonce[:-1] + b"~", proof)))
        assert answer.error_code == Error.SASL_AUTHENTICATION_FAILED
        assert "nonce" not in answer.error_message
    with greeted(broker, "SCRAM-SHA-256") as client:
        good = ScramClient("SCRAM-SHA-256", "alice", "alice-secret", secrets.token_hex(12))
        final = good.evaluate(bytes(say(client, good.first()).auth_bytes))
        assert final is not None
        assert say(client, final).error_code == 0


@pytest.mark.parametrize("module", [JNDI, LDAP, "evil.Module"])
@pytest.mark.parametrize("broker_name", ["0", ""])
def test_cve_2025_27818_27819_no_class_is_loaded_for_a_broker(
    broker: BrokerProcess, module: str, broker_name: str
) -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    value = f'{module} required user.provider.url="ldap://127.0.0.1:1/x";'
    row = IncrementalAlterConfigsResource(
        resource_type=4,
        resource_name=broker_name,
        configs=[IncrementalAlterableConfig(name=key, value=value)],
    )
    with logged_in(broker, "root") as client:
        answer: Any = client.ask(44, 1, IncrementalAlterConfigsRequest(resources=[row]))
        (outcome,) = answer.responses
        assert outcome.error_code in (Error.INVALID_CONFIG, Error.INVALID_REQUEST)
        assert "ldap://" not in outcome.error_message
    with logged_in(broker, "alice"):
        pass
    assert "ldap://" not in broker.log_text


@pytest.mark.long
def test_an_unknown_user_takes_as_long_as_a_wrong_password() -> None:
    """Processor time of the broker's own work, turn by turn, the middle of many."""
    credential = account_of("alice-secret")

    def scram(name: str) -> None:
        broker = ScramServer(
            "SCRAM-SHA-256",
            lambda asked, _: credential if asked == "alice" else None,
            "server-nonce",
            b"of-this-process",
        )
        client = ScramClient("SCRAM-SHA-256", name, "wrong", "client-nonce")
        final = finals.get(name)
        challenge = broker.evaluate(client.first(), 0)
        if final is None:
            final = finals[name] = client.evaluate(challenge) or b""
        with pytest.raises(SaslFailure):
            broker.evaluate(final, 0)

    def simple(name: str) -> None:
        with pytest.raises(SaslFailure):
            PlainServer(check).evaluate(f"\0{name}\0wrong".encode(), 0)

    finals: dict[str, bytes] = {}
    check = check_against({"user_alice": "alice-secret"}, b"of-this-process")
    for work in (scram, simple):
        spent: dict[str, list[int]] = {"alice": [], "nemos": []}
        for _ in range(20_000):
            for name, times in spent.items():
                begun = time.thread_time_ns()
                work(name)
                times.append(time.thread_time_ns() - begun)
        known, unknown = (statistics.median(times) for times in spent.values())
        print(f"{work.__name__}: wrong password {known} ns, unknown user {unknown} ns")
        assert abs(known - unknown) / known < 0.05


def account_of(password: str) -> scram_server.ScramAccount:
    made = make_credential("SCRAM-SHA-256", password, b"salt")
    return scram_server.ScramAccount(made, "alice")
