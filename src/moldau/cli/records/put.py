"""`moldau put`: lines or files become records, in the short form of kcat."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.cli.answers import fault_of
from moldau.cli.command_clients import client_faults, reach
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.records.short_form import (
    BROKER,
    CONFIG,
    SETTING,
    separated,
    settings_of,
    unescaped,
)
from moldau.cli.tool import Tool, run_tool

if TYPE_CHECKING:
    from moldau.client.producer.blocking_producer import Producer

READ_BYTES = 256 * 1024
OPEN_MAX = 10_000
"""Records whose outcome is still unknown."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, separated(arguments, TOOL))


def main(given: Given, out: Output) -> int:
    settings: dict[str, Any] = {"client.id": "moldau-put", **settings_of(given)}
    if given.has("compression"):
        settings["compression.type"] = given.text("compression")
    sending = Sending(given)
    with client_faults():
        reach(str(settings["bootstrap.servers"]), settings, out)
        from moldau.client.producer.blocking_producer import Producer

        with Producer(settings) as producer:
            for content in contents(given):
                sending.send(producer, content)
            sending.settle(0)
    if out.is_json:
        error = None if sending.fault is None else fault_of(sending.fault)
        counts = {"sent": sending.sent, "failed": sending.failed}
        out.json({"topic": sending.topic, **counts, "error": error})
    elif sending.fault is not None:
        raise CommandFault(
            f"{sending.failed} of {sending.sent + sending.failed} records were not stored:"
            f" {sending.fault}"
        )
    return 1 if sending.failed else 0


def contents(given: Given) -> Iterator[bytes]:
    """A record for each file that is named, or for each line of it or of standard input."""
    delimiter = unescaped(given.text("delimiter"))
    if not given.words:
        yield from pieces_of(sys.stdin.fileno(), delimiter)
    for name in given.words:
        try:
            if given.has("lines"):
                with Path(name).open("rb") as file:
                    yield from pieces_of(file.fileno(), delimiter)
            else:
                yield Path(name).read_bytes()
        except OSError as fault:
            raise CommandFault(f"{name} cannot be read: {fault.strerror}") from None


def pieces_of(descriptor: int, delimiter: bytes) -> Iterator[bytes]:
    """What stands between delimiters, as soon as it is there."""
    rest = b""
    while content := os.read(descriptor, READ_BYTES):
        *whole, rest = (rest + content).split(delimiter)
        yield from whole
    if rest:
        yield rest


class Sending:
    def __init__(self, given: Given) -> None:
        self.topic = given.text("topic")
        self.partition = given.maybe_number("partition")
        self.key = None if not given.has("key") else os.fsencode(given.text("key"))
        self.key_delimiter = (
            unescaped(given.text("key-delimiter")) if given.has("key-delimiter") else b""
        )
        self.empty_is_null = given.has("null")
        self.headers = [header_of(text) for text in given.texts("header")]
        self.open: deque[Any] = deque()
        self.sent = self.failed = 0
        self.fault: Exception | None = None

    def send(self, producer: Producer, content: bytes) -> None:
        key, value = self.key, content
        if self.key_delimiter and self.key_delimiter in content:
            key, _, value = content.partition(self.key_delimiter)
        if self.empty_is_null:
            key, value = key or None, value or None  # type: ignore[assignment]
        sent = producer.send(self.topic, value, key, self.headers or None, partition=self.partition)
        self.open.append(sent)
        self.settle(OPEN_MAX)

    def settle(self, left: int) -> None:
        from moldau.client.shared.client_errors import KafkaError

        while len(self.open) > left:
            try:
                self.open.popleft().result()
                self.sent += 1
            except KafkaError as error:
                self.failed += 1
                self.fault = error


def header_of(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    return name, os.fsencode(value) if equals else None


TOOL = Tool(
    name="put",
    does="Sends records to a topic, in the short form that kcat has made usual: a record for each"
    " line of standard input, or for each file.",
    flags=(
        BROKER,
        Flag("--topic -t", "The topic.", takes="NAME", required=True),
        Flag("--key -k", "The key of all records.", takes="KEY"),
        Flag("--key-delimiter -K", "What stands before it in a line is the key.", takes="TEXT"),
        Flag("--delimiter -D", "What separates records.", takes="TEXT", default="\\n"),
        Flag("--header -H", "A header of all records.", takes="NAME=VALUE", repeats=True),
        Flag("--partition -p", "Send to this partition.", takes="N", kind=integer),
        Flag("--null -Z", "A key or value of no bytes is sent as null: it deletes the key."),
        Flag("--lines -l", "A record for each line of the files, not for each file."),
        Flag("--compression -z", "How batches are compressed.", takes="CODEC", one_of=CODECS),
        SETTING,
        CONFIG,
    ),
    main=main,
    words_max=1000,
    words_usage="[FILE ...]",
    notes="In delimiters \\n, \\t, \\r, \\0 and \\x2c are what they are in C.",
    examples=(
        "echo hello | moldau put -t greetings",
        "echo k1:one | moldau put -b localhost:9092 -t orders -K : -H source=shell",
        "moldau put -t orders -k batch orders.txt",
        "moldau put -t orders -l orders.txt",
    ),
)
