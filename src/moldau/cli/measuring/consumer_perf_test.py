"""`moldau consumer-perf-test`: how fast records can be consumed, reported as Kafka's tool does."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from moldau.cli.command_clients import (
    bootstrap_of,
    client_faults,
    key_values,
    properties_file,
    reach,
)
from moldau.cli.command_faults import UsageFault
from moldau.cli.flags import Flag, Given, integer, long
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool

if TYPE_CHECKING:
    from moldau.client.consumer.blocking_consumer import Consumer

MIB = 1024 * 1024
ONE_READS = "one consumer reads"
POLL_SECONDS = 0.1
RATES = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
TIMES = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
JAVA_DATES = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    if not given.has("num-records") and not given.has("messages"):
        raise UsageFault("Exactly one of the following arguments is required: [num-records]")
    if given.has("topic") == given.has("include"):
        raise UsageFault("Exactly one of the following arguments is required: [topic], [include]")
    if given.has("messages"):
        out.remark("Warning: --messages is deprecated. Use --num-records instead.")
    settings: dict[str, Any] = {}
    for key in ("consumer.config", "command-config"):
        if given.has(key):
            settings |= properties_file(given.text(key))
    settings |= key_values(given.texts("command-property"))
    settings |= {
        "bootstrap.servers": bootstrap_of(given, out),
        "group.id": given.maybe_text("group") or f"perf-consumer-{random.randrange(100_000)}",
        "receive.buffer.bytes": given.number("socket-buffer-size"),
        "max.partition.fetch.bytes": given.number("fetch-size"),
        "auto.offset.reset": "latest" if given.has("from-latest") else "earliest",
        "check.crcs": "false",
    }
    with client_faults():
        reach(str(settings["bootstrap.servers"]), {}, out)
        from moldau.client.consumer.blocking_consumer import Consumer

        with Consumer(settings) as consumer:
            PerfTest(consumer, given, out).run()


class PerfTest:
    def __init__(self, consumer: Consumer, given: Given, out: Output) -> None:
        self.consumer = consumer
        self.given = given
        self.out = out
        self.is_detailed = given.has("show-detailed-stats") and not given.has("json")
        self.count = self.bytes = 0
        self.window_count = self.window_bytes = 0
        self.joining_s = self.window_joining_s = 0.0

    def run(self) -> None:
        given = self.given
        wanted = given.number("num-records" if given.has("num-records") else "messages")
        if not given.has("hide-header") and not given.has("json"):
            first = "time, threadId" if self.is_detailed else "start.time, end.time"
            self.out.line(f"{first}, {RATES}, {TIMES}")
        if given.has("include"):
            self.consumer.subscribe(pattern=given.text("include"))
        else:
            self.consumer.subscribe([given.text("topic")])
        wall_start, start = datetime.now(), time.monotonic()
        last = window = start
        interval_s = given.number("reporting-interval") / 1000
        timeout_s = given.number("timeout") / 1000
        while self.count < wanted and time.monotonic() - last < timeout_s:
            records = self.consumer.poll(POLL_SECONDS)
            now = time.monotonic()
            if not self.joining_s and self.consumer.assignment():
                self.joining_s = self.window_joining_s = now - start
            if records:
                last = now
                self.take(records)
            if self.is_detailed and now - window >= interval_s:
                self.detail(now - window)
                window = now
        if self.count < wanted:
            self.out.remark(
                f"WARNING: Exiting before consuming the expected number of records: timeout"
                f" ({given.number('timeout')} ms) exceeded. You can use the --timeout option to"
                " increase the timeout."
            )
        if not self.is_detailed:
            self.total(wall_start, time.monotonic() - start)

    def take(self, records: Any) -> None:
        self.count += len(records)
        for record in records:
            self.bytes += len(record.key or b"") + len(record.value or b"")

    def total(self, wall_start: datetime, seconds: float) -> None:
        ends = datetime.now()
        fetching = max(seconds - self.joining_s, 1e-3)
        mib = self.bytes / MIB
        if self.given.has("json"):
            self.out.json(
                {
                    "records": self.count,
                    "mib": mib,
                    "recordsPerSecond": self.count / seconds,
                    "mibPerSecond": mib / seconds,
                    "rebalanceMs": int(self.joining_s * 1000),
                    "fetchMs": int(fetching * 1000),
                }
            )
            return
        self.out.line(
            f"{self.date(wall_start)}, {self.date(ends)}, {mib:.4f}, {mib / seconds:.4f},"
            f" {self.count}, {self.count / seconds:.4f}, {int(self.joining_s * 1000)},"
            f" {int(fetching * 1000)}, {mib / fetching:.4f}, {self.count / fetching:.4f}"
        )

    def detail(self, seconds: float) -> None:
        mib, new = self.bytes / MIB, self.count - self.window_count
        new_mib = (self.bytes - self.window_bytes) / MIB
        fetching = max(seconds - self.window_joining_s, 1e-3)
        self.out.line(
            f"{self.date(datetime.now())}, 0, {mib:.4f}, {new_mib / seconds:.4f}, {self.count},"
            f" {new / seconds:.4f}, {int(self.window_joining_s * 1000)}, {int(fetching * 1000)},"
            f" {new_mib / fetching:.4f}, {new / fetching:.4f}"
        )
        self.out.flush()
        self.window_count, self.window_bytes = self.count, self.bytes
        self.window_joining_s = 0.0

    def date(self, moment: datetime) -> str:
        """Java's pattern; SSS is milliseconds."""
        pattern = self.given.text("date-format")
        for java, python in JAVA_DATES.items():
            pattern = pattern.replace(java, python)
        return moment.strftime(pattern.replace("SSS", f"{moment.microsecond // 1000:03d}"))


