"""The client library speaks TLS with real brokers and logs in to them; failures say why, at once.

No secret may be in what clients show of themselves, log or raise.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moldau import Admin, Consumer, Producer, TopicPartition, aio, errors
from moldau.admin import ScramMechanism
from moldau.compat.kafka_python import KafkaProducer
from moldau.compat.kafka_python.errors import KafkaConfigurationError
from moldau.testing.broker_process import BrokerProcess, free_ports
from tests.support.certificates import Authority

SECONDS_MAX = 60
CA = Authority()
OTHER_CA = Authority("Other CA")
ALICE = CA.issue_user("alice")
PASSWORD = "wonder,land=7"
WRONG = "looking-glass-8"
STORE_PASSWORD = "store-secret"
SECRETS = (PASSWORD, WRONG, STORE_PASSWORD)
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SESSION_MS = 3000
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "ELSEWHERE": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
}
Settings = dict[str, Any]


class Place(NamedTuple):
    at: Mapping[str, str]
    """The address of every listener."""
    directory: Path


def broker_settings(directory: Path, ports: Mapping[str, int]) -> dict[str, str]:
    elsewhere = CA.issue_broker("elsewhere.example").write(directory / "elsewhere.pem")
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in LISTENERS.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": CA.issue_broker().write(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA.certificate_pem.replace("\n", " "),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.elsewhere.ssl.keystore.location": elsewhere,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.short.plain.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.short.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    for listener in ("sasl_plaintext", "sasl_ssl", "short"):
        prefix = f"listener.name.{listener}"
        settings |= {
            f"{prefix}.plain.sasl.jaas.config": (
                f'{PLAIN_MODULE} required user_alice="{PASSWORD}";'
            ),
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            f"{prefix}.oauthbearer.sasl.jaas.config": (
                f'{BEARER_MODULE} required unsecuredLoginStringClaim_sub="broker";'
            ),
        }
    return settings


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("secured")
    ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
    process = BrokerProcess(
        directory, port=ports["PLAINTEXT"], overrides=broker_settings(directory, ports)
    )
    (directory / "ca.pem").write_text(CA.certificate_pem)
    with process:
        with Admin(bootstrap_servers=process.bootstrap) as admin:
            admin.create_topics(["words"])
            for mechanism in ScramMechanism:
                admin.upsert_user_scram_credential("alice", PASSWORD, mechanism=mechanism)
        yield Place({name: f"127.0.0.1:{port}" for name, port in ports.items()}, directory)


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No test may leave a secret in the log."""
    caplog.set_level(logging.DEBUG)
    yield
    assert not [secret for secret in SECRETS if secret in caplog.text]


