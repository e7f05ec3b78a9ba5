"""`moldau acls` at a real broker: its words are Kafka's, and what it allows is allowed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from moldau.main import main
from moldau.testing.broker_process import BrokerProcess, free_ports
from tests.support.eventually import eventually

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECONDS_MAX = 30
TOPIC = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    plain, sasl = free_ports(2)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PLAIN} required user_alice="wonder";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with BrokerProcess(tmp_path_factory.mktemp("acls"), port=plain, overrides=settings) as broker:
        yield broker


@pytest.fixture
def broker(secured: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Iterator[BrokerProcess]:
    yield secured
    for words in ("--topic orders", "--topic o --resource-pattern-type prefixed", "--group g"):
        acls(secured, f"--remove --force {words}")
    acls(secured, "--remove --force --cluster --transactional-id tx")
    capsys.readouterr()


def acls(broker: BrokerProcess, words: str) -> int:
    return main(["acls", "--bootstrap-server", broker.bootstrap, *words.split()])


def entry(principal: str, operation: str, permission: str = "ALLOW", host: str = "*") -> str:
    return (
        f"\t(principal=User:{principal}, host={host}, operation={operation}, "
        f"permissionType={permission})"
    )


def test_entries_are_added_listed_and_removed_in_kafkas_words(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = "--topic orders --allow-principal User:alice --operation Read"
    assert acls(broker, f"--add {one}") == 0
    read = entry("alice", "READ")
    assert capsys.readouterr().out == f"Adding ACLs for resource `{TOPIC}`: \n {read}\n\n"
    assert acls(broker, f"--add {one}") == 0
    said = capsys.readouterr().out
    assert said == f"Acl (pattern={TOPIC}, entry={read.strip()}) already exists.\n"
    assert acls(broker, "--list --topic orders") == 0
    assert capsys.readouterr().out == f"Current ACLs for resource `{TOPIC}`:\n{read}\n\n"
    assert acls(broker, "--list --principal User:alice --principal User:bob") == 0
    assert capsys.readouterr().out == (
        f"ACLs for principal `User:alice`\nCurrent ACLs for resource `{TOPIC}`:\n{read}\n\n"
        "ACLs for principal `User:bob`\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert acls(broker, f"--remove {one}") == 0
    assert capsys.readouterr().out == (
        f"Are you sure you want to remove ACLs: \n {read}\n from resource filter `{TOPIC}`? (y/n)\n"
    )
    assert acls(broker, "--list --topic orders") == 0
    assert read in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("Y\n"))
    assert acls(broker, f"--remove {one}") == 0
    capsys.readouterr()
    assert acls(broker, "--list --topic orders") == 0
    assert capsys.readouterr().out == ""


def test_all_entries_of_a_resource_go_only_after_a_yes(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    acls(broker, "--add --topic orders --deny-principal User:bob --deny-host 10.0.0.1")
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert acls(broker, "--remove --topic orders") == 0
    question = f"Are you sure you want to delete all ACLs for resource filter `{TOPIC}`? (y/n)\n"
    assert capsys.readouterr().out == question
    acls(broker, "--list --json")
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {
        "resourceType": "TOPIC",
        "name": "orders",
        "patternType": "LITERAL",
        "principal": "User:bob",
        "host": "10.0.0.1",
        "operation": "ALL",
        "permissionType": "DENY",
    }
    assert acls(broker, "--remove --force --topic orders") == 0
    acls(broker, "--list --json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == []


def test_roles_stand_for_what_they_need(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "--add --producer --consumer --idempotent --topic orders --group g"
    assert acls(broker, f"{line} --transactional-id tx --allow-principal User:alice") == 0
    capsys.readouterr()
    acls(broker, "--list --json")
    rows = json.loads(capsys.readouterr().out)
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["resourceType"], set()).add(row["operation"])
    assert found == {
        "TOPIC": {"READ", "WRITE", "DESCRIBE", "CREATE"},
        "TRANSACTIONAL_ID": {"WRITE", "DESCRIBE"},
        "GROUP": {"READ"},
        "CLUSTER": {"IDEMPOTENT_WRITE"},
    }


def test_match_finds_prefixes_and_what_is_allowed_is_allowed(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    sasl = broker.settings["listeners"].rpartition("//")[2]
    admin = AdminClient(
        {
            "bootstrap.servers": sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "wonder",
            "log_level": 0,
        }
    )
    main(["topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "orders"])
    assert "orders" not in admin.list_topics(timeout=SECONDS_MAX).topics
    line = "--topic o --resource-pattern-type prefixed --allow-principal User:alice"
    assert acls(broker, f"--add {line} --operation describe") == 0
    eventually(lambda: "orders" in admin.list_topics(timeout=SECONDS_MAX).topics)
    capsys.readouterr()
    acls(broker, "--list --topic orders")
    assert capsys.readouterr().out == ""
    acls(broker, "--list --topic orders --resource-pattern-type match")
    assert "name=o, patternType=PREFIXED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--topic t", "Command must include exactly one action: --list, --add, --remove."),
        ("--list --add", "Command must include exactly one action"),
        ("--list --producer", 'Option "[list]" can\'t be used with option "[producer]"'),
        (
            "--add --consumer --topic t --group g --operation Read",
            'Option "[consumer]" can\'t be used with option "[operation]"',
        ),
        ("--add --principal User:a", "--principal option is only available if --list is set"),
        ("--add --producer", "With --producer you must specify a --topic"),
        ("--add --idempotent", "--idempotent option is only available if --producer is set"),
        ("--add --consumer --topic t", "With --consumer you must specify a --topic and a --group"),
        ("--add --allow-principal User:a", "You must provide at least one resource"),
        ("--add --topic t", "You must specify one of: --allow-principal, --deny-principal"),
        (
            "--add --topic t --allow-principal User:a --resource-pattern-type match",
            "A '--resource-pattern-type' value of 'MATCH' is not valid when adding acls.",
        ),
        (
            "--add --group g --allow-principal User:a --operation Write",
            "ResourceType GROUP only supports operations [READ, DELETE, DESCRIBE,",
        ),
        (
            "--add --topic t --allow-principal alice",
            "expected a string in format principalType:principalName but got alice",
        ),
    ],
)
def test_lines_that_make_no_sense_are_refused(
    secured: BrokerProcess, words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert acls(secured, words) == 1
    said = capsys.readouterr()
    assert sentence in said.out + said.err
    assert "Traceback" not in said.err


def test_without_an_authorizer_the_reason_is_said(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    with BrokerProcess(tmp_path_factory.mktemp("open")) as broker:
        assert acls(broker, "--list") == 1
    said = capsys.readouterr().out
    assert "Error while executing ACL command: " in said
    assert "No Authorizer is configured on the broker" in said
