"""`moldau verifiable-consumer`: reads as a member of a group and prints what happens as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from moldau.cli.answers import row as in_camel_case
from moldau.cli.command_clients import bootstrap_of, client_faults, properties_file, reach
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.records.verifiable_producer import event
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool

POLL_SECONDS = 1.0
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    settings: dict[str, Any] = {}
    for key in ("consumer.config", "command-config"):
        if given.has(key):
            settings |= properties_file(given.text(key))
    settings |= {
        "bootstrap.servers": bootstrap_of(given, out),
        "group.id": given.text("group-id"),
        "enable.auto.commit": str(given.has("enable-autocommit")).lower(),
        "auto.offset.reset": given.text("reset-policy"),
        "partition.assignment.strategy": given.text("assignment-strategy"),
    }
    if given.has("group-instance-id"):
        settings["group.instance.id"] = given.text("group-instance-id")
    if given.has("session-timeout"):
        settings["session.timeout.ms"] = given.number("session-timeout")
    if given.text("group-protocol").lower() != "classic":
        settings["group.protocol"] = given.text("group-protocol")
    with client_faults():
        reach(str(settings["bootstrap.servers"]), {}, out)
        from moldau.client.consumer.blocking_consumer import Consumer

        is_interrupted = False
        try:
            with Consumer(settings) as consumer:
                try:
                    Reading(consumer, given, out).run()
                except KeyboardInterrupt:
                    is_interrupted = True
                    say(out, event("shutdown_requested"))
                    raise
        finally:
            say(out, event("shutdown_complete"))
            if not is_interrupted:
                say(out, event("shutdown_requested"))
    return 0


class Reading:
    def __init__(self, consumer: Any, given: Given, out: Output) -> None:
        self.consumer = consumer
        self.given = given
        self.out = out
        self.count = 0
        self.commits = not given.has("enable-autocommit")

    def run(self) -> None:
        listener = listener_of(self.out)
        say(self.out, event("startup_complete"))
        self.consumer.subscribe([self.given.text("topic")], listener=listener)
        count_max = self.given.number("max-messages")
        while count_max < 0 or self.count < count_max:
            records = self.consumer.poll(POLL_SECONDS)
            if not records:
                continue
            positions = self.tell(records, count_max)
            if self.commits:
                self.commit(positions)

    def tell(self, records: Any, count_max: int) -> dict[Any, int]:
        """Where each partition stands after the records that count."""
        rows, positions = [], {}
        total = 0
        for partition, some in records.items():
            left = len(some) if count_max < 0 else count_max - self.count - total
            kept = some[: max(left, 0)]
            if not kept:
                continue
            total += len(kept)
            positions[partition] = kept[-1].offset + 1
            rows.append(
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "count": len(kept),
                    "minOffset": kept[0].offset,
                    "maxOffset": kept[-1].offset,
                }
            )
            if self.given.has("verbose"):
                self.verbose(kept)
        self.count += total
        say(self.out, event("records_consumed", count=total, partitions=rows))
        return positions

    def verbose(self, records: Iterable[Any]) -> None:
        for record in records:
            row = event(
                "record_data",
                key=text(record.key),
                value=text(record.value),
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            )
            say(self.out, row)

    def commit(self, positions: dict[Any, int]) -> None:
        from moldau.client.shared.client_errors import KafkaError

        rows = [
            {"topic": tp.topic, "partition": tp.partition, "offset": offset}
            for tp, offset in positions.items()
        ]
        try:
            self.consumer.commit(positions)
        except KafkaError as error:
            row = event("offsets_committed", offsets=rows, success=False, error=str(error))
            say(self.out, row)
            return
        say(self.out, event("offsets_committed", offsets=rows, success=True))


def listener_of(out: Output) -> Any:
    from moldau.client.consumer.blocking_consumer import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Iterable[Any]) -> None:
            say(out, event("partitions_assigned", partitions=named(partitions)))

        def on_partitions_revoked(self, partitions: Iterable[Any]) -> None:
            say(out, event("partitions_revoked", partitions=named(partitions)))

    return Listener()


def named(partitions: Iterable[Any]) -> list[dict[str, Any]]:
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


def text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")


def say(out: Output, row: dict[str, Any]) -> None:
    if out.is_json:
        out.json(in_camel_case(row))
    else:
        out.line(json.dumps(row, separators=(",", ":")))
    out.flush()


TOOL = Tool(
    name="verifiable-consumer",
    does="Reads a topic as a member of a group and prints assignments, records and commits as"
    " lines of JSON.",
    flags=(
        BOOTSTRAP._replace(names="--bootstrap-server --broker-list"),
        Flag("--topic", "The topic to read.", takes="NAME", required=True),
        Flag("--group-id", "The group to read in.", takes="NAME", required=True),
        Flag("--group-instance-id", "A static member's name.", takes="NAME"),
        Flag("--max-messages", "How many; -1 until it is ended.", "N", kind=integer, default=-1),
        Flag("--session-timeout", "The member's session, in ms.", takes="MS", kind=integer),
        Flag("--verbose", "A line for every record."),
        Flag("--enable-autocommit", "Let the consumer commit by itself."),
        Flag(
            "--reset-policy",
            "Where to start without an offset.",
            takes="POLICY",
            one_of=("earliest", "latest", "none"),
            default="earliest",
        ),
        Flag(
            "--assignment-strategy",
            "How partitions are shared among members: a class by its name in Java.",
            takes="CLASS",
            default=RANGE,
        ),
        Flag("--group-protocol", "classic or consumer.", takes="NAME", default="classic"),
        Flag(
            "--group-remote-assignor",
            takes="NAME",
            hidden=True,
            no_effect="it belongs to groups whose broker assigns partitions",
        ),
        Flag("--consumer.config", takes="FILE", hidden=True),
        COMMAND_CONFIG,
        JSON._replace(help="The lines are JSON anyway; this writes their keys in camelCase."),
    ),
    main=main,
    answers_in_lines=True,
    examples=(
        "moldau verifiable-consumer --bootstrap-server localhost:9092 --topic numbers"
        " --group-id check --max-messages 1000",
    ),
)
