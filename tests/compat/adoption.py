"""What a broker's directory holds, asked for as clients and Apache Kafka's tools ask: written once,
read again after another broker has taken the directory over."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.apache_kafka_39 import run_tool_39

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
STARTED_MS = int(time.time() * 1000) - 60_000
"""Recent: brokers forget producers, and records, that are old."""
Row = tuple[int, int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]


def create_topics(bootstrap: str, segment_bytes: str = "segment.bytes") -> None:
    """`segment_bytes` is the setting by which segments can be made as small as they are here."""
    topics = [
        NewTopic("plain", PARTITIONS, 1, config={segment_bytes: "4096", "retention.ms": "-1"}),
        NewTopic("ledger", 1, 1),
        NewTopic("pending", 1, 1),
        NewTopic(
            "latest",
            1,
            1,
            config={
                "cleanup.policy": "compact",
                segment_bytes: "2048",
                "min.cleanable.dirty.ratio": "0.01",
            },
        ),
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(topics).values():
        future.result(30)


def fill(bootstrap: str, who: str) -> None:
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": codec != "gzip",
                "linger.ms": 20,
                "batch.num.messages": 20,
            }
        )
        for number in range(200):
            producer.produce(
                "plain",
                f"{who} {codec} {number} ".encode() * 4,
                f"key {number}".encode(),
                partition=number % PARTITIONS,
                timestamp=STARTED_MS + number,
                headers=[("codec", codec.encode()), ("number", str(number).encode())],
            )
        for number in range(300):
            producer.produce("latest", f"{who} {codec} {number}".encode(), f"k{number % 5}")
            if number % 20 == 0:
                producer.flush(30)
        assert producer.flush(30) == 0
    writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"writer-{who}"})
    writer.init_transactions(30)
    for number in range(6):
        writer.begin_transaction()
        for part in range(3):
            writer.produce("ledger", f"{who} {number}.{part}".encode())
        writer.flush(30)
        if number % 3 == 2:
            writer.abort_transaction(30)
        else:
            writer.commit_transaction(30)


def leave_open(bootstrap: str, who: str) -> None:
    """A transaction that has written something and is neither committed nor aborted."""
    settings = {"transactional.id": f"open-{who}", "transaction.timeout.ms": 600_000}
    writer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce("pending", f"{who}, undecided".encode())
    writer.flush(30)
    left_open.append(writer)


left_open: list[Producer] = []
"""Their producers live as long as the tests: the end of one would end its transaction."""


def end_open(bootstrap: str, who: str) -> None:
    """The same producer comes back after a crash: what it left open is aborted."""
    writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"open-{who}"})
    writer.init_transactions(30)


def commit(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("plain", 0, 17)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition("plain", 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def everything(bootstrap: str, topic: str, partitions: int, isolation: str) -> list[Row]:
    """All records from the log start on, and where each partition ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    rows: list[Row] = []
    for partition in range(partitions):
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                break
            headers = tuple((key, value or b"") for key, value in message.headers() or [])
            kind, timestamp = message.timestamp()
            rows.append(
                (
                    partition,
                    message.offset() or 0,
                    kind,
                    timestamp,
                    message.key(),
                    message.value(),
                    headers,
                )
            )
    consumer.close()
    return rows


def all_topics(bootstrap: str) -> dict[str, list[Row]]:
    return {
        "plain": everything(bootstrap, "plain", PARTITIONS, "read_committed"),
        "latest": everything(bootstrap, "latest", 1, "read_committed"),
        "ledger": everything(bootstrap, "ledger", 1, "read_committed"),
        "ledger, aborted too": everything(bootstrap, "ledger", 1, "read_uncommitted"),
        "pending": everything(bootstrap, "pending", 1, "read_committed"),
        "pending, undecided too": everything(bootstrap, "pending", 1, "read_uncommitted"),
    }


def producers(bootstrap: str, scratch: Path) -> list[str]:
    """Of every partition: ids, epochs, last sequences and timestamps, open transactions."""
    lines: list[str] = []
    for topic, partition in (
        ("plain", 0),
        ("plain", 1),
        ("plain", 2),
        ("ledger", 0),
        ("pending", 0),
    ):
        described = run_tool_39(
            "org.apache.kafka.tools.TransactionsCommand",
            *("--bootstrap-server", bootstrap, "describe-producers"),
            *("--topic", topic, "--partition", str(partition)),
            scratch=scratch,
        )
        assert described.returncode == 0, described.stderr
        lines += sorted(described.stdout.splitlines())
    return lines


def latest_values(rows: list[Row]) -> dict[bytes | None, bytes | None]:
    return {row[4]: row[5] for row in rows}


def dump_all(log_directory: Path, scratch: Path) -> None:
    """3.9.1's tool reads every file that Moldau left and finds no fault in it."""
    for topic in ("plain-0", "ledger-0", "latest-0"):
        suffixes = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
        files = [p for p in sorted((log_directory / topic).iterdir()) if p.suffix in suffixes]
        dumped = run_tool_39(
            "kafka.tools.DumpLogSegments",
            *("--deep-iteration", "--files", ",".join(map(str, files))),
            scratch=scratch,
        )
        assert dumped.returncode == 0, dumped.stderr
        for fault in ("isvalid: false", "Exception", "Mismatches", "Non-secutive", "ound invalid"):
            assert fault not in dumped.stdout + dumped.stderr
