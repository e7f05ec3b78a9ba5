"""`python -m benchmarks.spark_source`: rows per second into Spark, three sources side by side.

Moldau's source, Spark's own Kafka connector and one over confluent-kafka read the same topics of
one broker, in one SparkSession on local[2], into Spark's `noop` sink. Needs Java and Maven (for
the connector, fetched once). Sources take turns; the table shows medians of the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.brokers import machine
from moldau import Admin, NewTopic, Producer
from moldau.pipelines import session
from moldau.testing.broker_process import BrokerProcess
from tests.support.spark_connector import VERSION, connector_jars

ROOT = Path(__file__).parent.parent
PARTITIONS = 2
ROWS = {100: 2_000_000, 1000: 400_000}
TARGET = 2.0
NAMES = {
    "moldau": "format(moldau)",
    "kafka": f"Spark's Kafka connector {VERSION}",
    "confluent": "Python source over confluent-kafka",
}
SEND_ROWS = 50_000


def fill(bootstrap: str, topic: str, size: int, rows: int) -> None:
    """Values of one size, which no codec has made smaller, in full batches."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions=PARTITIONS)]).check()
    settings: dict[str, Any] = {"linger_ms": 20, "batch_size": 256 * 1024}
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        values = [os.urandom(size) for _ in range(1000)] * (SEND_ROWS // 1000)
        for _ in range(0, rows, SEND_ROWS):
            producer.send_many(topic, values)
            producer.flush()


def measure(spark: Any, source: str, bootstrap: str, topic: str) -> float:
    """Seconds that one read of the whole topic takes."""
    frame = (
        spark.read.format(source)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_source", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0, help="part of the rows, to be quick")
    asked = parser.parse_args()
    # Workers import the peer's source.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    spark = session("spark_source", f"local[{PARTITIONS}]", **{"spark.jars": connector_jars()})
    from benchmarks.spark_confluent import ConfluentSource

    spark.dataSource.register(ConfluentSource)
    facts = ", ".join(f"{name} {fact}" for name, fact in machine().items())
    print(f"{facts}; Spark {spark.version}")
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder)) as broker:
        for size, full in ROWS.items():
            rows = int(full * asked.share) // SEND_ROWS * SEND_ROWS
            topic = f"rows-{size}"
            fill(broker.bootstrap, topic, size, rows)
            show(compare(spark, broker.bootstrap, topic, asked.rounds), size, rows)
    spark.stop()


def compare(spark: Any, bootstrap: str, topic: str, rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {source: [] for source in NAMES}
    for number in range(rounds + 1):
        for source in NAMES if number % 2 == 0 else reversed(NAMES):
            seconds = measure(spark, source, bootstrap, topic)
            # The first round warms up the JVM and the workers.
            if number:
                taken[source].append(seconds)
            print(f"{topic} round {number} {source}: {seconds:.2f} s", file=sys.stderr)
    return taken


def show(taken: dict[str, list[float]], size: int, rows: int) -> None:
    speeds = {name: rows / statistics.median(seconds) for name, seconds in taken.items()}
    best_peer = max(speed for name, speed in speeds.items() if name != "moldau")
    print(f"\n{rows:,} records of {size} B:")
    for name, speed in speeds.items():
        spread = f"{rows / max(taken[name]):,.0f} to {rows / min(taken[name]):,.0f}"
        print(f"  {NAMES[name]:36} {speed:>12,.0f} rows/s  ({spread})")
    ratio = speeds["moldau"] / best_peer
    verdict = "met" if ratio >= TARGET else "missed"
    print(f"  {ratio:.2f} times the faster peer; at least {TARGET:g}: {verdict}")


if __name__ == "__main__":
    main()
