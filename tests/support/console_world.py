"""A broker as a user of the console finds it: topics, groups, transactions, logs, a checkpoint."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.admin import Acl, AclOperation, AclResourceType
from moldau.testing import broker
from moldau.testing.broker_process import free_port

RECORDS = 300
HOSTILE = "<script>window.stolen=1</script>\"'><img src=x onerror=window.stolen=1>"
"""In every place where a client can write a text."""
TRANSACTION = f"payments {HOSTILE}"


class World(NamedTuple):
    bootstrap: str
    flags: tuple[str, ...]
    """Of a console that is to show all of it."""


@contextmanager
def world(directory: Path) -> Iterator[World]:
    metrics = f"127.0.0.1:{free_port()}"
    settings = {
        "metrics.http.listener": metrics,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with broker(settings) as made, filled(made.bootstrap, directory) as whole:
        with made.admin() as admin:
            admin.create_snapshot("before-release")
        yield whole._replace(flags=(*whole.flags, "--metrics", f"http://{metrics}"))


@contextmanager
def filled(bootstrap: str, directory: Path) -> Iterator[World]:
    """Of any cluster: what it holds, a group that reads, and a transaction that is open."""
    logs, checkpoints = directory / "logs", directory / "checkpoints"
    write_logs(logs)
    write_checkpoint(checkpoints / "wordcount", {"orders": {"0": 80, "1": 70, "2": 60}})
    fill(bootstrap)
    flags = ("--log-files", str(logs), "--checkpoints", str(checkpoints))
    with (
        Producer(bootstrap_servers=bootstrap, transactional_id=TRANSACTION) as producer,
        Consumer(
            bootstrap_servers=bootstrap,
            group_id="shipping",
            client_id=HOSTILE,
            auto_offset_reset="earliest",
            max_poll_interval_ms=3_600_000,
        ) as reader,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("payments", b"half").result(10)
        reader.subscribe(["orders"])
        while not reader.poll(1.0):
            pass
        reader.commit()
        yield World(bootstrap, flags)
        producer.abort_transaction()


def fill(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 3, 1)]).check()
        others = ("payments", "shipments", "customers-changes", "web.clicks_2026")
        admin.create_topics([NewTopic(name, 1, 1) for name in others]).check()
        with Producer(bootstrap_servers=bootstrap) as producer:
            send_records(producer)
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 20}).check()
        admin.alter_group_offsets(HOSTILE, {TopicPartition("orders", 1): 5}).check()
        admin.alter_client_quotas(
            {
                (("user", HOSTILE),): {"producer_byte_rate": 1048576.0},
                (("client-id", None),): {"request_percentage": 50.0},
            }
        ).check()
        admin.create_acls(
            [Acl(f"User:{HOSTILE}", AclResourceType.TOPIC, "unrelated", AclOperation.READ)]
        ).check()
        admin.upsert_user_scram_credential("ada", "a word")


def send_records(producer: Producer) -> None:
    for number in range(RECORDS):
        order = {
            "id": number,
            "status": ("paid", "failed", "sent")[number % 3],
            "amount": number * 7 % 400,
            "customer": {"name": "Ada Lovelace", "city": "Praha"},
        }
        headers = [("source", b"web")]
        if number == RECORDS - 1:
            headers.append((HOSTILE, HOSTILE.encode()))
        producer.send("orders", json.dumps(order).encode(), f"order-{number}", headers=headers)
    producer.send("orders", HOSTILE.encode(), HOSTILE).result(10)
    producer.send("shipments", bytes(range(200)), b"\xff\xfe").result(10)


def write_logs(folder: Path) -> None:
    folder.mkdir(parents=True)
    lines = [
        "[2026-11-19 07:27:48,123] INFO Awaiting socket connections (kafka.network.Acceptor)",
        f"[2026-11-19 07:27:49,001] WARN a client is called {HOSTILE} (kafka.server)",
        "[2026-11-19 07:27:50,500] ERROR Disk failed (kafka.log.LogManager)",
        "java.io.IOException: No space left on device",
    ]
    (folder / "server.log").write_text("\n".join(lines * 30) + "\n")
    (folder / "controller.log.2026-11-19-06").write_text(lines[0] + "\n")
    (folder / "state-change.log").write_text("")


def write_checkpoint(folder: Path, ends: dict[str, dict[str, int]]) -> None:
    """What Spark leaves after twelve batches, and one that is under way."""
    for name in ("offsets", "commits", "state/0/0", "state/0/1"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"3cf8a1d2-1111-4c3e-9c2b-0a1b2c3d4e5f"}')
    now = time.time()
    for number in range(13):
        share = (number + 1) / 13
        offsets = {t: {p: int(end * share) for p, end in row.items()} for t, row in ends.items()}
        about = {"batchWatermarkMs": 1_763_500_000_000, "batchTimestampMs": 0, "conf": {}}
        planned = folder / "offsets" / str(number)
        planned.write_text(f"v1\n{json.dumps(about)}\n{json.dumps(offsets)}")
        begun = now - (13 - number) * 10
        os.utime(planned, (begun, begun))
        if number < 12:
            done = folder / "commits" / str(number)
            done.write_text('v1\n{"nextBatchWatermarkMs":0}')
            os.utime(done, (begun + 1 + number % 4, begun + 1 + number % 4))
    (folder / "state/0/0/12.zip").write_bytes(bytes(4_000))
    (folder / "state/0/1/12.zip").write_bytes(bytes(6_000))
