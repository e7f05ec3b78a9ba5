"""Clients in other languages: one small program each, asked in JSON lines over its stdin.

A request is one line, `{"op": ..., ...}`; the answer is one line: `{"result": ...}`,
`{"refused": error code, "message": ...}`, `{"fenced": name}` or `{"failed": ...}`. Keys, values
and header values travel as base64. Programs are built once into build/compat and started once
per test session.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.compat.clients.port import (
    READ_UNCOMMITTED,
    SECONDS_MAX,
    Partition,
    Received,
    Record,
    Refused,
)
from tests.compat.clients.transaction_port import Fenced
from tests.support import apache_kafka, apache_kafka_39

SOURCES = Path(__file__).parent
BUILD = SOURCES.parents[2] / "build" / "compat"
BUILD_SECONDS_MAX = 600


class ProgramClient:
    """A running program that answers the questions of `port.Client`."""

    def __init__(
        self, name: str, command: Sequence[str], bootstrap: str, *, is_kafkajs: bool = False
    ) -> None:
        self.name = name
        self.writes_null_headers = not is_kafkajs
        self.alters_incrementally = not is_kafkajs
        self.checks_delete_offsets_itself = is_kafkajs
        self.process = subprocess.Popen(
            [*command, bootstrap, str(SECONDS_MAX * 1000)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, op: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the {self.name} program ended with {self.process.wait(10)}"
        answer = json.loads(line)
        if "refused" in answer:
            raise Refused(answer["refused"], answer["message"])
        if "fenced" in answer:
            raise Fenced(answer["fenced"])
        assert "failed" not in answer, f"{self.name} {op}: {answer['failed']}"
        return answer["result"]

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all"
    ) -> list[int]:
        rows = [row_from(record) for record in records]
        offsets: list[int] = self.ask("produce", topic=topic, records=rows, codec=codec, acks=acks)
        return offsets

    def consume(
        self, topic: str, counts: Mapping[int, int], *, isolation: str = READ_UNCOMMITTED
    ) -> list[Received]:
        wanted = {str(partition): count for partition, count in counts.items()}
        rows = self.ask("consume", topic=topic, counts=wanted, isolation=isolation)
        return [received_from(row) for row in rows]

    def create_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> None:
        self.ask("create_topic", topic=topic, partitions=partitions, configs=dict(configs))

    def topics(self) -> set[str]:
        return set(self.ask("topics"))

    def describe_topic(self, topic: str) -> list[Partition]:
        rows = self.ask("describe_topic", topic=topic)
        return sorted(Partition(p, leader, tuple(r), tuple(isr)) for p, leader, r, isr in rows)

    def configs(self, topic: str) -> dict[str, str | None]:
        entries: dict[str, str | None] = self.ask("configs", topic=topic)
        return entries

    def alter_configs(self, topic: str, changes: Mapping[str, str]) -> None:
        self.ask("alter_configs", topic=topic, changes=dict(changes))

    def create_partitions(self, topic: str, total: int) -> None:
        self.ask("create_partitions", topic=topic, total=total)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        self.ask("delete_records", topic=topic, partition=partition, before_offset=before_offset)

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        start, end = self.ask("offsets", topic=topic, partition=partition)
        return start, end

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        asked = {"topic": topic, "partition": partition, "timestamp_ms": timestamp_ms}
        offset: int = self.ask("offset_at", **asked)
        return offset

    def delete_topic(self, topic: str) -> None:
        self.ask("delete_topic", topic=topic)

    def close(self) -> None:
        """The end of its input ends the program."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def row_from(record: Record) -> list[Any]:
    headers = [[name, encoded(value)] for name, value in record.headers]
    key, value = encoded(record.key), encoded(record.value)
    return [record.partition, key, value, headers, record.timestamp_ms]


def received_from(row: list[Any]) -> Received:
    partition, offset, key, value, headers, timestamp_ms = row
    pairs = tuple((name, decoded(text)) for name, text in headers)
    return Received(Record(decoded(key), decoded(value), pairs, timestamp_ms, partition), offset)


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def build(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, timeout=BUILD_SECONDS_MAX)


def fresh_copy(name: str) -> Path:
    """The program's sources in the build folder, where tools may drop what they like."""
    folder = BUILD / name
    shutil.copytree(SOURCES / name, folder, dirs_exist_ok=True)
    return folder


def kafkajs(bootstrap: str) -> ProgramClient:
    folder = fresh_copy("kafkajs")
    build(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], folder)
    command = ["node", "--no-warnings", str(folder / "client.js")]
    return ProgramClient("kafkajs", command, bootstrap, is_kafkajs=True)


def franz_go_command() -> list[str]:
    folder = fresh_copy("franzgo")
    build(["go", "build", "-o", "client", "."], folder)
    return [str(folder / "client")]


def franz_go(bootstrap: str) -> ProgramClient:
    return ProgramClient("franz-go", franz_go_command(), bootstrap)


def java_classes() -> Path:
    folder = fresh_copy("java")
    sources = [path.name for path in folder.glob("*.java")]
    build(["javac", "-cp", apache_kafka.classpath(), "-d", "classes", *sources], folder)
    return folder / "classes"


def java_command(main_class: str) -> list[str]:
    classes = java_classes()
    return apache_kafka.tool_command(main_class, classes.parent, classes)


def java(bootstrap: str) -> ProgramClient:
    return ProgramClient("java", java_command("Client"), bootstrap)


def java_39(bootstrap: str) -> ProgramClient:
    """The same program with the client of 3.9.1, which has transactions of version 1 alone and
    lacks what `Groups.java` asks of groups."""
    classes = java_classes()
    command = apache_kafka_39.java39_command("Client", classes.parent, more=[classes])
    return ProgramClient("java-3.9", command, bootstrap)