TOOL = Tool(
    name="consumer-perf-test",
    does="Consumes records as fast as it can and reports throughput.",
    flags=(
        BOOTSTRAP._replace(names="--bootstrap-server --broker-list"),
        Flag("--topic", "The topic to read.", takes="NAME"),
        Flag("--include", "A pattern of topics instead.", takes="REGEX"),
        Flag("--num-records", "How many records to read.", takes="N", kind=long),
        Flag("--messages", takes="N", kind=long, hidden=True),
        Flag("--group", "The group; a new one otherwise.", takes="NAME"),
        Flag("--from-latest", "Start at the end if the group has no offset."),
        Flag(
            "--fetch-size",
            "How much to ask of one partition at once, in bytes.",
            "BYTES",
            kind=integer,
            default=MIB,
        ),
        Flag(
            "--socket-buffer-size",
            "How large the socket's buffer is, in bytes.",
            "BYTES",
            kind=integer,
            default=2 * MIB,
        ),
        Flag(
            "--timeout",
            "End when no record has come for so long, in milliseconds.",
            "MS",
            kind=long,
            default=10_000,
        ),
        Flag("--show-detailed-stats", "A line for each reporting interval."),
        Flag(
            "--reporting-interval",
            "How long that interval is, in milliseconds.",
            "MS",
            kind=long,
            default=5000,
        ),
        Flag("--hide-header", "Leave out the first line."),
        Flag(
            "--date-format",
            "How times are written, in the letters of Java's SimpleDateFormat.",
            takes="TEXT",
            default="yyyy-MM-dd HH:mm:ss:SSS",
        ),
        Flag("--print-metrics", hidden=True, no_effect="the consumer keeps no counters"),
        Flag("--threads", takes="N", kind=integer, hidden=True, no_effect=ONE_READS),
        Flag("--num-fetch-threads", takes="N", kind=integer, hidden=True, no_effect=ONE_READS),
        Flag("--command-property", "A setting of the consumer.", takes="KEY=VALUE", repeats=True),
        Flag("--consumer.config", takes="FILE", hidden=True),
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    examples=(
        "moldau consumer-perf-test --bootstrap-server localhost:9092 --topic perf"
        " --num-records 1000000",
    ),
)
