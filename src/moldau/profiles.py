"""Settings that belong together because one promise needs all of them.

    from moldau import Consumer, NewTopic, Producer
    from moldau.profiles import never_lose

    Producer(never_lose.producer, bootstrap_servers="localhost:9092")
    Consumer(never_lose.consumer, bootstrap_servers="localhost:9092", group_id="billing")
    NewTopic("orders", 6, never_lose.copies, configs=never_lose.topic)

`moldau doctor --profile never-lose` holds a cluster and settings files to it; docs/reliability.md
says what it costs and what it cannot promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

__all__ = ["Profile", "Rule", "Subject", "never_lose"]


class Subject(Enum):
    """What a rule is about."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    TOPIC = "topic"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Rule:
    """One setting of a profile, and what breaks without it."""

    subject: Subject
    key: str
    wanted: str
    """The value that the profile gives."""
    keeps: Callable[[str], bool]
    """Whether another value keeps the promise too."""
    breaks: str
    """What happens with a value that does not: a sentence."""
    is_loss: bool = True
    """Whether records are lost; if not, they may be seen twice, or seen though they never were."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Rules under one name, and their settings by what they are for."""

    name: str
    copies: int
    """The replication factor of topics."""
    rules: tuple[Rule, ...]

    def settings(self, subject: Subject) -> dict[str, str]:
        """The settings of one subject, by key."""
        return {rule.key: rule.wanted for rule in self.rules if rule.subject is subject}

    @property
    def producer(self) -> dict[str, str]:
        """Settings of a producer, to which you add your own."""
        return self.settings(Subject.PRODUCER)

    @property
    def consumer(self) -> dict[str, str]:
        """Settings of a consumer. It must commit what it has processed: `consumer.commit()`."""
        return self.settings(Subject.CONSUMER)

    @property
    def topic(self) -> dict[str, str]:
        """Settings of a topic that has `copies` replicas."""
        return self.settings(Subject.TOPIC)

    @property
    def broker(self) -> dict[str, str]:
        """Settings of brokers: for internal topics, and for those made without settings."""
        return self.settings(Subject.BROKER)

    def broken_by(self, subject: Subject, settings: Mapping[str, str]) -> list[tuple[Rule, str]]:
        """The rules that these settings break, with the value that does it. A setting that is not
        among them is not judged: give defaults too."""
        return [
            (rule, settings[rule.key])
            for rule in self.rules
            if rule.subject is subject and rule.key in settings and not _keeps(rule, settings)
        ]


def _keeps(rule: Rule, settings: Mapping[str, str]) -> bool:
    return rule.keeps(settings[rule.key].strip().lower())


def _is(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


def _at_least(limit: int) -> Callable[[str], bool]:
    return lambda value: value.lstrip("-").isdigit() and int(value) >= limit


def _at_most(limit: int) -> Callable[[str], bool]:
    return lambda value: value.lstrip("-").isdigit() and int(value) <= limit


_RETRIES = 2**31 - 1
_PRODUCER, _CONSUMER, _TOPIC, _BROKER = Subject
_UNCLEAN = "a replica that has not every record may become the leader; what only the others had is"

never_lose = Profile(
    "never-lose",
    copies=3,
    rules=(
        Rule(
            *(_PRODUCER, "acks", "all", _is("all", "-1")),
            "a record counts as written when the leader alone has it, or nobody; it is lost if that"
            " broker dies",
        ),
        Rule(
            *(_PRODUCER, "enable.idempotence", "true", _is("true")),
            "what is sent again after a lost answer is stored twice, and may overtake others",
            is_loss=False,
        ),
        Rule(
            *(_PRODUCER, "retries", str(_RETRIES), _at_least(_RETRIES)),
            "a record is given up after so many tries, in a change of leaders within a second;"
            " delivery.timeout.ms is the limit to set",
        ),
        Rule(
            *(_PRODUCER, "delivery.timeout.ms", "120000", _at_least(120_000)),
            "a record is given up while the cluster is still electing a leader",
        ),
        Rule(
            *(_PRODUCER, "max.in.flight.requests.per.connection", "5", _at_most(5)),
            "a broker knows the last five requests of a producer: with more, one that is sent again"
            " may be stored twice",
            is_loss=False,
        ),
        Rule(
            *(_CONSUMER, "enable.auto.commit", "false", _is("false")),
            "records count as read before they are processed; those of a consumer that dies are"
            " never processed",
        ),
        Rule(
            *(_CONSUMER, "auto.offset.reset", "earliest", _is("earliest", "none")),
            "a group without a committed offset begins at the end: what was written before, or"
            " while its offset was expired, is never read",
        ),
        Rule(
            *(_CONSUMER, "isolation.level", "read_committed", _is("read_committed")),
            "records of aborted transactions are read as if they had happened",
            is_loss=False,
        ),
        Rule(
            *(_TOPIC, "min.insync.replicas", "2", _at_least(2)),
            "a record is acknowledged while one broker has it, and lost with it",
        ),
        Rule(
            *(_TOPIC, "unclean.leader.election.enable", "false", _is("false")),
            f"{_UNCLEAN} lost",
        ),
        Rule(
            *(_BROKER, "default.replication.factor", "3", _at_least(3)),
            "topics made without a replication factor have too few copies",
        ),
        Rule(
            *(_BROKER, "min.insync.replicas", "2", _at_least(2)),
            "topics made without this setting acknowledge what one broker has",
        ),
        Rule(
            *(_BROKER, "unclean.leader.election.enable", "false", _is("false")),
            f"{_UNCLEAN} lost, in all topics that do not say otherwise",
        ),
        Rule(
            *(_BROKER, "offsets.topic.replication.factor", "3", _at_least(3)),
            "a new cluster keeps the offsets of groups on too few brokers",
        ),
        Rule(
            *(_BROKER, "transaction.state.log.replication.factor", "3", _at_least(3)),
            "a new cluster keeps the state of transactions on too few brokers",
        ),
        Rule(
            *(_BROKER, "transaction.state.log.min.isr", "2", _at_least(2)),
            "the outcome of a transaction may be known to one broker alone, and lost with it",
        ),
    ),
)
"""Nothing acknowledged is lost, and nothing is processed as if it were done: at least once, or
exactly once with transactions."""
