"""`moldau console-producer`: lines of standard input become records, as with
kafka-console-producer.sh.

Whatever can be read at once is handed to the producer at once, so a large file goes in whole
blocks while a line that is typed leaves alone.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.answers import fault_of as fault_data
from moldau.cli.command_clients import (
    bootstrap_of,
    client_faults,
    fault_of,
    key_values,
    properties_file,
    reach,
)
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given, integer, long
from moldau.cli.output import Output
from moldau.cli.records.line_reader import LineReader, UnreadableLine
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, Tool, run_tool

if TYPE_CHECKING:
    from moldau.client.producer.blocking_producer import Producer

READ_BYTES = 256 * 1024
OPEN_MAX = 1000
"""Blocks of lines, or single lines, whose outcome is still unknown."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READERS = ("LineMessageReader", "ConsoleProducer$LineMessageReader")
SETTINGS = {
    # Flag, the producer's setting, and the default of Kafka's tool where it has its own.
    "timeout": ("linger.ms", 1000),
    "request-required-acks": ("acks", "-1"),
    "request-timeout-ms": ("request.timeout.ms", 1500),
    "message-send-max-retries": ("retries", 3),
    "retry-backoff-ms": ("retry.backoff.ms", 100),
    "max-memory-bytes": ("buffer.memory", 33_554_432),
    "batch-size": ("batch.size", 16_384),
    "socket-buffer-size": ("send.buffer.bytes", 102_400),
    "metadata-expiry-ms": ("metadata.max.age.ms", 300_000),
    "max-block-ms": ("max.block.ms", 60_000),
}
DEPRECATED = {
    "property": "reader-property",
    "producer-property": "command-property",
    "producer.config": "command-config",
}


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    for old, new in DEPRECATED.items():
        if given.has(old):
            out.remark(f"Warning: --{old} is deprecated. Use --{new} instead.")
    reader = reader_of(given)
    settings = settings_of(given, out)
    with client_faults():
        reach_in_time(settings, out)
        from moldau.client.producer.blocking_producer import Producer

        with Producer(settings) as producer:
            sending = Sending(producer, given.text("topic"), out, is_sync=given.has("sync"))
            try:
                for lines in blocks():
                    sending.send(reader, lines)
            except UnreadableLine as fault:
                raise CommandFault(
                    str(fault), java="org.apache.kafka.common.KafkaException"
                ) from None
            finally:
                sending.settle()
    if out.is_json:
        last = None if sending.fault is None else fault_data(sending.fault)
        counts = {"sent": sending.sent, "failed": sending.failed}
        out.json({"topic": sending.topic, **counts, "error": last})
    return 1 if sending.failed else 0


def reach_in_time(settings: dict[str, Any], out: Output) -> None:
    try:
        limit = {"default.api.timeout.ms": str(settings["max.block.ms"])}
        reach(str(settings["bootstrap.servers"]), limit, out)
    except CommandFault as fault:
        if not fault.java:
            raise  # not an address at all
        raise CommandFault(f"ERROR nothing was sent: {fault.sentence}", java=fault.java) from None


def reader_of(given: Given) -> LineReader:
    name = given.text("line-reader")
    if not name.endswith(READERS):
        raise CommandFault(f"there is no line reader {name}: lines are read by LineMessageReader")
    properties = properties_file(given.text("reader-config")) if given.has("reader-config") else {}
    properties |= key_values(given.texts("property"))
    properties |= key_values(given.texts("reader-property"))
    return LineReader(properties)


def settings_of(given: Given, out: Output) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key in ("producer.config", "command-config"):
        if given.has(key):
            settings |= properties_file(given.text(key))
    settings |= key_values(given.texts("producer-property"))
    settings |= key_values(given.texts("command-property"))
    for flag, (key, default) in SETTINGS.items():
        if given.has(flag):
            settings[key] = given.value(flag)
        else:
            settings.setdefault(key, default)
    if given.has("max-partition-memory-bytes"):
        settings["batch.size"] = given.value("max-partition-memory-bytes")
    codec = given.text("compression-codec")
    if codec not in CODECS:
        raise CommandFault(f"Unknown compression name: {codec}; it is one of {', '.join(CODECS)}")
    if given.has("compression-codec") or "compression.type" not in settings:
        settings["compression.type"] = codec
    settings["bootstrap.servers"] = bootstrap_of(given, out)
    settings.setdefault("client.id", "console-producer")
    return settings


def blocks() -> Iterator[list[bytes]]:
    """The lines that are there, as they come; a prompt before each where a person types."""
    descriptor = sys.stdin.fileno()
    shows_prompt = sys.stdin.isatty()
    rest = b""
    while True:
        if shows_prompt:
            print(">", end="", file=sys.stderr, flush=True)
        content = os.read(descriptor, READ_BYTES)
        if not content:
            break
        *lines, rest = (rest + content).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


