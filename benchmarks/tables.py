"""`python -m benchmarks --only tables`: questions to a topic, by three ways to ask them.

One broker of Moldau, a topic of orders as JSON and one of customers; count, a filter by time, and
a join with the last value of each key. Asked by `moldau.table` with DuckDB, by confluent-kafka
into pandas, and by Spark with its own Kafka connector, in turns and in one process each; sessions
are up before. All three have to give the same answers. Needs Java and Maven (for the connector,
fetched once).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.brokers import machine
from moldau import Admin, NewTopic, Producer
from moldau.testing.broker_process import BrokerProcess
from tests.support.spark_connector import VERSION, connector_jars

ORDERS, CUSTOMERS = "orders", "customers"
PARTITIONS = 4
CUSTOMER_COUNT = 1_000
RECORDS = 1_000_000
QUICK_RECORDS = 100_000
SEND_ROWS = 50_000
RECENT_SHARE = 10
"""One part in so many is recent."""
TARGET = 3.0
MOLDAU, CONFLUENT, SPARK = "moldau.table", "confluent-kafka", "Spark's connector"
Answer = float
Ask = Callable[[], Answer]


class Topics(NamedTuple):
    bootstrap: str
    since_ms: int
    """From here on orders are recent."""


def fill(bootstrap: str, records: int) -> Topics:
    """Timestamps are given: a second for every thousand records."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(
            [NewTopic(ORDERS, partitions=PARTITIONS), NewTopic(CUSTOMERS, partitions=1)]
        ).check()
    first_ms = int(time.time() - records / 1_000 - 60) * 1_000
    settings: dict[str, Any] = {"linger_ms": 20, "batch_size": 256 * 1024}
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        for turn in range(2):
            for number in range(CUSTOMER_COUNT):
                producer.send(CUSTOMERS, b"name %d %d" % (number % 50, turn), b"%d" % number)
        for number in range(records):
            order = {"id": number, "customer": str(number * 7 % CUSTOMER_COUNT), "amount": 0.5}
            value = json.dumps(order).encode()
            producer.send(ORDERS, value, timestamp_ms=first_ms + number)
        producer.flush()
    return Topics(bootstrap, first_ms + records - records // RECENT_SHARE)


def by_moldau(topics: Topics) -> dict[str, Ask]:
    import duckdb

    import moldau
    from moldau.tables import Json, Text

    columns = {"id": "int64", "customer": "string", "amount": "float64"}
    orders = moldau.table(ORDERS, bootstrap=topics.bootstrap, value=Json(columns))
    customers = moldau.table(
        CUSTOMERS, bootstrap=topics.bootstrap, latest=True, key=Text(), value=Text()
    )
    connection = duckdb.connect()
    connection.register("orders", orders.dataset())
    connection.register("customers", customers.dataset())

    def ask(question: str) -> Ask:
        return lambda: float(connection.sql(question).fetchall()[0][0])

    return {
        "count": ask("select count(*) from orders"),
        "filter": ask(
            "select sum(amount) from orders"
            f" where timestamp >= make_timestamptz({topics.since_ms * 1000})"
        ),
        "join": ask(
            "select sum(amount) from orders join customers on customer = customers.key"
            " where customers.value like 'name 7 %'"
        ),
    }


def by_confluent(topics: Topics) -> dict[str, Ask]:
    import pandas  # type: ignore[import-untyped]
    from confluent_kafka import Consumer, TopicPartition

    def messages(topic: str, since_ms: int | None = None) -> list[Any]:
        consumer = Consumer(
            {
                "bootstrap.servers": topics.bootstrap,
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "queued.min.messages": 1_000_000,
                "fetch.message.max.bytes": 8 * 1024 * 1024,
            }
        )
        places, left = [], 0
        for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
            place = TopicPartition(topic, partition, since_ms or 0)
            first, end = consumer.get_watermark_offsets(place, timeout=30)
            if since_ms is not None:
                found = consumer.offsets_for_times([place], timeout=30)[0].offset
                first = found if found >= 0 else end
            places.append(TopicPartition(topic, partition, first))
            left += end - first
        consumer.assign(places)
        read: list[Any] = []
        while len(read) < left:
            read += consumer.consume(min(50_000, left - len(read)), 1.0)
        consumer.close()
        return read

    def orders(since_ms: int | None = None) -> Any:
        return pandas.DataFrame([json.loads(each.value()) for each in messages(ORDERS, since_ms)])

    def count() -> Answer:
        # Nothing is parsed that is not asked for.
        return float(len(pandas.DataFrame({"value": [each.value() for each in messages(ORDERS)]})))

    def join() -> Answer:
        rows = [(each.key().decode(), each.value().decode()) for each in messages(CUSTOMERS)]
        customers = pandas.DataFrame(rows, columns=["customer", "name"])
        latest = customers.drop_duplicates("customer", keep="last")
        joined = orders().merge(latest, on="customer")
        return float(joined[joined["name"].str.startswith("name 7 ")]["amount"].sum())

    return {
        "count": count,
        "filter": lambda: float(orders(topics.since_ms)["amount"].sum()),
        "join": join,
    }


def by_spark(topics: Topics, spark: Any) -> dict[str, Ask]:
    from pyspark.sql import functions as F

    def read(topic: str) -> Any:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", topics.bootstrap)
        return reader.option("subscribe", topic).load()

    def orders() -> Any:
        kind = "id long, customer string, amount double"
        order = F.from_json(F.col("value").cast("string"), kind)
        return read(ORDERS).select("timestamp", order.alias("order")).select("timestamp", "order.*")

    def total(frame: Any) -> Answer:
        return float(frame.agg(F.sum("amount")).collect()[0][0])

    def recent() -> Answer:
        since = F.timestamp_millis(F.lit(topics.since_ms))
        return total(orders().where(F.col("timestamp") >= since))

    def join() -> Answer:
        newest = F.max_by("value", "offset").cast("string").alias("name")
        latest = read(CUSTOMERS).groupBy(F.col("key").cast("string").alias("customer")).agg(newest)
        joined = orders().join(latest, "customer")
        return total(joined.where(F.col("name").like("name 7 %")))

    return {"count": lambda: float(read(ORDERS).count()), "filter": recent, "join": join}


def run(rounds: int, records: int) -> str:
    """All rounds and the table of them."""
    from moldau.pipelines import session

    spark = session("benchmark_tables", "local[2]", **{"spark.jars": connector_jars()})
    try:
        with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder)) as broker:
            topics = fill(broker.bootstrap, records)
            asks = {
                MOLDAU: by_moldau(topics),
                CONFLUENT: by_confluent(topics),
                SPARK: by_spark(topics, spark),
            }
            return report(compare(asks, rounds), records, spark.version)
    finally:
        spark.stop()


