"""Who may do what: the same requests of the same principals to Moldau and to Apache Kafka.

Every API in every version that both serve is sent by somebody without rights, with each right
alone, and with all that are needed. Codes, rows, texts and silence must be the same, and so must
be what the audit logs say of it; a topic that may not be described must look like one that is not
there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.handlers.routes import ROUTES
from moldau.testing.broker_process import BrokerProcess, free_ports
from moldau.wire.apis import OWN_FROM
from tests.compat.authorization import of_admin, of_groups, of_topics
from tests.compat.authorization.audit_lines import AuditLog, tell_grants
from tests.compat.authorization.audit_lines import differences as audit_differences
from tests.compat.authorization.both_sides import ROOT, TOKEN_KEY, Side, jaas
from tests.compat.authorization.plain_view import differences
from tests.compat.authorization.words import GONE, HERE, Ask, Request, Scenario
from tests.support.apache_kafka import ApacheKafka

pytestmark = pytest.mark.compat

REQUESTS = (*of_topics.REQUESTS, *of_groups.REQUESTS, *of_admin.REQUESTS)
LOGGING_IN = {17, 18, 36}
NODE_ID = 1
SETTLE_SECONDS_MAX = 30.0
LINES_SECONDS_MAX = 3.0
SCENARIOS = tuple(
    Scenario(f"u{number}", request, grants)
    for number, (request, grants) in enumerate(
        (request, grants) for request in REQUESTS for grants in ((), *request.grants)
    )
)
SETTINGS = {
    "auto.create.topics.enable": "true",
    "delegation.token.secret.key": TOKEN_KEY,
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Sides(NamedTuple):
    moldau: Side
    kafka: Side
    our_audit: AuditLog
    their_audit: AuditLog


def words(request: Request) -> str:
    return f"{request.api_key}-{request.label}"


def grants_in_words(scenario: Scenario) -> str:
    said = [f"{right.operation.name} {right.kind.name} {right.name}" for right in scenario.grants]
    return " + ".join(said) or "nothing"


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder: Path = tmp_path_factory.mktemp("authorization")
    (port,) = free_ports(1)
    users = jaas([ROOT, *(scenario.user for scenario in SCENARIOS)])
    moldau = BrokerProcess(folder / "moldau", port=port, overrides=of_moldau(port, users))
    (inner,) = free_ports(1)
    kafka = ApacheKafka(folder / "kafka")
    kafka.settings.update(of_kafka(kafka, inner, users))
    audit = AuditLog(moldau.log_path), AuditLog(kafka.directory / "server.log")
    with moldau, kafka, Side("Moldau", port) as ours, Side("Apache Kafka", kafka.port) as theirs:
        both = Sides(ours, theirs, *audit)
        for side in (ours, theirs):
            tell_grants(side.root, NODE_ID)
        topics = [
            f"{scenario.request.makes}{own_name(scenario, version)}"
            for scenario in SCENARIOS
            if scenario.request.makes
            for version in versions(both, scenario.request)
        ]
        ours.prepare(SCENARIOS, topics)
        theirs.prepare(SCENARIOS, topics)
        yield both


def of_moldau(port: int, users: str) -> dict[str, str]:
    return {
        **SETTINGS,
        "broker.id": str(NODE_ID),
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{ROOT}",
    }


def of_kafka(kafka: ApacheKafka, inner: int, users: str) -> dict[str, str]:
    controllers = f"CONTROLLER://127.0.0.1:{kafka.controller_port}"
    return {
        **SETTINGS,
        "listeners": (
            f"SASL_PLAINTEXT://{kafka.bootstrap},PLAINTEXT://127.0.0.1:{inner},{controllers}"
        ),
        "advertised.listeners": (
            f"SASL_PLAINTEXT://{kafka.bootstrap},PLAINTEXT://127.0.0.1:{inner}"
        ),
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ROOT};User:ANONYMOUS",
    }


def own_name(scenario: Scenario, version: int) -> str:
    return f"{scenario.user}-{version}"


def versions(sides: Sides, request: Request) -> list[int]:
    ours = sides.moldau.versions.get(request.api_key, range(0))
    theirs = sides.kafka.versions.get(request.api_key, range(0))
    return [
        version
        for version in ours
        if version in theirs and request.first <= version <= request.last
    ]


def test_every_api_that_is_served_is_compared() -> None:
    of_kafka = {key for key in ROUTES if key < OWN_FROM}
    assert of_kafka - LOGGING_IN <= {request.api_key for request in REQUESTS}


@pytest.mark.parametrize("request_", REQUESTS, ids=words)
def test_both_brokers_say_the_same(sides: Sides, request_: Request) -> None:
    found: dict[str, list[str]] = {}
    for scenario in SCENARIOS:
        if scenario.request is not request_:
            continue
        for version in versions(sides, request_):
            for topic in (HERE, GONE) if request_.names_a_topic else (HERE,):
                where = f"{topic}, allowed {grants_in_words(scenario)}, version {version}"
                for line in parting(sides, scenario, version, topic):
                    found.setdefault(line, []).append(where)
    assert not found, "\n".join(f"{line}\n    {'; '.join(at)}" for line, at in found.items())


def audit_parting(sides: Sides, who: str) -> list[str]:
    """Moldau's lines are written by a thread, which may be behind the answer."""
    ours, theirs = sides.our_audit.lines(who), sides.their_audit.lines(who)
    deadline = time.monotonic() + LINES_SECONDS_MAX
    while (found := audit_differences(ours, theirs)) and time.monotonic() < deadline:
        time.sleep(0.005)
        ours += sides.our_audit.lines(who)
    return found


def parting(sides: Sides, scenario: Scenario, version: int, topic: str) -> list[str]:
    own = own_name(scenario, version)
    deadline = time.monotonic() + (SETTLE_SECONDS_MAX if scenario.request.settles else 0)
    while True:
        ours, theirs = (
            side.answer(Ask(version, topic, side.world, own), scenario)
            for side in (sides.moldau, sides.kafka)
        )
        who = f"User:{scenario.user}"
        found = differences(ours, theirs)
        found += audit_parting(sides, who)
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)
