"""What of a cluster, and of a client's settings, breaks the promise of a profile.

Pure: `gathering` has asked for the settings. The rules are those of `moldau.profiles`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.config.client_settings.common_settings import ClientSettings
from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.config.setting_definition import ConfigError, value_text
from moldau.diagnosis.evidence import Evidence, Finding, Severity, few, plural
from moldau.profiles import Profile, Rule, Subject

CLIENTS: dict[Subject, type[ClientSettings]] = {
    Subject.PRODUCER: ProducerConfig,
    Subject.CONSUMER: ConsumerConfig,
}

FILLED_IN = {
    Subject.PRODUCER: {"bootstrap.servers": "localhost:9092"},
    # Without a group there would be nothing to commit.
    Subject.CONSUMER: {"bootstrap.servers": "localhost:9092", "group.id": "any"},
}
"""What a file may leave to the program."""


def diagnose_cluster_for(profile: Profile, seen: Evidence) -> Iterator[Finding]:
    """One finding for each rule, with everybody who breaks it."""
    if seen.cluster is None:
        return
    alive = len(seen.cluster.brokers)
    if alive < profile.copies:
        yield _finding(
            profile,
            "brokers",
            f"{plural(alive, 'broker')} cannot hold {profile.copies} copies",
            "A record is lost with the only broker, or the two, that have it.",
            f"Run {profile.copies} brokers or more.",
        )
    yield from _thin_topics(profile, seen)
    for rule in profile.rules:
        if rule.subject is Subject.TOPIC:
            yield from _topics(profile, rule, seen)
        elif rule.subject is Subject.BROKER:
            yield from _brokers(profile, rule, seen)


def _thin_topics(profile: Profile, seen: Evidence) -> Iterator[Finding]:
    thin = [
        topic.name
        for topic in seen.topics
        if any(len(each.replicas) < profile.copies for each in topic.partitions)
    ]
    if thin:
        yield _finding(
            profile,
            "copies",
            f"fewer than {profile.copies} replicas: {few(thin)}",
            "With two copies, one of which is away for a restart, the other one is the only one.",
            "Give each partition more replicas, by a reassignment.",
            seen.command("reassign-partitions --help"),
        )


def _topics(profile: Profile, rule: Rule, seen: Evidence) -> Iterator[Finding]:
    bad = [
        name
        for name, settings in sorted(seen.topic_settings.items())
        if any(broken is rule for broken, _ in profile.broken_by(Subject.TOPIC, settings))
    ]
    if bad:
        first = f"configs --alter --topic {bad[0]} --add-config {rule.key}={rule.wanted}"
        yield _of_rule(profile, rule, f"topics {few(bad)}", seen.command(first))


def _brokers(profile: Profile, rule: Rule, seen: Evidence) -> Iterator[Finding]:
    bad = {
        broker: value
        for broker, settings in sorted(seen.settings_by_broker.items())
        for broken, value in profile.broken_by(Subject.BROKER, settings)
        if broken is rule
    }
    if bad:
        who = f"brokers {few(bad)} ({rule.key}={few(sorted(set(bad.values())))})"
        yield _of_rule(profile, rule, who, "")


def diagnose_client_for(
    profile: Profile, subject: Subject, name: str, settings: Mapping[str, str]
) -> Iterator[Finding]:
    """A settings file of a producer or a consumer; `name` is the file's. What it does not say has
    the default of Kafka's clients from 3.0 on."""
    table = CLIENTS[subject]
    given = {**FILLED_IN[subject], **settings}
    try:
        config, _ = table.parse(given)
    except ConfigError as fault:
        yield _finding(
            profile,
            f"{subject.value}-settings",
            f"{name}: {fault}",
            "No client starts with it.",
            "Correct it.",
        )
        return
    names = {key: table.rows[key].name for key in profile.settings(subject)}
    rows = {key: value_text(getattr(config, name)) or "" for key, name in names.items()}
    for rule, value in profile.broken_by(subject, rows):
        how = "is" if rule.key in config.given else "is not given and is"
        yield _of_rule(profile, rule, f"{name}: {rule.key} {how} {value}", "")


def _of_rule(profile: Profile, rule: Rule, who: str, command: str) -> Finding:
    return _finding(
        profile,
        f"{rule.subject.value}-{rule.key}",
        who if rule.key in who else f"{who}: {rule.key}",
        rule.breaks[0].upper() + rule.breaks[1:] + ".",
        f"Set {rule.key}={rule.wanted}.",
        command,
        Severity.WARNING if rule.is_loss else Severity.NOTE,
    )


def _finding(
    profile: Profile,
    code: str,
    what: str,
    cause: str,
    fix: str,
    command: str = "",
    severity: Severity = Severity.WARNING,
) -> Finding:
    return Finding(severity, f"{profile.name}-{code}", what, cause, fix, command)
