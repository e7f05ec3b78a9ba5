"""A run with known secrets, as loud as it gets, and then none of them is anywhere in what was said.

Start, log-ins that succeed and fail, changed and described settings, the doctor, exceptions, how
settings and clients present themselves, every log on the level DEBUG. Pipelines on Spark have a
test of their own in tests/pipelines.
"""

from __future__ import annotations

import base64
import json
import logging
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moldau import Admin, Consumer, NewTopic, Producer
from moldau.admin import ConfigResource, ResourceType
from moldau.config.broker_config import BrokerConfig
from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.errors import KafkaError
from moldau.testing.broker_process import BrokerProcess, BrokerStartError, free_ports
from moldau.testing.broker_security import Security
from tests.support.certificates import Authority
from tests.support.eventually import eventually

SECONDS_MAX = 120
SECRETS = {
    name: f"s3cret-{name}-q7Zx"
    for name in ("alice", "wrong", "later", "scram", "store", "key", "tokens", "bearer")
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
TALK = """
import json, logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
from moldau import Admin, Consumer, Producer
settings = json.loads(sys.stdin.read())
for kind in (Admin, Producer, Consumer):
    more = {"group.id": "g"} if kind is Consumer else {}
    try:
        with kind({**settings, **more}) as client:
            print(repr(client), str(client), client)
            if kind is Admin:
                print(client.describe_cluster(), client.describe_user_scram_credentials())
            elif kind is Producer:
                print(client.send("words", b"v").result(30))
            else:
                client.subscribe(["words"])
                print(client.poll(timeout=5))
    except Exception as fault:
        import traceback
        traceback.print_exc()
        print(repr(fault), str(fault), fault.__dict__, fault.__cause__, fault.__context__)
"""


class Place(NamedTuple):
    process: BrokerProcess
    security: Security
    folder: Path
    said: dict[str, str]
    secrets: dict[str, str]

    def settings(self, mechanism: str = "PLAIN", password: str | None = None) -> dict[str, str]:
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        given = self.security.client_settings(mechanism=mechanism)
        chosen = SECRETS["alice"] if password is None else password
        jaas = f'{module} required username="alice" password="{chosen}";'
        return {"bootstrap.servers": self.process.bootstrap, **given, "sasl.jaas.config": jaas}

    def note(self, name: str, *texts: Any) -> None:
        before = self.said.get(name, "")
        self.said[name] = "\n".join([before, *(str(text) for text in texts)])

    def talk(self, name: str, settings: Mapping[str, str]) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", TALK],
            input=json.dumps(settings),
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        self.note(name, ran.stdout, ran.stderr)
        return ran.stdout + ran.stderr

    def command(self, *words: str, settings: Mapping[str, str] | None = None) -> str:
        chosen = dict(self.settings() if settings is None else settings)
        at = chosen.pop("bootstrap.servers")
        config = self.folder / "client.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in chosen.items()))
        at_broker = ("--bootstrap-server", at, "--command-config", str(config))
        ran = subprocess.run(
            [sys.executable, "-m", "moldau.main", words[0], *at_broker, *words[1:]],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            input="a line\n",
        )
        self.note(" ".join(words), ran.stdout, ran.stderr)
        return ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("secrets")
    users = {"alice": SECRETS["alice"]}
    security = Security("SASL_SSL", mechanisms=MECHANISMS, users=users)
    (plain,) = free_ports(1)
    authority = Authority()
    store = authority.issue_broker("localhost", "127.0.0.1").write_pkcs12(
        folder / "other.p12", SECRETS["store"]
    )
    overrides = {
        "delegation.token.secret.key": SECRETS["tokens"],
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice;User:ANONYMOUS",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "listener.name.sasl_ssl.ssl.key.password": SECRETS["key"],
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,OTHER:SSL",
        "listener.name.other.ssl.keystore.type": "PKCS12",
        "listener.name.other.ssl.keystore.location": store,
        "listener.name.other.ssl.keystore.password": SECRETS["store"],
        "listener.name.other.ssl.key.password": SECRETS["store"],
    }
    process = BrokerProcess(
        folder / "broker",
        security=security,
        environment={"MOLDAU_LOG_LEVEL": "DEBUG"},
        overrides=overrides,
    )
    process.settings["listeners"] += f",OTHER://127.0.0.1:{plain}"
    with process:
        own = next(
            word for key, word in process.settings.items() if key.endswith("plain.sasl.jaas.config")
        )
        brokers_own = own.split('password="')[1].split('"')[0]
        yield Place(process, security, folder, {}, {**SECRETS, "broker": brokers_own})


def test_no_secret_is_anywhere(place: Place, tmp_path: Path) -> None:
    logging.getLogger().setLevel(logging.DEBUG)
    log_in(place)
    change(place)
    describe(place)
    examine(place)
    present(place)
    refuse_to_start(place, tmp_path)
    eventually(lambda: "Failed authentication" in place.process.log_text)
    place.note("the broker's log", place.process.log_text)
    assert " DEBUG " in place.process.log_text
    found = {
        (where, name, line.strip()[:300])
        for where, text in place.said.items()
        for line in text.splitlines()
        for name, secret in place.secrets.items()
        for form in forms(secret)
        if form in line
    }
    listed = sorted((where, name, line[:160]) for where, name, line in found)
    assert not found, "\n".join(map(str, listed))


def forms(secret: str) -> list[str]:
    """As it is, and as it travels."""
    raw = secret.encode()
    token = b"\0alice\0" + raw
    shown = [base64.b64encode(each).decode().rstrip("=") for each in (raw, token)]
    return [secret, *shown, raw.hex(), token.hex(), urllib.parse.quote(secret, safe="")]


def log_in(place: Place) -> None:
    with Admin(place.settings()) as admin:
        admin.create_topics([NewTopic("words", 1)]).check()
    for mechanism in MECHANISMS:
        good = place.talk(f"good {mechanism}", place.settings(mechanism))
        assert "SaslAuthenticationError" not in good
        bad = place.talk(f"bad {mechanism}", place.settings(mechanism, SECRETS["wrong"]))
        assert "SaslAuthenticationError" in bad
    broken = place.settings()
    broken["sasl.jaas.config"] = broken["sasl.jaas.config"].removesuffix(";")
    assert "sasl.jaas.config" in place.talk("broken JAAS", broken)
    stores = {"ssl.keystore.location": str(place.folder / "other.p12")}
    wrong_store = {**place.settings(), **stores, "ssl.keystore.password": SECRETS["wrong"]}
    place.talk("wrong password of a store", {**wrong_store, "ssl.keystore.type": "PKCS12"})


def change(place: Place) -> None:
    """Settings, credentials and tokens."""
    entry = ("configs", "--alter", "--entity-type", "users", "--entity-name", "bob")
    place.command(*entry, "--add-config", f"SCRAM-SHA-256=[password={SECRETS['scram']}]")
    jaas = (
        f'{PLAIN_MODULE} required username="broker" password="{place.secrets["broker"]}" '
        f'user_broker="{place.secrets["broker"]}" user_alice="{SECRETS["alice"]}" '
        f'user_later="{SECRETS["later"]}";'
    )
    config = place.folder / "more.properties"
    for text in (jaas, jaas.removesuffix(";")):
        config.write_text(f"listener.name.sasl_ssl.plain.sasl.jaas.config={text}\n")
        place.command("configs", "--alter", "--broker", "0", "--add-config-file", str(config))
    config.write_text(f"listener.name.other.ssl.keystore.password={SECRETS['wrong']}\n")
    place.command("configs", "--alter", "--broker", "0", "--add-config-file", str(config))
    with Admin(place.settings()) as admin:
        token = admin.create_delegation_token()
        place.note("a token", repr(token), str(token))
        place.secrets["hmac"] = base64.b64encode(token.hmac).decode()


def describe(place: Place) -> None:
    for words in (("--broker", "0"), ("--broker-defaults",)):
        for more in ((), ("--all",), ("--all", "--json")):
            place.command("configs", "--describe", *words, *more)
    place.command("configs", "--describe", "--entity-type", "users", "--json")
    resource = ConfigResource(ResourceType.BROKER, "0")
    with Admin(place.settings()) as admin:
        entries = admin.describe_configs([resource]).check()[resource]
        place.note("DescribeConfigs", entries, [vars_of(each) for each in entries.values()])
        hidden = [key for key, each in entries.items() if key.endswith("jaas.config")]
        assert hidden
        assert all(entries[key].value is None for key in hidden)


def examine(place: Place) -> None:
    wrong = place.settings(password=SECRETS["wrong"])
    for more in ((), ("--json",)):
        place.command("doctor", *more)
        place.command("doctor", "--timeout", "5000", *more, settings=wrong)
    place.command("acls", "--list", "--json")
    place.command("topics", "--list", settings=wrong)
    place.command("cluster", "cluster-id")


def present(place: Place) -> None:
    """How settings and clients show themselves."""
    settings = {**place.settings(), "ssl.key.password": SECRETS["key"]}
    password = {**settings, "sasl.username": "alice", "sasl.password": SECRETS["wrong"]}
    for given in (settings, password):
        for table in (AdminConfig, ProducerConfig, ConsumerConfig):
            more = {"group.id": "g"} if table is ConsumerConfig else {}
            parsed = table.parse({**given, **more})
            place.note("parsed settings", parsed, repr(parsed))
    parsed_broker = BrokerConfig.parse({**place.process.settings})
    place.note("the broker's settings", parsed_broker, repr(parsed_broker))
    place.note("the test's own", place.security, repr(place.security))
    for kind in (Admin, Producer):
        try:
            with kind({**settings, "sasl.mechanism": "NOTHING"}) as client:
                place.note("a client", client, repr(client))
        except (KafkaError, ValueError) as fault:
            place.note("a fault", fault, repr(fault))
    with Consumer({**place.settings(), "group.id": "g"}) as consumer:
        place.note("a consumer", consumer, repr(consumer))


def vars_of(thing: Any) -> str:
    """What a debugger or a careless log line would show of its parts."""
    slots = [
        name
        for kind in type(thing).__mro__
        for name in getattr(kind, "__slots__", ())
        if hasattr(thing, name)
    ]
    return f"{getattr(thing, '__dict__', {})} { {name: getattr(thing, name) for name in slots} }"


def refuse_to_start(place: Place, tmp_path: Path) -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    (port,) = free_ports(1)
    for text in (
        f'{PLAIN_MODULE} required user_alice="{SECRETS["alice"]}"',
        f'{PLAIN_MODULE} required user_alice="{SECRETS["alice"]};',
        f'evil.Module required user_alice="{SECRETS["alice"]}";',
    ):
        overrides = {
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            key: text,
        }
        with pytest.raises(BrokerStartError) as refusal:
            BrokerProcess(tmp_path, port=port, overrides=overrides).start()
        place.note("a start that is refused", refusal.value)
