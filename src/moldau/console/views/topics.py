"""The list of topics, and what is done with whole topics."""

from __future__ import annotations

from typing import NamedTuple

from moldau.admin import NewPartitions, NewTopic, TopicDescription
from moldau.console import cluster_answers
from moldau.console.commands import command
from moldau.console.listing import list_rows
from moldau.console.page import Asked, PageFault, Plan, Shown
from moldau.console.rendering import path_word
from moldau.diagnosis.evidence import plural

PARTITIONS_MAX = 10_000
SETTINGS_MAX = 100


class TopicRow(NamedTuple):
    name: str
    is_internal: bool
    partitions: int
    replicas: int
    """The most that a partition has."""
    out_of_sync: int
    leaderless: int
    size_bytes: int | None
    """All replicas together; None while it is not known yet."""
    records: int | None
    rate: float | None
    groups: int | None
    lag: int | None
    """Of the group that is furthest behind; None without groups."""


KEYS = {
    "name": lambda row: row.name,
    "partitions": lambda row: row.partitions,
    "replicas": lambda row: row.replicas,
    "size": lambda row: row.size_bytes,
    "records": lambda row: row.records,
    "rate": lambda row: row.rate,
    "groups": lambda row: row.groups,
    "lag": lambda row: row.lag,
    "health": lambda row: (row.leaderless, row.out_of_sync),
}


async def listed(asked: Asked) -> Shown:
    link = asked.link
    told = await cluster_answers.topics(link)
    with_internal = asked.query.get("internal") == "yes"
    rows = topic_rows(asked, told.value, with_internal=with_internal)
    kept = {"internal": "yes"} if with_internal else {}
    listing, shown = list_rows(asked, "/topics", rows, KEYS, kept=kept)
    return {"when": told.when, "listing": listing, "topics": shown, "with_internal": with_internal}


def topic_rows(
    asked: Asked, topics: cluster_answers.Topics, *, with_internal: bool
) -> list[TopicRow]:
    """From what is known by now: nothing here waits for the cluster."""
    link = asked.link
    sizes = cluster_answers.peek_sizes(link)
    lags = cluster_answers.peek_lags(link)
    records = _records(asked)
    rates = link.history.rates if link.history is not None else {}
    return [
        _row(
            topic,
            None if sizes is None else sizes.value.topics.get(name, 0),
            None if records is None else records.get(name, 0),
            rates.get(name),
            None if lags is None else lags.value.by_topic.get(name, {}),
        )
        for name, topic in topics.items()
        if with_internal or not topic.is_internal
    ]


def _row(
    topic: TopicDescription,
    size: int | None,
    records: int | None,
    rate: float | None,
    lags: dict[str, int] | None,
) -> TopicRow:
    parts = topic.partitions
    return TopicRow(
        topic.name,
        topic.is_internal,
        len(parts),
        max((len(each.replicas) for each in parts), default=0),
        sum(len(each.isr) < len(each.replicas) for each in parts),
        sum(each.leader < 0 for each in parts),
        size,
        records,
        rate,
        None if lags is None else len(lags),
        max(lags.values()) if lags else None,
    )


def _records(asked: Asked) -> dict[str, int] | None:
    """Records by topic, from the ends of its partitions; transactions and compaction leave gaps."""
    ends = cluster_answers.peek_ends(asked.link)
    starts = cluster_answers.peek_starts(asked.link)
    if ends is None or starts is None:
        return None
    found: dict[str, int] = {}
    for partition, end in ends.value.items():
        count = max(0, end - starts.value.get(partition, end))
        found[partition.topic] = found.get(partition.topic, 0) + count
    return found


async def new_topic(asked: Asked) -> Shown:
    return {}


async def creation(asked: Asked) -> Plan:
    name = asked.filled("name")
    partitions = asked.filled_number("partitions", -1, least=1, most=PARTITIONS_MAX)
    replicas = asked.filled_number("replicas", -1, least=1, most=1000)
    settings = settings_of(asked.form.get("settings", ""))
    topic = NewTopic(name, partitions, replicas, settings)
    # The brokers look at it first: what they refuse is said before anybody is asked.
    await asked.link.admin.create_topics([topic], validate_only=True)

    async def act() -> str:
        made = (await asked.link.admin.create_topics([topic]))[name]
        return f"The topic {name} is there, with {made.partitions} partitions."

    counts = [
        "as many partitions as brokers are set to give it"
        if partitions < 0
        else f"{partitions} partitions",
        "their number of replicas" if replicas < 0 else f"{replicas} replicas of each",
    ]
    words = ["topics", "--create", "--topic", name]
    words += ["--partitions", str(partitions)] if partitions > 0 else []
    words += ["--replication-factor", str(replicas)] if replicas > 0 else []
    for key, value in settings.items():
        words += ["--config", f"{key}={value}"]
    return Plan(
        f"Create the topic {name}",
        (f"A topic {name} is made, with {counts[0]} and {counts[1]}.",),
        act,
        f"/topics/{path_word(name)}",
        command(asked, *words),
        rows=(("Setting", "Value"), *settings.items()) if settings else (),
    )


def settings_of(text: str) -> dict[str, str]:
    """key=value lines, as a form has them."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise PageFault(400, f"Line {number} of the settings is not key=value: '{line[:80]}'.")
        found[key.strip()] = value.strip()
    if len(found) > SETTINGS_MAX:
        raise PageFault(400, f"{len(found)} settings at once are too many: {SETTINGS_MAX} at most.")
    return found


async def deletion(asked: Asked) -> Plan:
    name = asked.path["topic"]
    topic = (await asked.link.admin.describe_topics([name]))[name]
    lags = cluster_answers.peek_lags(asked.link)
    groups = sorted(lags.value.by_topic.get(name, {})) if lags is not None else []
    sentences = [
        f"The topic {name} is deleted with its {plural(len(topic.partitions), 'partition')} and all"
        " records in them. That cannot be undone."
    ]
    if groups:
        sentences.append(f"Groups have committed offsets in it: {', '.join(groups[:10])}.")

    async def act() -> str:
        await asked.link.admin.delete_topics([name])
        return f"The topic {name} is deleted."

    return Plan(
        f"Delete the topic {name}",
        tuple(sentences),
        act,
        "/topics",
        command(asked, "topics", "--delete", "--topic", name),
        typed=name,
    )


async def growth(asked: Asked) -> Plan:
    name = asked.path["topic"]
    topic = (await asked.link.admin.describe_topics([name]))[name]
    now = len(topic.partitions)
    total = asked.filled_number("total", 0, least=1, most=PARTITIONS_MAX)
    if total <= now:
        raise PageFault(400, f"{name} has {now} partitions; there can only be more than that.")
    await asked.link.admin.create_partitions({name: NewPartitions(total)}, validate_only=True)

    async def act() -> str:
        await asked.link.admin.create_partitions({name: NewPartitions(total)})
        return f"{name} has {total} partitions."

    return Plan(
        f"Give {name} {total} partitions",
        (
            f"{name} grows from {now} to {total} partitions. There is no way back to fewer.",
            "Records with a key go to other partitions from then on: those of one key are no longer"
            " in one order with the older ones.",
        ),
        act,
        f"/topics/{path_word(name)}",
        command(asked, "topics", "--alter", "--topic", name, "--partitions", str(total)),
    )