class Sending:
    """Hands lines to the producer and tells what was not stored, as Kafka's tool does."""

    def __init__(self, producer: Producer, topic: str, out: Output, *, is_sync: bool) -> None:
        self.producer = producer
        self.topic = topic
        self.out = out
        self.is_sync = is_sync
        self.open: deque[tuple[Any, str, int]] = deque()
        self.sent = self.failed = 0
        self.fault: Exception | None = None

    def send(self, reader: LineReader, lines: list[bytes]) -> None:
        from moldau.client.shared.client_errors import KafkaError

        try:
            if reader.is_plain and not self.is_sync:
                what = f"with key: null, value: {len(lines[0])} bytes"
                self._track(self.producer.send_many(self.topic, lines), what, len(lines))
                return
            for line in lines:
                headers, key, value = reader.read(line)
                sent = self.producer.send(self.topic, value, key, headers)
                if self.is_sync:
                    sent.result()
                    self.sent += 1
                else:
                    self._track(sent, f"with key: {size(key)}, value: {size(value)}", 1)
        except KafkaError as error:
            if self.is_sync:
                raise
            self._tell(error, f"with value: {len(lines[0])} bytes", len(lines))

    def _track(self, sent: Any, what: str, count: int) -> None:
        self.open.append((sent, what, count))
        while len(self.open) > OPEN_MAX:
            self._settle_one()

    def settle(self) -> None:
        while self.open:
            self._settle_one()

    def _settle_one(self) -> None:
        from moldau.client.shared.client_errors import KafkaError

        sent, what, count = self.open.popleft()
        try:
            sent.result()
            self.sent += count
        except KafkaError as error:
            self._tell(error, what, count)

    def _tell(self, error: Exception, what: str, count: int) -> None:
        self.failed += count
        self.fault = error
        java = fault_of(error).java
        self.out.remark(
            f"ERROR Error when sending message to topic {self.topic} {what} with error:"
            f" {java}: {error}"
        )


def size(content: bytes | None) -> str:
    return "null" if content is None else f"{len(content)} bytes"


def number_flag(name: str, text: str, kind: Any = integer) -> Flag:
    key, default = SETTINGS[name]
    return Flag(f"--{name}", f"{text} ({key})", takes="N", kind=kind, default=default)


TOOL = Tool(
    name="console-producer",
    does="Sends every line of standard input as a record.",
    flags=(
        BOOTSTRAP._replace(names="--bootstrap-server --broker-list"),
        Flag("--topic", "The topic that the lines are sent to.", takes="NAME", required=True),
        Flag(
            "--reader-property",
            "How lines are read: parse.key=true, key.separator=, parse.headers=true,"
            " headers.delimiter=, headers.separator=, headers.key.separator=, null.marker=,"
            " ignore.error=true.",
            takes="KEY=VALUE",
            repeats=True,
        ),
        Flag("--reader-config", "Properties of the reader, in a file.", takes="FILE"),
        Flag(
            "--compression-codec",
            "none, gzip, snappy, lz4 or zstd.",
            takes="CODEC",
            default="none",
            bare="gzip",
        ),
        Flag("--sync", "Wait for each record before the next is sent."),
        Flag(
            "--request-required-acks",
            "Who must have stored a record before it counts: 0 nobody, 1 the leader, all every"
            " replica in sync (acks).",
            takes="ACKS",
            default="-1",
        ),
        number_flag("timeout", "Milliseconds that a record waits for others.", long),
        number_flag("batch-size", "Bytes of a batch."),
        number_flag("request-timeout-ms", "Milliseconds that a request may take."),
        number_flag("message-send-max-retries", "How often a failed request is repeated."),
        number_flag("retry-backoff-ms", "Pause before that.", long),
        number_flag("max-block-ms", "How long a full buffer may stop the reading.", long),
        number_flag("max-memory-bytes", "Bytes that may wait to be sent.", long),
        number_flag("metadata-expiry-ms", "How old metadata may get.", long),
        Flag("--max-partition-memory-bytes", takes="N", kind=integer, hidden=True),
        Flag("--socket-buffer-size", takes="N", kind=integer, hidden=True),
        Flag("--line-reader", takes="CLASS", default="LineMessageReader", hidden=True),
        Flag("--property", takes="KEY=VALUE", repeats=True, hidden=True),
        Flag("--producer-property", takes="KEY=VALUE", repeats=True, hidden=True),
        Flag("--producer.config", takes="FILE", hidden=True),
        Flag(
            "--command-property",
            "A setting of the producer, as linger.ms=5.",
            takes="KEY=VALUE",
            repeats=True,
        ),
        COMMAND_CONFIG,
    ),
    main=main,
    examples=(
        "echo hello | moldau console-producer --bootstrap-server localhost:9092 --topic greetings",
        "moldau console-producer --bootstrap-server localhost:9092 --topic orders"
        " --reader-property parse.key=true --reader-property key.separator=: < orders.txt",
    ),
)
