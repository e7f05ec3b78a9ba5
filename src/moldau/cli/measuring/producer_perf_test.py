"""`moldau producer-perf-test`: how fast records can be produced, reported as Kafka's tool does."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.cli.command_clients import (
    bootstrap_of,
    client_faults,
    key_values,
    properties_file,
    reach,
)
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer, long
from moldau.cli.measuring.latencies import Latencies
from moldau.cli.measuring.record_rate import Throttle
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool

if TYPE_CHECKING:
    from moldau.client.producer.blocking_producer import Producer

SEED = 0
TRANSACTION_MS = 3000


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    kinds = [k for k in ("record-size", "payload-file", "payload-monotonic") if given.has(k)]
    if len(kinds) != 1:
        raise UsageFault(
            "one of the arguments --record-size --payload-file --payload-monotonic is required"
        )
    payloads = Payloads(given)
    settings = settings_of(given, out)
    with client_faults():
        reach(str(settings["bootstrap.servers"]), {}, out)
        from moldau.client.producer.blocking_producer import Producer

        with Producer(settings) as producer:
            test = PerfTest(producer, given, out, payloads, "transactional.id" in settings)
            test.run()


def settings_of(given: Given, out: Output) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key in ("producer.config", "command-config"):
        if given.has(key):
            settings |= properties_file(given.text(key))
    settings |= key_values(given.texts("producer-props"))
    settings |= key_values(given.texts("command-property"))
    if given.has("bootstrap-server") or "bootstrap.servers" not in settings:
        settings["bootstrap.servers"] = bootstrap_of(
            given,
            out,
            "At least one of --bootstrap-server, --command-property or --command-config"
            " must be specified to have bootstrap.servers",
        )
    if given.has("transactional-id"):
        settings["transactional.id"] = given.text("transactional-id")
    elif given.has("transaction-duration-ms") and "transactional.id" not in settings:
        settings["transactional.id"] = f"performance-producer-{uuid.uuid4()}"
    settings.setdefault("client.id", "perf-producer-client")
    return settings


class Payloads:
    def __init__(self, given: Given) -> None:
        self.is_monotonic = given.has("payload-monotonic")
        self.choices: list[bytes] = []
        self.random = random.Random(SEED)
        if given.has("payload-file"):
            self.choices = self._read(given)
        elif not self.is_monotonic:
            letters = bytes(range(ord("A"), ord("Z") + 1))
            size = given.number("record-size")
            if size < 0:
                raise UsageFault("--record-size must be at least 0")
            self.choices = [bytes(self.random.choices(letters, k=size))]

    def _read(self, given: Given) -> list[bytes]:
        path = given.text("payload-file")
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as fault:
            raise CommandFault(f"{path} cannot be read: {fault.strerror}") from None
        delimiter = given.text("payload-delimiter").replace("\\n", "\n").replace("\\t", "\t")
        parts = text.split(delimiter)
        if parts and not parts[-1]:
            parts.pop()
        if not parts:
            raise CommandFault(f"File does not exist or empty file provided: {path}")
        return [part.encode() for part in parts]

    def next(self, number: int) -> bytes:
        if self.is_monotonic:
            return str(number).encode()
        if len(self.choices) == 1:
            return self.choices[0]
        return self.random.choice(self.choices)


class PerfTest:
    def __init__(
        self,
        producer: Producer,
        given: Given,
        out: Output,
        payloads: Payloads,
        is_transactional: bool,
    ) -> None:
        self.producer = producer
        self.given = given
        self.out = out
        self.payloads = payloads
        self.is_transactional = is_transactional
        self.transaction_ms = given.number("transaction-duration-ms")
        interval_ms = 0 if given.has("json") else given.number("reporting-interval")
        self.all = Latencies(interval_ms, out)
        self.steady: Latencies | None = None

    def run(self) -> None:
        given, producer = self.given, self.producer
        count = given.number("num-records")
        warmup = given.number("warmup-records")
        throttle = Throttle(given.value("throughput"))
        if self.is_transactional:
            producer.init_transactions()
        began = 0.0
        topic = given.text("topic")
        for number in range(count):
            if self.is_transactional and not began:
                producer.begin_transaction()
                began = time.monotonic()
            if warmup and number == warmup:
                self.steady = Latencies(0, self.out)
            payload = self.payloads.next(number)
            done = self.all.watch(len(payload), self.steady)
            producer.send(topic, payload, on_delivery=done)
            if began and (time.monotonic() - began) * 1000 >= self.transaction_ms:
                producer.commit_transaction()
                began = 0.0
            self.all.report()
            throttle.wait(number + 1)
        if began:
            producer.commit_transaction()
        producer.flush()
        if self.all.failed:
            self.out.remark(f"{self.all.failed} records were not stored: {self.all.fault}")
        if given.has("json"):
            more = {"metrics": producer.metrics()} if given.has("print-metrics") else {}
            self.out.json({**self.all.as_json(), **more})
            return
        self.all.total()
        if self.steady is not None:
            self.steady.total("steady state ")
        if given.has("print-metrics"):
            self.print_metrics()

    def print_metrics(self) -> None:
        metrics = self.producer.metrics()
        width = max(len(name) for name in metrics) if metrics else 0
        self.out.line(f"\n{'Metric Name':<{width}} Value")
        for name, value in sorted(metrics.items()):
            self.out.line(f"{name:<{width}} : {value}")


TOOL = Tool(
    name="producer-perf-test",
    does="Produces records as fast as it can, or at a set rate, and reports throughput and"
    " latency.",
    flags=(
        BOOTSTRAP,
        Flag("--topic", "The topic that the records are sent to.", takes="NAME", required=True),
        Flag("--num-records", "How many records to send.", "N", kind=long, required=True),
        Flag("--record-size", "How large each record is, in bytes.", takes="BYTES", kind=integer),
        Flag("--payload-file", "Take records from this file, at random.", takes="FILE"),
        Flag("--payload-delimiter", "What separates them there.", takes="TEXT", default="\\n"),
        Flag("--payload-monotonic", "Growing numbers as records."),
        Flag("--throughput", "Most records a second; -1 no limit.", "N", kind=float, required=True),
        Flag(
            "--command-property",
            "Settings of the producer, as acks=1 linger.ms=5.",
            takes="KEY=VALUE",
            many=True,
        ),
        Flag("--producer-props", takes="KEY=VALUE", many=True, hidden=True),
        Flag("--producer.config", takes="FILE", hidden=True),
        Flag("--print-metrics", "Show the producer's counters at the end."),
        Flag("--transactional-id", "Write in transactions, under this id.", takes="ID"),
        Flag(
            "--transaction-duration-ms",
            "How long each transaction stays open.",
            takes="MS",
            kind=long,
            default=TRANSACTION_MS,
        ),
        Flag(
            "--warmup-records",
            "Records that the second line leaves out.",
            "N",
            kind=long,
            default=0,
        ),
        Flag(
            "--reporting-interval",
            "How long the time between two reports is, in milliseconds.",
            "MS",
            kind=long,
            default=5000,
        ),
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    examples=(
        "moldau producer-perf-test --bootstrap-server localhost:9092 --topic perf"
        " --num-records 1000000 --record-size 100 --throughput -1",
    ),
)