def tls(place: Place, listener: str = "SSL", **more: str) -> Settings:
    return {
        "bootstrap.servers": place.at[listener],
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(place.directory / "ca.pem"),
        "request.timeout.ms": 20_000,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def login(place: Place, mechanism: str, password: str = PASSWORD, *, at: str = "") -> Settings:
    return {
        "bootstrap.servers": place.at[at or "SASL_PLAINTEXT"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


def by_jaas(place: Place, mechanism: str) -> Settings:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    options = f'username="alice" password="{PASSWORD}"'
    if mechanism == "OAUTHBEARER":
        module, options = BEARER_MODULE, 'unsecuredLoginStringClaim_sub="alice"'
    settings = login(place, mechanism)
    del settings["sasl.username"], settings["sasl.password"]
    return {**settings, "sasl.jaas.config": f"{module} required {options};"}


def both(place: Place, mechanism: str, password: str = PASSWORD) -> Settings:
    return {
        **tls(place),
        **login(place, mechanism, password, at="SASL_SSL"),
        "security.protocol": "SASL_SSL",
    }


def talk(settings: Settings) -> None:
    """What is written is read again, alone and in a group."""
    with Producer(settings) as producer:
        told = producer.send("words", b"ahoj").result(SECONDS_MAX)
    with Consumer(settings, group_id="readers", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("words", told.partition)])
        consumer.seek(TopicPartition("words", told.partition), told.offset)
        records = consumer.poll(SECONDS_MAX)
        assert [record.value for record in records][:1] == [b"ahoj"]
        consumer.commit()


async def talk_in_a_loop(settings: Settings) -> None:
    async with asyncio.timeout(SECONDS_MAX), aio.Producer(settings) as producer:
        told = await (await producer.send("words", b"ahoj"))
        async with aio.Consumer(settings) as consumer:
            consumer.assign([TopicPartition("words", told.partition)])
            consumer.seek(TopicPartition("words", told.partition), told.offset)
            assert [record.value for record in await consumer.poll(SECONDS_MAX)] == [b"ahoj"]
        async with aio.Admin(settings) as admin:
            assert "words" in await admin.list_topics()


def test_a_broker_is_spoken_to_by_tls(broker: Place) -> None:
    talk(tls(broker))
    asyncio.run(talk_in_a_loop(tls(broker)))


def test_a_client_shows_its_certificate(broker: Place) -> None:
    identity = ALICE.write(broker.directory / "alice.pem")
    talk(tls(broker, "MUTUAL", ssl_keystore_type="PEM", ssl_keystore_location=identity))


def test_keys_and_certificates_may_stand_in_the_settings(broker: Place) -> None:
    settings = tls(broker, "MUTUAL", ssl_keystore_type="PEM")
    del settings["ssl.truststore.location"]
    settings |= {
        "ssl.truststore.certificates": CA.certificate_pem,
        "ssl.keystore.key": ALICE.key_pem(STORE_PASSWORD),
        "ssl.key.password": STORE_PASSWORD,
        "ssl.keystore.certificate.chain": ALICE.certificate_pem,
    }
    talk(settings)


def test_a_certificate_may_come_from_pkcs12(broker: Place) -> None:
    identity = ALICE.write_pkcs12(broker.directory / "alice.p12", STORE_PASSWORD)
    more = {"ssl_keystore_location": identity, "ssl_keystore_password": STORE_PASSWORD}
    talk(tls(broker, "MUTUAL", ssl_keystore_type="PKCS12", **more))


def test_large_answers_come_whole_over_tls(broker: Place) -> None:
    values = [bytes([number]) * 900_000 for number in range(32)]
    with Admin(tls(broker)) as admin:
        admin.create_topics(["large"])
    with Producer(tls(broker), linger_ms=0) as producer:
        for value in values:
            producer.send("large", value)
    read: list[bytes] = []
    with Consumer(tls(broker), max_partition_fetch_bytes=16_000_000) as consumer:
        consumer.assign([TopicPartition("large", 0)])
        consumer.seek_to_beginning()
        while len(read) < len(values) and (records := consumer.poll(SECONDS_MAX)):
            read += [record.value for record in records]
    assert read == values


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_logs_in(broker: Place, mechanism: str) -> None:
    talk(by_jaas(broker, mechanism))
    asyncio.run(talk_in_a_loop(by_jaas(broker, mechanism)))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_logs_in_over_tls_by_name_and_password(broker: Place, mechanism: str) -> None:
    talk(both(broker, mechanism))


def failure_of(settings: Settings, kind: type[Exception]) -> str:
    """What every client says, long before the time-outs that retries would need."""
    said = []
    with Admin(settings) as admin, pytest.raises(kind) as refusal:
        admin.list_topics()
    said.append(str(refusal.value))
    with Producer(settings) as producer, pytest.raises(kind):
        producer.send("words", b"x").result(SECONDS_MAX)
    with Producer(settings, transactional_id="t") as producer, pytest.raises(kind):
        producer.init_transactions()
    with Consumer(settings, group_id="readers") as consumer, pytest.raises(kind) as refusal:
        consumer.subscribe(["words"])
        consumer.poll(SECONDS_MAX)
    said.append(str(refusal.value))
    text = f"{said} {refusal.value!r} {admin!r} {consumer!r} {producer!r}"
    assert not [secret for secret in SECRETS if secret in text]
    return said[0]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_an_error_at_once(broker: Place, mechanism: str) -> None:
    said = failure_of(login(broker, mechanism, WRONG), errors.SaslAuthenticationError)
    assert "Authentication failed" in said


def test_a_wrong_password_is_an_error_at_once_over_tls(broker: Place) -> None:
    failure_of(both(broker, "PLAIN", WRONG), errors.SaslAuthenticationError)


def test_a_mechanism_that_the_broker_does_not_offer_is_an_error_at_once(broker: Place) -> None:
    settings = login(broker, "PLAIN") | {"bootstrap.servers": broker.at["PLAINTEXT"]}
    said = failure_of(settings, errors.AuthenticationError)
    assert "The log-in at" in said


def test_a_broker_of_another_authority_is_not_believed(broker: Place) -> None:
    settings = tls(broker)
    del settings["ssl.truststore.location"]
    settings["ssl.truststore.certificates"] = OTHER_CA.certificate_pem
    said = failure_of(settings, errors.SslAuthenticationError)
    assert "the broker's certificate is not accepted: unable to get local issuer" in said


def test_a_certificate_for_another_host_is_not_believed(broker: Place) -> None:
    said = failure_of(tls(broker, "ELSEWHERE"), errors.SslAuthenticationError)
    assert "IP address mismatch" in said
    off = {"ssl.endpoint.identification.algorithm": ""}
    talk(tls(broker, "ELSEWHERE") | off)


def test_a_client_without_the_certificate_it_needs_hears_so(broker: Place) -> None:
    said = failure_of(tls(broker, "MUTUAL"), errors.SslAuthenticationError)
    assert "certificate required" in said


def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "moldau.main", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )


def properties(path: Path, settings: Settings) -> str:
    kept = {key: value for key, value in settings.items() if key != "bootstrap.servers"}
    path.write_text("".join(f"{key}={value}\n" for key, value in kept.items()))
    return str(path)


def test_commands_log_in_by_their_file_of_settings(broker: Place, tmp_path: Path) -> None:
    settings = both(broker, "SCRAM-SHA-512")
    at = ("--bootstrap-server", settings["bootstrap.servers"])
    file = properties(tmp_path / "client.properties", settings)
    listed = run("topics", "--list", *at, "--command-config", file)
    assert (listed.returncode, "words" in listed.stdout.split()) == (0, True), listed.stderr
    topic = ("--topic", "by-commands")
    sent = run("console-producer", *at, *topic, "--producer.config", file, stdin="dobry den\n")
    assert sent.returncode == 0, sent.stderr
    words = ("--from-beginning", "--max-messages", "1", "--consumer.config", file)
    read = run("console-consumer", *at, *topic, *words)
    assert (read.returncode, read.stdout) == (0, "dobry den\n"), read.stderr


def test_a_command_says_that_the_password_is_wrong(broker: Place, tmp_path: Path) -> None:
    settings = both(broker, "PLAIN", WRONG)
    file = properties(tmp_path / "client.properties", settings)
    at = ("--bootstrap-server", settings["bootstrap.servers"])
    failed = run("topics", "--list", *at, "--command-config", file)
    assert failed.returncode == 1
    said = failed.stdout + failed.stderr
    assert "Authentication failed: Invalid username or password" in said
    assert WRONG not in said


def test_the_doctor_talks_as_its_file_of_settings_says(broker: Place, tmp_path: Path) -> None:
    for password, code in ((PASSWORD, 0), (WRONG, 2)):
        settings = both(broker, "PLAIN", password)
        file = properties(tmp_path / "client.properties", settings)
        at = ("--bootstrap-server", settings["bootstrap.servers"])
        seen = run("doctor", *at, "--command-config", file)
        said = seen.stdout + seen.stderr
        assert seen.returncode == code, said
        assert ("Authentication failed" in said) == (password == WRONG)


def test_kafka_pythons_settings_secure_its_classes_here(broker: Place) -> None:
    (broker.directory / "alice.key").write_text(ALICE.key_pem(STORE_PASSWORD))
    (broker.directory / "alice.crt").write_text(ALICE.certificate_pem)
    settings = {
        "bootstrap_servers": broker.at["MUTUAL"],
        "security_protocol": "SSL",
        "ssl_cafile": str(broker.directory / "ca.pem"),
        "ssl_certfile": str(broker.directory / "alice.crt"),
        "ssl_keyfile": str(broker.directory / "alice.key"),
        "ssl_password": STORE_PASSWORD,
    }
    producer = KafkaProducer(**settings)
    assert producer.send("words", b"x").get(SECONDS_MAX).topic == "words"
    producer.close()
    name = {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    settings = {
        "bootstrap_servers": broker.at["SASL_PLAINTEXT"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
    }
    producer = KafkaProducer(**settings, **name)
    assert producer.send("words", b"x").get(SECONDS_MAX).topic == "words"
    producer.close()
    with pytest.raises(KafkaConfigurationError, match="sasl_oauth_token_provider"):
        KafkaProducer(**settings, sasl_oauth_token_provider=object())
    with pytest.raises(KafkaConfigurationError, match="ssl_context"):
        KafkaProducer(bootstrap_servers="a:1", security_protocol="SSL", ssl_context=object())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, r"sasl\.jaas\.config: .* GSSAPI needs it .*the default of sasl\.mechanism"),
        ({"sasl.mechanism": "PLAIN"}, r"sasl\.jaas\.config: .* or sasl\.username and sasl\.pass"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PASSWORD};"}, r"\[hidden\]"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{SCRAM_MODULE} required;"},
            "is not for sasl.mechanism=PLAIN",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN_MODULE} required;"},
            "PLAIN needs a username and a password",
        ),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{BEARER_MODULE} required;"},
            "must name the user",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.jks"},
            r"ssl\.truststore\.location /nowhere\.jks cannot be read",
        ),
        (
            {"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"},
            r"ssl\.enabled\.protocols",
        ),
    ],
)
def test_settings_that_do_not_do_are_refused_in_one_sentence(
    settings: Settings, sentence: str
) -> None:
    given = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", **settings}
    for client in (Admin, Producer, Consumer):
        with pytest.raises(errors.ConfigError, match=sentence) as refusal:
            client(given)
        assert PASSWORD not in str(refusal.value)


