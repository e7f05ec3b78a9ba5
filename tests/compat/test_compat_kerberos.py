"""Log-ins by Kerberos with a real KDC: Java's tools, kcat, kafka-python and Moldau's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.config.properties import parse_properties
from moldau.net.tls.authority import Authority
from moldau.testing.broker_process import BrokerProcess, BrokerStartError, free_port
from tests.integration.test_security_recipes import GSSAPI_RECIPE
from tests.support.apache_kafka import tool_command
from tests.support.cluster_with_logins import cluster_of_two, replicate_and_end_a_transaction
from tests.support.eventually import eventually
from tests.support.kerberos import REALM, Realm

pytestmark = pytest.mark.compat

SECONDS_MAX = 120
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
PREFIX = "listener.name.sasl_plaintext.gssapi."
RULES = "RULE:[1:$1@$0](bob@.*)s/@.*//U,DEFAULT"


class Place(NamedTuple):
    realm: Realm
    broker: BrokerProcess
    bootstrap: str
    tables: Mapping[str, Path]

    def module(self, user: str) -> str:
        return module(self.tables[user], user)

    def client_file(self, directory: Path, user: str, **more: str) -> Path:
        path = directory / "client.properties"
        chosen = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": self.module(user),
            **more,
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in chosen.items()))
        return path

    def run(
        self, words: Sequence[str], stdin: str = "", **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            input=stdin,
            env=os.environ | self.realm.environment | more,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )


def module(table: Path, principal: str, **more: str) -> str:
    options = {"useKeyTab": "true", "storeKey": "true", "keyTab": str(table), **more}
    options["principal"] = f"{principal}@{REALM}"
    return f"{MODULE} required " + " ".join(f'{k}="{v}"' for k, v in options.items()) + ";"


def settings(port: int, table: Path) -> dict[str, str]:
    return {
        "listeners": f"SASL_PLAINTEXT://localhost:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        f"{PREFIX}sasl.jaas.config": module(table, "kafka/localhost"),
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": RULES,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:alice;User:BOB",
    }


@pytest.fixture(scope="module")
def place(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    names = ("kafka/localhost", "alice", "bob", "carol/host")
    tables = {name: realm.add(name) for name in names}
    port = free_port()
    broker = BrokerProcess(
        tmp_path_factory.mktemp("broker"),
        port=port,
        overrides=settings(port, tables["kafka/localhost"]),
        environment=realm.environment,
    )
    broker.spawn()
    try:
        eventually(lambda: "started" in broker.log_text, seconds_max=SECONDS_MAX)
        yield Place(realm, broker, f"localhost:{port}", tables)
    finally:
        broker.stop()


def java(place: Place, tool: str, *arguments: str, scratch: Path) -> str:
    words = [*tool_command(f"org.apache.kafka.tools.{tool}", scratch), *arguments]
    words[1:1] = [f"-Djava.security.krb5.conf={place.realm.configuration}"]
    done = place.run(words)
    return done.stdout + done.stderr


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_javas_tools_log_in_without_a_proof_of_the_broker(
    place: Place, user: str, tmp_path: Path
) -> None:
    """bob is BOB by the rules, and may do everything only as that."""
    chosen = ("--bootstrap-server", place.bootstrap, "--command-config")
    file = str(place.client_file(tmp_path, user))
    name = f"of-{user}"
    said = java(place, "TopicCommand", *chosen, file, "--create", "--topic", name, scratch=tmp_path)
    assert f"Created topic {name}" in said
    assert name in java(place, "TopicCommand", *chosen, file, "--list", scratch=tmp_path)


def test_who_has_rights_is_decided_by_the_short_name(place: Place, tmp_path: Path) -> None:
    file = str(place.client_file(tmp_path, "carol/host"))
    chosen = ("--bootstrap-server", place.bootstrap, "--command-config", file)
    said = java(place, "TopicCommand", *chosen, "--create", "--topic", "c", scratch=tmp_path)
    assert "AuthorizationException" in said
    eventually(lambda: "Principal = User:carol is Denied" in place.broker.log_text)


def test_java_is_told_that_a_ticket_for_another_service_is_not_good(
    place: Place, tmp_path: Path
) -> None:
    place.realm.add("other/localhost")
    more = {"sasl.kerberos.service.name": "other"}
    file = str(place.client_file(tmp_path, "alice", **more))
    chosen = ("--bootstrap-server", place.bootstrap, "--command-config", file)
    said = java(place, "TopicCommand", *chosen, "--list", scratch=tmp_path)
    assert "SaslAuthenticationException" in said
    assert "invalid credentials with SASL mechanism GSSAPI" in said


def test_kcat_logs_in_with_libsasl2(place: Place, tmp_path: Path) -> None:
    cache = str(tmp_path / "tickets")
    usr = place.realm.root / "usr" / "bin"
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": str(place.tables["alice"]),
        "sasl.kerberos.principal": f"alice@{REALM}",
        "sasl.kerberos.kinit.cmd": f"{usr / 'kinit'} -k -t '{place.tables['alice']}' alice@{REALM}",
    }
    chosen = [word for key, value in options.items() for word in ("-X", f"{key}={value}")]
    words = [str(usr / "kcat"), "-b", place.bootstrap, *chosen]
    sent = place.run([*words, "-P", "-t", "cats"], stdin="miau\n", KRB5CCNAME=cache)
    assert sent.returncode == 0, sent.stderr
    read = place.run([*words, "-C", "-t", "cats", "-c", "1", "-q"], KRB5CCNAME=cache)
    assert read.stdout == "miau\n", read.stderr


SENDS_BY_KAFKA_PYTHON = """
import sys
from kafka import KafkaProducer
producer = KafkaProducer(
    bootstrap_servers=sys.argv[1], security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI",
    sasl_kerberos_service_name="kafka", sasl_kerberos_domain_name="localhost",
)
print(producer.send("snakes", b"sss").get(30).offset)
"""


def test_kafka_python_logs_in_with_the_package_gssapi(place: Place, tmp_path: Path) -> None:
    done = place.run(
        [sys.executable, "-c", SENDS_BY_KAFKA_PYTHON, place.bootstrap],
        KRB5_CLIENT_KTNAME=str(place.tables["alice"]),
        KRB5CCNAME=str(tmp_path / "tickets"),
    )
    assert done.stdout == "0\n", done.stderr


def own(place: Place, file: Path, *arguments: str, **more: str) -> str:
    words = [sys.executable, "-m", "moldau.main", "topics", "--bootstrap-server", place.bootstrap]
    done = place.run([*words, "--command-config", str(file), *arguments], **more)
    return done.stdout + done.stderr


def test_moldaus_own_commands_log_in_by_a_key_table(place: Place, tmp_path: Path) -> None:
    file = place.client_file(tmp_path, "alice")
    assert "Created topic own" in own(place, file, "--create", "--topic", "own")


def test_moldaus_own_commands_look_for_the_kdc_as_kafkas_scripts_say(
    place: Place, tmp_path: Path
) -> None:
    file = place.client_file(tmp_path, "alice")
    nowhere = {"KRB5_CONFIG": "/nowhere"}
    assert "no Kerberos ticket" in own(place, file, "--list", **nowhere)
    options = f"-Xmx1g -Djava.security.krb5.conf={place.realm.configuration}"
    said = own(place, file, "--create", "--topic", "found", KAFKA_OPTS=options, **nowhere)
    assert "Created topic found" in said
    said = own(place, file, "--list", KAFKA_OPTS="-Djava.security.krb5.conf=/nowhere")
    assert "java.security.krb5.conf" in said and "the file cannot be read" in said


def test_moldaus_own_commands_log_in_by_tickets_that_are_there(
    place: Place, tmp_path: Path
) -> None:
    cache = str(tmp_path / "tickets")
    kinit = [str(place.realm.root / "usr/bin/kinit"), "-k", "-t", str(place.tables["alice"])]
    done = place.run([*kinit, f"alice@{REALM}"], KRB5CCNAME=cache)
    assert done.returncode == 0, done.stderr
    chosen = f'{MODULE} required useTicketCache="true";'
    file = place.client_file(tmp_path, "alice", **{"sasl.jaas.config": chosen})
    assert "Created topic kept" in own(place, file, "--create", "--topic", "kept", KRB5CCNAME=cache)


def test_moldaus_own_client_is_told_at_once_why_not(place: Place, tmp_path: Path) -> None:
    file = place.client_file(tmp_path, "alice", **{"sasl.kerberos.service.name": "nobody"})
    said = own(place, file, "--list")
    assert "no Kerberos ticket" in said or "Kerberos:" in said
    assert "not found in Kerberos database" in said


def test_brokers_log_in_to_one_another(place: Place, tmp_path: Path) -> None:
    table = place.realm.add("kafka/127.0.0.1")
    key = "listener.name.brokers.gssapi.sasl.jaas.config"
    chosen = {
        key: module(table, "kafka/127.0.0.1"),
        "sasl.kerberos.service.name": "kafka",
        "super.users": "User:ANONYMOUS;User:kafka",
    }
    with cluster_of_two(
        tmp_path, "SASL_PLAINTEXT", "GSSAPI", chosen, place.realm.environment
    ) as brokers:
        replicate_and_end_a_transaction(brokers)


def test_the_recipe_works_as_it_stands_on_the_page(place: Place, tmp_path: Path) -> None:
    port = free_port()
    replaced = {
        "/etc/moldau": str(tmp_path),
        "kafka.example": "localhost",
        ":9093": f":{port}",
        "EXAMPLE.COM": REALM,
    }
    broker, client = GSSAPI_RECIPE
    for found, put in replaced.items():
        broker, client = broker.replace(found, put), client.replace(found, put)
    authority = Authority.create("Recipe's CA", 1)
    (tmp_path / "ca.pem").write_text(authority.identity.certificate)
    (tmp_path / "broker.pem").write_text(authority.issue_broker("b", ["localhost"], 1).together)
    (tmp_path / "kafka.keytab").write_bytes(place.tables["kafka/localhost"].read_bytes())
    (tmp_path / "alice.keytab").write_bytes(place.tables["alice"].read_bytes())
    (tmp_path / "alice.properties").write_text(client)
    process = BrokerProcess(
        tmp_path / "broker",
        port=port,
        overrides=parse_properties(broker),
        environment=place.realm.environment,
    )
    process.spawn()
    try:
        eventually(lambda: "started" in process.log_text, seconds_max=SECONDS_MAX)
        secured = place._replace(bootstrap=f"localhost:{port}")
        said = own(secured, tmp_path / "alice.properties", "--create", "--topic", "recipe")
        assert "Created topic recipe" in said
    finally:
        process.stop()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({f"{PREFIX}sasl.jaas.config": ""}, "the key table of GSSAPI stands here"),
        (
            {f"{PREFIX}sasl.jaas.config": module(Path("/nowhere"), "kafka/localhost")},
            "the key table /nowhere cannot be read",
        ),
        ({"sasl.kerberos.service.name": ""}, "no serviceName defined"),
        ({"sasl.kerberos.principal.to.local.rules": "RULE:x"}, "Invalid rule: RULE:x"),
    ],
)
def test_what_cannot_be_honoured_stops_the_start(
    place: Place, tmp_path: Path, change: dict[str, str], sentence: str
) -> None:
    port = free_port()
    chosen = {**settings(port, place.tables["kafka/localhost"]), **change}
    with pytest.raises(BrokerStartError, match=sentence):
        BrokerProcess(
            tmp_path, port=port, overrides=chosen, environment=place.realm.environment
        ).start()


def test_a_key_table_without_the_brokers_key_stops_the_start(place: Place, tmp_path: Path) -> None:
    port = free_port()
    chosen = settings(port, place.tables["alice"])
    with pytest.raises(BrokerStartError, match="cannot accept log-ins by"):
        BrokerProcess(
            tmp_path, port=port, overrides=chosen, environment=place.realm.environment
        ).start()
