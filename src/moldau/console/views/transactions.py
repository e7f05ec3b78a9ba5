"""Transactions: all, those that hang, one, and who writes to a partition."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from moldau.admin import ProducerState, TopicPartition
from moldau.client.admin.hanging_transactions import Suspect, hanging, names_of, suspects
from moldau.client.shared.client_errors import KafkaError
from moldau.console import cluster_answers
from moldau.console.cluster_link import ClusterLink
from moldau.console.commands import command
from moldau.console.faults import sentence_of
from moldau.console.listing import list_rows
from moldau.console.page import Asked, PageFault, Plan, Shown
from moldau.console.rendering import path_word

FRESH_S = 5.0
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
HANGING_MINUTES = 15
PARTITIONS_MAX = 2_000


class TransactionRow(NamedTuple):
    name: str
    state: str
    producer_id: int
    coordinator: int

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


async def _listed(link: ClusterLink) -> list[TransactionRow]:
    found = await link.admin.list_transactions()
    return [
        TransactionRow(row.transactional_id, row.state, row.producer_id, coordinator)
        for coordinator, rows in found.items()
        for row in rows
    ]


async def listed(asked: Asked) -> Shown:
    told = await asked.link.recent("transactions", lambda: _listed(asked.link), fresh_s=FRESH_S)
    only_open = "open" in asked.query
    rows = [row for row in told.value if row.is_open or not only_open]
    listing, shown = list_rows(
        asked,
        "/transactions",
        rows,
        {
            "name": lambda row: row.name,
            "state": lambda row: row.state,
            "producer": lambda row: row.producer_id,
            "coordinator": lambda row: row.coordinator,
        },
        kept={"open": "yes"} if only_open else {},
    )
    return {
        "transactions": shown,
        "listing": listing,
        "open": sum(row.is_open for row in told.value),
        "only_open": only_open,
        "when": told.when,
    }


async def one(asked: Asked) -> Shown:
    name = asked.path["transaction"]
    found = (await asked.link.admin.describe_transactions([name]))[name]
    start_ms = found.transaction_start_time_ms
    now_ms = int(time.time() * 1000)
    # Of one that has ended brokers still tell when it began.
    is_open = found.state in OPEN_STATES
    return {
        "name": name,
        "transaction": found,
        "open_seconds": max(0, now_ms - start_ms) / 1000 if is_open and start_ms >= 0 else None,
        "is_open": is_open,
    }


async def find_hanging(asked: Asked) -> Shown:
    """Looks only when asked: every partition has to be asked for its producers."""
    topic = asked.query.get("topic", "").strip()
    minutes = asked.number("minutes", HANGING_MINUTES, least=0, most=60 * 24 * 30)
    shown: dict[str, object] = {
        "topic": topic, "minutes": minutes, "hanging": None, "unread": [], "looked": 0,
    }  # fmt: skip
    if "look" not in asked.query:
        return shown
    partitions = await _partitions(asked.link, topic)
    described = (await asked.link.admin.describe_producers(partitions, raise_errors=False)).outcomes
    faults = {sentence_of(each) for each in described.values() if isinstance(each, KafkaError)}
    found = await _hanging(asked.link, described, minutes)
    return {**shown, "hanging": found, "unread": sorted(faults)[:10], "looked": len(partitions)}


async def _partitions(link: ClusterLink, topic: str) -> list[TopicPartition]:
    if topic:
        topics = await link.admin.describe_topics([topic])
    else:
        topics = (await cluster_answers.topics(link)).value  # type: ignore[assignment]
    partitions = [
        TopicPartition(name, row.partition)
        for name, each in topics.items()
        for row in each.partitions
        if row.leader >= 0
    ]
    if len(partitions) > PARTITIONS_MAX:
        raise PageFault(
            400,
            f"The cluster has {len(partitions)} partitions, and {PARTITIONS_MAX} are asked at"
            " most: name a topic.",
        )
    return partitions


async def _hanging(
    link: ClusterLink,
    described: Mapping[TopicPartition, list[ProducerState] | Exception],
    minutes: int,
) -> list[Suspect]:
    found = suspects(described, int(time.time() * 1000), minutes * 60_000)
    if not found:
        return []
    ids = {each.producer.producer_id for each in found}
    names = names_of(await link.admin.list_transactions(producer_ids=ids))
    states = (
        (await link.admin.describe_transactions(names.values(), raise_errors=False)).outcomes
        if names
        else {}
    )
    return hanging(found, names, states)


async def producers(asked: Asked) -> Shown:
    topic = asked.path["topic"]
    described = (await asked.link.admin.describe_topics([topic]))[topic]
    known = [row.partition for row in described.partitions]
    partition = asked.number("partition", 0)
    if partition not in known:
        raise PageFault(404, f"The topic {topic} has no partition {partition}.")
    tp = TopicPartition(topic, partition)
    found = (await asked.link.admin.describe_producers([tp]))[tp]
    return {"topic": topic, "partition": partition, "partitions": known, "producers": found}


async def abortion(asked: Asked) -> Plan:
    """Of the transaction that a producer has open in one partition."""
    topic, link = asked.path["topic"], asked.link
    partition = asked.filled_number("partition", -1, least=0, most=2**31 - 1)
    producer_id = asked.filled_number("producer", -1, least=0, most=2**63 - 1)
    tp = TopicPartition(topic, partition)
    found = (await link.admin.describe_producers([tp]))[tp]
    matching = [
        each
        for each in found
        if each.producer_id == producer_id and each.transaction_start_offset >= 0
    ]
    if not matching:
        raise PageFault(404, f"Producer {producer_id} has no transaction open in {tp}.")
    producer = matching[0]
    start = producer.transaction_start_offset

    async def act() -> str:
        # A transaction that never got a marker has no coordinator's epoch yet.
        epoch = max(producer.coordinator_epoch, 0)
        await link.admin.abort_transaction(tp, producer_id, producer.producer_epoch, epoch)
        return f"The transaction of producer {producer_id} in {tp} was aborted."

    return Plan(
        title=f"Abort the transaction in {tp}",
        sentences=(
            f"Producer {producer_id} (epoch {producer.producer_epoch}) has had a transaction open"
            f" since offset {start}. Its records in this partition are dropped for readers of"
            " committed records, and those that wait behind it become readable.",
            "Do this only for one that hangs: if its coordinator still knows it, the same"
            " transaction may be committed in other partitions, and is then torn.",
        ),
        act=act,
        after=f"/topics/{path_word(topic)}/producers?partition={partition}",
        command=command(
            asked, "transactions", "abort", "--topic", topic, "--partition", str(partition),
            "--start-offset", str(start),
        ),
        typed=topic,
        details={"partition": str(tp), "producer_id": str(producer_id)},
    )  # fmt: skip


async def termination(asked: Asked) -> Plan:
    """Of whatever a transactional id has open."""
    name, link = asked.path["transaction"], asked.link
    found = (await link.admin.describe_transactions([name]))[name]

    async def act() -> str:
        await link.admin.force_terminate_transaction(name)
        return f"The transaction of {name} was ended."

    return Plan(
        title=f"End the transaction of {name}",
        sentences=(
            f"It is {found.state} with {len(found.partitions)} partitions. What is open is aborted,"
            " and its producer is fenced: it fails at its next request and has to start anew.",
        ),
        act=act,
        after=f"/transactions/{path_word(name)}",
        command=command(
            asked, "transactions", "forceTerminateTransaction", "--transactionalId", name
        ),
        typed=name,
        details={"transactional_id": name},
    )
