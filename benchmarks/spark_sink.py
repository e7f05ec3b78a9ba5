"""`python -m benchmarks.spark_sink`: rows/s out of Spark, exactly once beside at least once.

The same stream, from a topic of one broker to another topic of it, is written with both guarantees
of `Kafka.to` in one SparkSession on local[2], in micro-batches of one size. They take turns; the
table shows medians of the rounds. Needs Java.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.brokers import machine
from benchmarks.spark_source import PARTITIONS, SEND_ROWS, fill
from moldau import Admin, NewTopic
from moldau.pipelines import Kafka, session
from moldau.pipelines.kafka import GUARANTEES
from moldau.testing.broker_process import BrokerProcess

ROWS = {100: 2_000_000, 1000: 400_000}
BATCHES = 4
"""Micro-batches per run: what a transaction costs is paid once in each."""
TARGET = 0.8
RUN_SECONDS_MAX = 600


def measure(k: Kafka, source: str, guarantee: str, name: str, folder: Path, rows: int) -> float:
    """Seconds from the start of the query until everything is written."""
    with Admin(bootstrap_servers=k.bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions=PARTITIONS)]).check()
    frame = k.stream(source, startingOffsets="earliest", maxOffsetsPerTrigger=rows // BATCHES)
    began = time.perf_counter()
    query = k.to(
        frame,
        name,
        app=name,
        checkpoint=str(folder / name),
        guarantee=guarantee,
        trigger="available_now",
    )
    if not query.awaitTermination(RUN_SECONDS_MAX):
        raise SystemExit(f"The run {name} was not done after {RUN_SECONDS_MAX} s")
    seconds = time.perf_counter() - began
    with Admin(bootstrap_servers=k.bootstrap) as admin:
        admin.delete_topics([name]).check()
    return seconds


def compare(k: Kafka, source: str, folder: Path, rows: int, rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {guarantee: [] for guarantee in GUARANTEES}
    for number in range(rounds + 1):
        for guarantee in GUARANTEES if number % 2 == 0 else reversed(GUARANTEES):
            name = f"{source}-{guarantee}-{number}"
            seconds = measure(k, source, guarantee, name, folder, rows)
            # The first round warms up the JVM and the workers.
            if number:
                taken[guarantee].append(seconds)
            print(f"{source} round {number} {guarantee}: {seconds:.2f} s", file=sys.stderr)
    return taken


def show(taken: dict[str, list[float]], size: int, rows: int) -> None:
    print(f"\n{rows:,} records of {size} B in {BATCHES} micro-batches:")
    speeds = {name: rows / statistics.median(seconds) for name, seconds in taken.items()}
    for name, speed in speeds.items():
        spread = f"{rows / max(taken[name]):,.0f} to {rows / min(taken[name]):,.0f}"
        print(f"  {name:16} {speed:>12,.0f} rows/s  ({spread})")
    ratio = speeds["exactly_once"] / speeds["at_least_once"]
    verdict = "met" if ratio >= TARGET else "missed"
    print(f"  exactly once is {ratio:.0%} of at least once; at least {TARGET:.0%}: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_sink", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0, help="part of the rows, to be quick")
    asked = parser.parse_args()
    spark = session("spark_sink", f"local[{PARTITIONS}]")
    facts = ", ".join(f"{name} {fact}" for name, fact in machine().items())
    print(f"{facts}; Spark {spark.version}")
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder)) as broker:
        k = Kafka(spark, broker.bootstrap)
        for size, full in ROWS.items():
            rows = max(int(full * asked.share) // SEND_ROWS, 1) * SEND_ROWS
            source = f"rows-{size}"
            fill(broker.bootstrap, source, size, rows)
            show(compare(k, source, Path(folder), rows, asked.rounds), size, rows)
    spark.stop()


if __name__ == "__main__":
    main()
