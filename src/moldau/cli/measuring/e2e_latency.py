"""`moldau e2e-latency`: how long a record takes from the producer to a consumer."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from moldau.cli.command_clients import client_faults, properties_file, reach
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool
from moldau.model.names import TopicPartition

ANSWER_SECONDS = 60.0
REPORT_EVERY = 1000
ORDER = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size")
POSITIONAL = (
    "WARNING: arguments by position are old. Use named arguments instead: --bootstrap-server,"
    " --topic, --num-records, --producer-acks, --record-size, --command-config"
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    values = values_of(given, out)
    count, size = int(values["num-records"]), int(values["record-size"])
    if values["producer-acks"] not in ("1", "all", "-1"):
        raise CommandFault(
            "Latency testing requires synchronous acknowledgement. Please use 1 or all"
        )
    settings: dict[str, Any] = {}
    if values["command-config"]:
        settings |= properties_file(values["command-config"])
    settings["bootstrap.servers"] = values["bootstrap-server"]
    with client_faults():
        reach(settings["bootstrap.servers"], {}, out)
        create_topic(settings, values["topic"], out)
        times = measure(settings, values, count, size, out)
    ordered = sorted(times)
    p50, p99, p999 = (int(ordered[int(count * share)]) for share in (0.5, 0.99, 0.999))
    if given.has("json"):
        out.json({"avgMs": sum(times) / count, "p50Ms": p50, "p99Ms": p99, "p999Ms": p999})
        return
    out.line(f"Avg latency: {sum(times) / count:.4f} ms")
    out.line(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")


def values_of(given: Given, out: Output) -> dict[str, str]:
    """Flags, or the old way: five or six words in a fixed order."""
    if given.words:
        if not 5 <= len(given.words) <= 6:
            raise UsageFault(
                "Invalid number of arguments. Expected 5 or 6 positional arguments, but got"
                f" {len(given.words)}. Usage: bootstrap-server topic num-records producer-acks"
                " record-size [optional] command-config"
            )
        out.remark(POSITIONAL)
        values = dict(zip((*ORDER, "command-config"), [*given.words, ""], strict=False))
    else:
        for key in ORDER:
            if not given.has(key):
                raise UsageFault(f'Missing required argument "[{key}]"')
        values = {key: str(given.value(key)) for key in ORDER}
        values["command-config"] = given.maybe_text("command-config") or ""
    for key in ("num-records", "record-size"):
        if not values[key].isdigit() or int(values[key]) < 1:
            raise UsageFault(f"Value for --{key} must be a positive integer")
    return values


def create_topic(settings: dict[str, Any], topic: str, out: Output) -> None:
    from moldau.client.admin.admin_results import NewTopic
    from moldau.client.admin.blocking_admin import Admin

    with Admin({"bootstrap.servers": settings["bootstrap.servers"]}) as admin:
        if topic not in admin.list_topics():
            out.line(
                f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and'
                " replication factor = 1"
            )
            admin.create_topics([NewTopic(topic, 1, 1)]).check()


def measure(
    settings: dict[str, Any], values: dict[str, str], count: int, size: int, out: Output
) -> list[float]:
    from moldau.client.consumer.blocking_consumer import Consumer
    from moldau.client.producer.blocking_producer import Producer

    topic = values["topic"]
    reading = {
        **settings,
        "enable.auto.commit": "false",
        "auto.offset.reset": "latest",
        "fetch.max.wait.ms": "0",
    }
    writing = {**settings, "linger.ms": "0", "acks": values["producer-acks"]}
    letters = bytes(range(ord("A"), ord("Z") + 1))
    message = bytes(random.Random(0).choices(letters, k=size))
    times = []
    with Consumer(reading) as consumer, Producer(writing) as producer:
        partitions = [
            TopicPartition(topic, row.partition) for row in consumer.partitions_for(topic)
        ]
        consumer.assign(partitions)
        consumer.seek_to_end(partitions)
        for partition in partitions:
            consumer.position(partition)
        total = 0.0
        for number in range(count):
            start = time.perf_counter()
            producer.send(topic, message).result(ANSWER_SECONDS)
            records = consumer.poll(ANSWER_SECONDS)
            elapsed_ms = (time.perf_counter() - start) * 1000
            if not records:
                raise CommandFault("poll() timed out before finding a result")
            if records[0].value != message:
                raise CommandFault("The record read is not the record sent: others write here too")
            if number % REPORT_EVERY == 0:
                out.line(f"{number}\t{elapsed_ms:.6f}")
                out.flush()
            total += elapsed_ms
            times.append(elapsed_ms)
    return times


TOOL = Tool(
    name="e2e-latency",
    does="Sends records one by one and measures how long each takes to be read again.",
    flags=(
        BOOTSTRAP,
        Flag("--topic", "The topic; made if it is not there.", takes="NAME"),
        Flag("--num-records", "How many records to send and read.", takes="N", kind=integer),
        Flag(
            "--producer-acks",
            "Who must have stored a record: 1 the leader, all every replica in sync.",
            takes="ACKS",
        ),
        Flag("--record-size", "How large each record is, in bytes.", takes="BYTES", kind=integer),
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    words_max=7,
    words_usage="| BOOTSTRAP TOPIC NUM-RECORDS ACKS RECORD-SIZE [CONFIG]",
    examples=(
        "moldau e2e-latency --bootstrap-server localhost:9092 --topic latency --num-records 1000"
        " --producer-acks all --record-size 100",
    ),
)
