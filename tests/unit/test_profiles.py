"""The never-lose profile: what it gives is accepted everywhere, and what breaks it is named."""

from __future__ import annotations

import pytest

from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.config.topic_config import TopicConfig
from moldau.diagnosis.diagnosing import Promise, diagnose
from moldau.diagnosis.evidence import (
    BrokerSight,
    ClusterSight,
    Evidence,
    Finding,
    Limits,
    PartitionSight,
    Probe,
    Reach,
    Severity,
    TopicSight,
)
from moldau.diagnosis.never_lose import diagnose_client_for
from moldau.profiles import Subject, never_lose

BOOTSTRAP = {"bootstrap.servers": "localhost:9092"}


def evidence(brokers: int, replicas: int) -> Evidence:
    rows = tuple(BrokerSight(number, "kafka.example", 9092 + number) for number in range(brokers))
    held = tuple(range(replicas))
    topic = TopicSight("orders", False, (PartitionSight(0, 0, held, held),))
    seen = Evidence("kafka.example:9092", now_ms=1_000_000)
    seen.probes = [Probe("kafka.example", 9092, Reach.KAFKA, addresses=("192.0.2.1",))]
    seen.cluster = ClusterSight("one", 0, rows, (topic,))
    seen.broker_probes = {each.id: Probe(each.host, each.port, Reach.KAFKA) for each in rows}
    seen.min_isr = {"orders": 1}
    seen.topic_settings = {"orders": dict(never_lose.topic)}
    seen.settings_by_broker = {each.id: dict(never_lose.broker) for each in rows}
    return seen


def broken(seen: Evidence) -> dict[str, Finding]:
    found = diagnose(seen, Limits(), Promise(never_lose, {}))
    return {each.code: each for each in found if each.code.startswith("never-lose-")}


def client(subject: Subject, **settings: str) -> dict[str, Finding]:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    found = diagnose_client_for(never_lose, subject, "a.properties", given)
    return {each.code: each for each in found}


def test_its_settings_are_settings_of_what_they_are_for() -> None:
    assert ProducerConfig.parse({**BOOTSTRAP, **never_lose.producer})[1] == []
    assert ConsumerConfig.parse({**BOOTSTRAP, **never_lose.consumer})[1] == []
    for key, value in never_lose.topic.items():
        assert TopicConfig.rows[key].allows(value)


def test_every_rule_keeps_what_it_gives_and_says_what_breaks() -> None:
    for rule in never_lose.rules:
        assert rule.keeps(rule.wanted)
        assert rule.breaks and not rule.breaks.endswith(".")


def test_what_follows_the_profile_has_no_findings() -> None:
    assert broken(evidence(brokers=3, replicas=3)) == {}
    for subject in (Subject.PRODUCER, Subject.CONSUMER):
        assert client(subject, **never_lose.settings(subject)) == {}


def test_too_few_brokers_and_copies_are_named() -> None:
    found = broken(evidence(brokers=1, replicas=1))
    assert "1 broker cannot hold 3 copies" in found["never-lose-brokers"].what
    assert "orders" in found["never-lose-copies"].what


@pytest.mark.parametrize(
    ("key", "value"), [("min.insync.replicas", "1"), ("unclean.leader.election.enable", "true")]
)
def test_a_setting_of_a_topic_that_breaks_it_is_named(key: str, value: str) -> None:
    seen = evidence(brokers=3, replicas=3)
    seen.topic_settings["orders"][key] = value
    (finding,) = broken(seen).values()
    assert finding.code == f"never-lose-topic-{key}"
    assert "orders" in finding.what
    assert f"{key}={never_lose.topic[key]}" in finding.command
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize("key", never_lose.broker)
def test_a_setting_of_a_broker_that_breaks_it_is_named(key: str) -> None:
    seen = evidence(brokers=3, replicas=3)
    bad = "true" if key.startswith("unclean") else "1"
    seen.settings_by_broker[2][key] = bad
    (finding,) = broken(seen).values()
    assert finding.what == f"brokers 2 ({key}={bad})"


@pytest.mark.parametrize(
    ("key", "value", "severity"),
    [
        ("acks", "1", Severity.WARNING),
        ("acks", "0", Severity.WARNING),
        ("enable.idempotence", "false", Severity.NOTE),
        ("retries", "3", Severity.WARNING),
        ("delivery.timeout.ms", "31000", Severity.WARNING),
    ],
)
def test_a_setting_of_a_producer_that_breaks_it_is_named(
    key: str, value: str, severity: Severity
) -> None:
    found = client(Subject.PRODUCER, **{key: value})
    finding = found[f"never-lose-producer-{key}"]
    assert finding.what == f"a.properties: {key} is {value}"
    assert finding.severity is severity


def test_a_default_that_breaks_it_is_named_as_a_default() -> None:
    found = client(Subject.CONSUMER)
    finding = found["never-lose-consumer-auto.offset.reset"]
    assert finding.what == "a.properties: auto.offset.reset is not given and is latest"
    assert "never-lose-consumer-enable.auto.commit" in found
    assert client(Subject.PRODUCER) == {}


def test_an_old_name_of_a_setting_is_understood() -> None:
    found = client(Subject.PRODUCER, **{"request.required.acks": "1"})
    assert "never-lose-producer-acks" in found


def test_settings_with_which_no_client_starts_are_named() -> None:
    found = client(Subject.PRODUCER, acks="1", enable_idempotence="true")
    assert list(found) == ["never-lose-producer-settings"]
    assert "a.properties" in found["never-lose-producer-settings"].what
