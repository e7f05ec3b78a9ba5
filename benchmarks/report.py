"""The outcome as a table: median and spread of both brokers, their ratio, and the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.measures import MEASURES, Measure, Values

METHOD = """\
Both brokers run on the same machine in turn, several alternations, each with default settings on
an empty log directory. The order changes from round to round. After its start a broker gets 20
seconds of small requests to warm up, which a JVM needs. The load is one process on raw
sockets that sends bytes encoded beforehand and counts the answers; it checks error codes, and
after every phase the broker's log end offsets must equal what was sent. A MB is 1,000,000 bytes.

* *start*: from launching the process to the acknowledgement of a record in a topic that did not
  exist.
* *one-record requests*: a record of 100 bytes per request, acks=1, 5 requests in flight per
  connection.
* *produce*: records of 1,000 bytes, not compressed, acks=1, 4 connections with a partition each
  and 5 requests in flight; after a warm-up. Processor time is that of the broker alone, user and
  system.
* *fetch*: whole answers of 1 MB from the page cache, one request in flight per connection, each
  connection on a partition of its own.
* *end-to-end*: from sending a record to having it in the hands of a consumer whose long-poll
  fetch was waiting; one record of 100 bytes every millisecond.
* *transactions*: records of 1,000 bytes in batches of 16 KB to 4 partitions over one connection,
  5 requests in flight, idempotent, acks=all; the same with and without transactions, in turns on
  the same broker. A commit waits for every acknowledgement, and the next batch for the commit.
* *heartbeats*: 1,000 groups of 5 members, a connection each, one heartbeat per member every 3
  seconds.
* *compaction* (`--only compaction`): 2 million records of 1,000 bytes with keys out of a
  million, in segments of 256 MB, are compacted in one go; one record of 100 bytes is produced to
  another topic every 2 ms, for 10 seconds before and as long as it takes. Memory and processor
  time are those of the broker and of the processes it starts.
* *TLS* (`--only tls`): one-record requests, produce and fetch once more, over a listener of
  protocol SSL; both brokers have the same certificate (ECDSA P-256, TLS 1.3). The load speaks TLS
  itself and shares the machine.
* *locks* (`--only guards`): two brokers of a kind stand side by side, one open and one where the
  load has logged in by SCRAM-SHA-256, may write by an access control list among fifty others, and
  has quotas of bytes and of request time that it does not reach. One-record requests over one
  connection and 16 KB batches over four take turns between the two in short slices; the cost is
  the median of what a slice on the locked broker falls short of its neighbour on the open one.
* *cluster* (`--only cluster`): three brokers of each kind on one machine, with a ZooKeeper of
  their own, sessions of 6 seconds, heaps of 512 MB. The peer is Apache Kafka 3.9.1, the last with
  ZooKeeper mode, so both do the same by the same means. Topics have three replicas, writes
  acks=all. *Produce*: 12 partitions, 4 led by each broker, a connection with 5 requests in flight
  each. *Acknowledged*: from sending a record to the answer that all in-sync replicas have it, one
  record of 100 bytes every 4 ms to the 12 partitions in turn. *Created*: from the request until
  every broker reports all partitions led and in sync. *Fail-over*: kill -9 of a broker that leads
  1 or 1,000 partitions and is not the controller, until each has acknowledged a record by acks=all
  again; *beyond the session's end*: counted from when ZooKeeper dropped the broker, which is the
  first that anybody can know of it.
"""


class Row(NamedTuple):
    measure: Measure
    apache: list[float]
    moldau: list[float]

    @property
    def ratios(self) -> list[float]:
        """Round by round: what ran side by side is compared."""
        return [ours / theirs for ours, theirs in zip(self.moldau, self.apache, strict=True)]

    @property
    def is_met(self) -> bool | None:
        measure = self.measure
        if measure.target is not None:
            value, target = median(self.ratios), measure.target
        elif measure.own_target is not None:
            value, target = median(self.moldau), measure.own_target
        else:
            return None
        return value <= target if measure.better == "lower" else value >= target


def rows(rounds: Sequence[Mapping[str, Values]]) -> list[Row]:
    """One row for each measure that was taken; `rounds` map a broker's name to its values."""
    return [
        Row(
            measure,
            [one["Apache Kafka"][measure.key] for one in rounds],
            [one["Moldau"][measure.key] for one in rounds],
        )
        for measure in MEASURES
        if rounds and all(measure.key in values for values in rounds[0].values())
    ]


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def spread(values: Sequence[float]) -> str:
    if len(values) == 1:
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))}–{number(max(values))})"


def target_text(row: Row) -> str:
    measure = row.measure
    if row.is_met is None:
        return ""
    sign = "≤" if measure.better == "lower" else "≥"
    bound = f"{measure.own_target:g}" if measure.target is None else f"{measure.target:g}×"
    return f"{sign} {bound} {'met' if row.is_met else 'missed'}"


def table(found: Sequence[Row]) -> str:
    head = ["", "Apache Kafka", "Moldau", "ratio", "target"]
    lines = [
        [
            f"{row.measure.label} ({row.measure.unit})",
            spread(row.apache),
            spread(row.moldau),
            spread(row.ratios) + "×",
            target_text(row),
        ]
        for row in found
    ]
    widths = [max(len(line[column]) for line in [head, *lines]) for column in range(len(head))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in [head, rule, *lines]
    )


def load_shares(rounds: Sequence[Mapping[str, Values]]) -> str:
    """Whether the load was cheap enough to leave the broker the machine."""
    shares = {
        name: max(
            value
            for one in rounds
            for key, value in one[name].items()
            if key.startswith("load_share_")
        )
        for name in (rounds[0] if rounds else {})
        if any(key.startswith("load_share_") for key in rounds[0][name])
    }
    if not shares:
        return ""
    told = ", ".join(f"{share:.0%} of a core against {name}" for name, share in shares.items())
    return f"The load itself needed at most {told}.\n"


def report(
    rounds: Sequence[Mapping[str, Values]],
    machine: Mapping[str, str],
    versions: Mapping[str, str],
) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in [*machine.items(), *versions.items()])
    count = f"{len(rounds)} alternation{'s' if len(rounds) != 1 else ''}"
    return (
        f"{facts}.\n\n{count}; median (lowest–highest); ratio is Moldau's value "
        f"divided by Apache Kafka's.\n\n{table(rows(rounds))}\n\n{load_shares(rounds)}"
    )


def page(text: str) -> str:
    """docs/benchmarks.md."""
    return (
        "# Benchmarks\n\n`make bench` measures Moldau beside Apache Kafka on your machine and "
        "prints this table; `python -m benchmarks --help` lists its options.\n\n"
        f"## How it is measured\n\n{METHOD}\n## What was found\n\n{text}"
    )