def compare(asks: dict[str, dict[str, Ask]], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds by question and way."""
    questions = list(asks[MOLDAU])
    taken: dict[str, dict[str, list[float]]] = {
        question: {way: [] for way in asks} for question in questions
    }
    for number in range(rounds + 1):
        for question in questions:
            answers = {}
            for way in asks if number % 2 == 0 else reversed(asks):
                began = time.perf_counter()
                answers[way] = asks[way][question]()
                seconds = time.perf_counter() - began
                # The first round warms up what needs it.
                if number:
                    taken[question][way].append(seconds)
                print(f"round {number} {question} {way}: {seconds:.2f} s", file=sys.stderr)
            if len(set(answers.values())) != 1:
                raise AssertionError(f"{question}: the answers differ: {answers}")
    return taken


def report(taken: dict[str, dict[str, list[float]]], records: int, spark_version: str) -> str:
    facts = ", ".join(f"{name} {fact}" for name, fact in machine().items())
    lines = [
        f"{facts}; Spark {spark_version}, its Kafka connector {VERSION}; {records:,} records",
        "",
        f"| question | {MOLDAU} (s) | {CONFLUENT} (s) | {SPARK} (s) | ratio | target |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for question, ways in taken.items():
        medians = {way: statistics.median(seconds) for way, seconds in ways.items()}
        cells = [
            f"{medians[way]:.2f} ({min(seconds):.2f}–{max(seconds):.2f})"
            for way, seconds in ways.items()
        ]
        ratio = min(medians[CONFLUENT], medians[SPARK]) / medians[MOLDAU]
        verdict = "met" if ratio >= TARGET else "missed"
        row = [question, *cells, f"{ratio:.1f}×", f"≥ {TARGET:g}× {verdict}"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)
