"""Bytes to columns and back on a real SparkSession: Java's serdes, JSON, and Avro by a registry."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from moldau.pipelines import Kafka
from moldau.pipelines.formats import avro, column_codecs
from moldau.pipelines.formats.avro_schema import AvroError
from tests.support.pipeline_world import make_topic, read_committed, send
from tests.support.schema_registry import SchemaRegistry

Name = Callable[[str], str]
LONGS = (0, 1, -1, 255, 256, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63))
INTEGERS = (0, 1, -1, 255, 256, 2**31 - 1, -(2**31))
PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                    "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "lines", "type": {"type": "array", "items": ["null", "int"]}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip
FIELDS = [field["name"] for field in PAYMENT["fields"]]  # type: ignore[index]


@pytest.fixture
def served() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


def test_numbers_have_the_bytes_of_javas_serializers(spark: Any) -> None:
    rows = [(n, INTEGERS[i % len(INTEGERS)]) for i, n in enumerate(LONGS)]
    frame = spark.createDataFrame([*rows, (None, None)], "l bigint, i int")
    there = frame.select(
        column_codecs.to_long("l").alias("l"), column_codecs.to_integer("i").alias("i")
    )
    made = [tuple(row) for row in there.collect()]
    assert made == [(struct.pack(">q", n), struct.pack(">i", i)) for n, i in rows] + [(None, None)]
    back = there.select(column_codecs.long("l"), column_codecs.integer("i"))
    assert [tuple(row) for row in back.collect()] == [*rows, (None, None)]


def test_bytes_of_another_length_are_no_number(spark: Any) -> None:
    frame = spark.createDataFrame([(bytes(n),) for n in (0, 3, 4, 5, 8, 9)], "value binary")
    found = frame.select(column_codecs.long("value"), column_codecs.integer("value")).collect()
    assert [row[0] for row in found] == [None, None, None, None, 0, None]
    assert [row[1] for row in found] == [None, None, 0, None, None, None]


def test_text_and_json_go_there_and_back(spark: Any) -> None:
    frame = spark.createDataFrame([("Vltava ≈ Моль", 3), (None, None)], "s string, n int")
    there = frame.select(
        column_codecs.to_string("s").alias("s"), column_codecs.to_json("s", "n").alias("j")
    )
    first, second = there.collect()
    assert bytes(first.s) == "Vltava ≈ Моль".encode()
    assert json.loads(bytes(first.j)) == {"s": "Vltava ≈ Моль", "n": 3}
    assert second.s is None
    back = there.select(
        column_codecs.string("s"), column_codecs.json("j", "s string, n int").alias("j")
    )
    assert back.first()[0] == "Vltava ≈ Моль"
    assert tuple(back.first().j) == ("Vltava ≈ Моль", 3)
    broken = spark.createDataFrame([(b"{no json",)], "value binary")
    assert broken.select(column_codecs.json("value", "array<int>")).first()[0] is None


def payments() -> list[tuple[Any, ...]]:
    at = datetime(2026, 2, 3, 4, 5, 6, 789_000)
    full = (1, Decimal("12.34"), date(2026, 2, 3), at, {"a": "x"}, [1, None, -3], "hello")
    return [full, (2, Decimal("-0.01"), date(1969, 12, 31), at, {}, [], None)]


def test_a_stream_reads_and_writes_avro_whose_schemas_are_in_the_registry(
    spark: Any, bootstrap: str, fresh_name: Name, tmp_path: Path, served: SchemaRegistry
) -> None:
    from pyspark.sql import functions as F

    source, target = (make_topic(bootstrap, fresh_name(stem)) for stem in ("in", "out"))
    served.add(f"{source}-value", PAYMENT)
    schema = avro.from_avro("value", served.address, topic=source)
    encoded = avro.encode_all(
        [
            {**dict(zip(FIELDS, row, strict=True)), "at": row[3].replace(tzinfo=UTC)}
            for row in payments()
        ],
        1, json.dumps(PAYMENT), "",
    )  # fmt: skip
    send(bootstrap, source, [("p1", encoded[0]), ("p2", encoded[1]), ("p3", None)])
    k = Kafka(spark, bootstrap)
    rows = k.batch(source).select(schema.alias("p")).where("p is not null").select("p.*")
    assert [tuple(row) for row in rows.orderBy("id").collect()] == payments()
    streamed = k.stream(source, startingOffsets="earliest").select("key", schema.alias("p"))
    value = avro.to_avro("p", served.address, topic=target, schema=json.dumps(PAYMENT))
    key = avro.to_avro(
        F.col("key").cast("string"), served.address, topic=target, schema='"string"', is_key=True
    )
    query = k.to(
        streamed,
        target,
        key=key,
        value=value,
        app=fresh_name("app"),
        checkpoint=str(tmp_path / "checkpoint"),
        trigger="available_now",
    )
    assert query.awaitTermination(120)
    assert served.subjects[f"{target}-value"] == [1]
    assert served.subjects[f"{target}-key"] == [2]
    written = [(r.key, r.value) for r in read_committed(bootstrap, target)]
    assert written == [
        (b"\0\0\0\0\2\4p1", encoded[0]),
        (b"\0\0\0\0\2\4p2", encoded[1]),
        (b"\0\0\0\0\2\4p3", None),
    ]


def test_rows_without_a_schema_get_one_of_their_type_and_wrong_values_end_the_query(
    spark: Any, served: SchemaRegistry
) -> None:
    from pyspark.errors import PythonException
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(
        [(7, [("x", 0.5)])], "n int, items array<struct<name: string, share: double>>"
    )
    row = F.struct("n", "items")
    made = avro.to_avro(row, served.address, topic="made", schema=frame.schema)
    back = avro.from_avro("value", served.address, topic="made")
    found = frame.select(made.alias("value")).select(back.alias("p")).select("p.*")
    assert found.collect() == frame.collect()
    broken = spark.createDataFrame([(b"rubbish",)], "value binary")
    with pytest.raises(PythonException, match="A value of 7 bytes is no Avro"):
        broken.select(back).collect()
    lenient = avro.from_avro("value", served.address, topic="made", malformed="null")
    assert broken.select(lenient).first()[0] is None


def test_avro_without_what_it_needs_is_refused_before_a_query(served: SchemaRegistry) -> None:
    with pytest.raises(AvroError, match="needs the topic"):
        avro.from_avro("value", served.address)
    with pytest.raises(AvroError, match="malformed cannot be 'skip'"):
        avro.from_avro("value", served.address, topic="t", malformed="skip")
