"""`moldau verifiable-producer`: growing numbers as records, and a line of JSON for each outcome.

What was acknowledged can be compared with what a consumer finds, through crashes and restarts.
"""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Sequence
from typing import Any

from moldau.cli.answers import row as in_camel_case
from moldau.cli.command_clients import (
    bootstrap_of,
    client_faults,
    java_name,
    properties_file,
    reach,
)
from moldau.cli.flags import Flag, Given, integer, long
from moldau.cli.measuring.record_rate import Throttle
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    settings: dict[str, Any] = {}
    for key in ("producer.config", "command-config"):
        if given.has(key):
            settings |= properties_file(given.text(key))
    settings["bootstrap.servers"] = bootstrap_of(given, out)
    settings["acks"] = given.text("acks")
    settings.setdefault("retries", 0)
    if str(settings["acks"]) not in ("-1", "all") or not int(settings["retries"]):
        # Nothing is sent twice when nothing is repeated.
        settings.setdefault("enable.idempotence", "false")
    with client_faults():
        reach(str(settings["bootstrap.servers"]), {}, out)
        from moldau.client.producer.blocking_producer import Producer

        with Producer(settings) as producer:
            sending = Sending(producer, given, out)
            try:
                sending.run()
            finally:
                sending.finish()
    return 0


class Sending:
    def __init__(self, producer: Any, given: Given, out: Output) -> None:
        self.producer = producer
        self.given = given
        self.out = out
        self.outcomes: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.sent = self.acknowledged = 0
        self.start_ms = now_ms()

    def run(self) -> None:
        given = self.given
        self.say(event("startup_complete"))
        throttle = Throttle(given.number("throughput"))
        count_max = given.number("max-messages")
        created_ms = given.number("message-create-time")
        number = 0
        while count_max < 0 or number < count_max:
            stamp = None
            if created_ms >= 0:
                stamp = created_ms + now_ms() - self.start_ms
            self.send(str(number), stamp)
            number += 1
            self.tell()
            throttle.wait(number)

    def send(self, number: str, timestamp_ms: int | None) -> None:
        given = self.given
        value = number
        if given.has("value-prefix"):
            value = f"{given.text('value-prefix')}.{number}"
        key = None
        if given.has("repeating-keys"):
            key = str(int(number) % given.number("repeating-keys"))
        topic = given.text("topic")
        self.sent += 1
        from moldau.client.shared.client_errors import KafkaError

        def done(metadata: Any, error: Exception | None) -> None:
            self.outcomes.put(outcome(topic, key, value, metadata, error))

        try:
            self.producer.send(topic, value, key, timestamp_ms=timestamp_ms, on_delivery=done)
        except KafkaError as error:
            self.outcomes.put(outcome(topic, key, value, None, error))

    def tell(self) -> None:
        while not self.outcomes.empty():
            row = self.outcomes.get()
            self.acknowledged += row["name"] == "producer_send_success"
            self.say(row)

    def finish(self) -> None:
        self.producer.flush()
        self.tell()
        seconds = max(now_ms() - self.start_ms, 1) / 1000
        self.say(event("shutdown_complete"))
        self.say(
            event(
                "tool_data",
                sent=self.sent,
                acked=self.acknowledged,
                target_throughput=self.given.number("throughput"),
                avg_throughput=self.acknowledged / seconds,
            )
        )

    def say(self, row: dict[str, Any]) -> None:
        if self.out.is_json:
            self.out.json(in_camel_case(row))
        else:
            self.out.line(json.dumps(row, separators=(",", ":")))
        self.out.flush()


def outcome(
    topic: str, key: str | None, value: str, metadata: Any, error: Exception | None
) -> dict[str, Any]:
    if error is None:
        return event(
            "producer_send_success",
            key=key,
            value=value,
            offset=metadata.offset,
            topic=metadata.topic,
            partition=metadata.partition,
        )
    return event(
        "producer_send_error",
        topic=topic,
        key=key,
        value=value,
        exception=f"class {java_name(error)}",
        message=str(error),
    )


def event(event_name: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": now_ms(), "name": event_name, **fields}


def now_ms() -> int:
    return int(time.time() * 1000)


TOOL = Tool(
    name="verifiable-producer",
    does="Sends growing numbers and prints a line of JSON for each record: stored where, or why"
    " not.",
    flags=(
        BOOTSTRAP._replace(names="--bootstrap-server --broker-list"),
        Flag("--topic", "The topic that the numbers are sent to.", takes="NAME", required=True),
        Flag("--max-messages", "How many; -1 until it is ended.", "N", kind=integer, default=-1),
        Flag("--throughput", "Most records a second; -1 no limit.", "N", kind=integer, default=-1),
        Flag(
            "--acks",
            "Who must have stored a record before it counts: 0 nobody, 1 the leader, -1 every"
            " replica in sync.",
            takes="ACKS",
            default="-1",
        ),
        Flag(
            "--message-create-time",
            "The timestamp of the first record; the others follow in real time.",
            "MS",
            kind=long,
            default=-1,
        ),
        Flag("--value-prefix", "Put this and a dot before each number.", takes="TEXT"),
        Flag("--repeating-keys", "Keys from 0 up to this, again and again.", "N", kind=integer),
        Flag("--producer.config", takes="FILE", hidden=True),
        COMMAND_CONFIG,
        JSON._replace(help="The lines are JSON anyway; this writes their keys in camelCase."),
    ),
    main=main,
    answers_in_lines=True,
    examples=(
        "moldau verifiable-producer --bootstrap-server localhost:9092 --topic numbers"
        " --max-messages 200000",
    ),
)