def test_a_session_that_ends_is_renewed_on_its_connection(broker: Place) -> None:
    """Requests go on for three sessions, and the connection is that of the beginning."""

    async def go_on() -> None:
        settings = login(broker, "PLAIN", at="SHORT")
        async with asyncio.timeout(SECONDS_MAX), aio.Admin(settings) as admin:
            loop = asyncio.get_running_loop()
            await admin.list_topics()
            network = admin._core.network
            first = network.ready(network.bootstrap[0].id)
            assert first is not None
            ends_at = loop.time() + 3 * SESSION_MS / 1000
            while loop.time() < ends_at:
                await admin.list_topics()
                await asyncio.sleep(0.05)
            assert network.ready(network.bootstrap[0].id) is first

    asyncio.run(go_on())


def test_a_user_who_is_deleted_hears_so_when_the_session_is_renewed(broker: Place) -> None:
    """Records do not wait until delivery.timeout.ms for a log-in that will never succeed."""
    with Admin(bootstrap_servers=broker.at["PLAINTEXT"]) as admin:
        admin.upsert_user_scram_credential("bob", PASSWORD)
        settings = login(broker, "SCRAM-SHA-256", at="SHORT") | {"sasl.username": "bob"}
        with Producer(settings) as producer:
            producer.send("words", b"x").result(SECONDS_MAX)
            admin.delete_user_scram_credential("bob", ScramMechanism.SCRAM_SHA_256)
            deadline = time.monotonic() + SECONDS_MAX
            with pytest.raises(errors.SaslAuthenticationError, match="Authentication failed"):
                while time.monotonic() < deadline:
                    producer.send("words", b"x").result(SECONDS_MAX)
                    time.sleep(0.05)


def test_a_group_reads_on_while_sessions_are_renewed(
    broker: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Fetches wait at the broker and heartbeats go on; nothing is lost, nobody leaves."""
    settings = login(broker, "PLAIN", at="SHORT")
    with Admin(settings) as admin:
        admin.create_topics(["renewed"])
    sent: list[bytes] = []
    read: list[bytes] = []
    with Producer(settings) as producer, Consumer(settings, group_id="renewed") as consumer:
        consumer.subscribe(["renewed"])
        while not consumer.assignment():
            consumer.poll(0.1)
        consumer.seek_to_beginning()
        ends_at = time.monotonic() + 2.5 * SESSION_MS / 1000
        while time.monotonic() < ends_at or len(read) < len(sent):
            assert time.monotonic() < ends_at + SECONDS_MAX, (len(read), len(sent))
            if time.monotonic() < ends_at:
                sent.append(b"%d" % len(sent))
                producer.send("renewed", sent[-1]).result(SECONDS_MAX)
            read += [record.value for record in consumer.poll(0.1)]
    assert read == sent
    assert caplog.text.count("Successfully joined group") == 1
    assert [row.message for row in caplog.records if row.levelno >= logging.WARNING] == []
