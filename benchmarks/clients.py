"""The clients that are compared on one broker, and what Moldau's is compared with.

Every load runs in a process of its own (`client_loads.py`), all of one kind after another on the
same broker; whoever was first goes last in the next round. Slow clients get fewer records: what
counts is the rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

PARTITIONS = 4
RECORD_SIZES = {100: "100 B", 1000: "1 KB"}
SLOW_SHARE = 10
"""Slow clients get this part of the records."""


class Load(NamedTuple):
    name: str
    client: str
    is_slow: bool = False


PRODUCERS = (
    Load("moldau_produce", "Moldau, send"),
    Load("confluent_produce", "confluent-kafka"),
    Load("moldau_send_many", "Moldau, send_many"),
    Load("aiokafka_produce", "aiokafka", is_slow=True),
    Load("kafka_python_produce", "kafka-python", is_slow=True),
)
CONSUMERS = (
    Load("moldau_consume", "Moldau, poll"),
    Load("confluent_consume", "confluent-kafka"),
    Load("moldau_poll_arrow", "Moldau, poll_arrow"),
    Load("confluent_tuned", "confluent-kafka, tuned"),
    Load("aiokafka_consume", "aiokafka", is_slow=True),
    Load("kafka_python_consume", "kafka-python", is_slow=True),
)
CLIENTS = {load.name: load.client for load in (*PRODUCERS, *CONSUMERS)}


class Pair(NamedTuple):
    """Moldau's load, another's, and how many times faster ours shall be."""

    ours: str
    theirs: str
    target: float | None = None


PAIRS = (
    Pair("moldau_produce", "aiokafka_produce", 3.0),
    Pair("moldau_produce", "kafka_python_produce", 3.0),
    Pair("moldau_produce", "confluent_produce"),
    Pair("moldau_send_many", "confluent_produce"),
    Pair("moldau_consume", "aiokafka_consume", 3.0),
    Pair("moldau_consume", "kafka_python_consume", 3.0),
    Pair("moldau_consume", "confluent_consume"),
    Pair("moldau_poll_arrow", "confluent_consume", 3.0),
    Pair("moldau_poll_arrow", "confluent_tuned", 3.0),
)
METHOD = f"""\
Clients: each in a process of its own on the same broker, one after the other, on topics of
{PARTITIONS} partitions without compression; rates are records per second. aiokafka and
kafka-python get a tenth of the records. All wait for acks=all and linger 5 ms; batches are
Moldau's and confluent-kafka's own, and 256 KB for the two others, whose default of 16 KB is slow.
confluent-kafka consumes 1,000 records per call, once with its defaults and once *tuned*: with
`fetch.queue.backoff.ms=10`, without which its queue runs dry. All others have default settings.
A producer's clock runs from the first send after connecting to the last acknowledgement, a
consumer's from the first record in hand to the last. Every value is looked at once, by
`poll_arrow` as a column.
"""


def key(load: str, record_bytes: int) -> str:
    return f"client_{load}_{record_bytes}"


def number_of(load: Load, records: int) -> int:
    return records // SLOW_SHARE if load.is_slow else records


def in_turn(loads: Sequence[Load], turn: int) -> Sequence[Load]:
    first = turn % len(loads)
    return (*loads[first:], *loads[:first])


def lines(rounds: Sequence[Mapping[str, float]]) -> list[list[str]]:
    """A row for each pair; `rounds` are the values of one broker."""
    found = []
    for size, words in RECORD_SIZES.items():
        for pair in PAIRS:
            names = key(pair.ours, size), key(pair.theirs, size)
            if not all(name in one for one in rounds for name in names):
                continue
            ours, theirs = ([one[name] for one in rounds] for name in names)
            ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
            is_met = pair.target is None or median(ratios) >= pair.target
            told = "" if pair.target is None else f"≥ {pair.target:g}× "
            found.append(
                [
                    f"{words}: {CLIENTS[pair.ours]}, beside {CLIENTS[pair.theirs]}",
                    f"{median(ours):,.0f}",
                    f"{median(theirs):,.0f}",
                    f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})×",
                    told + ("met" if is_met else "missed") if told else "",
                ]
            )
    return found


def report(rounds: Sequence[Mapping[str, Mapping[str, float]]]) -> str:
    """A table for each broker that the clients were measured on, or nothing."""
    parts = []
    for broker in rounds[0] if rounds else ():
        rows = lines([one[broker] for one in rounds])
        if rows:
            head = [
                f"clients on {broker} (records/s)",
                "Moldau's",
                "the other's",
                "ratio",
                "target",
            ]
            parts.append(table([head, *rows]))
    return "\n\n".join([METHOD, *parts]) + "\n" if parts else ""


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| " + " | ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)) + " |"
        for row in [rows[0], rule, *rows[1:]]
    )
