"""A table in Spark has the rows that it has everywhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import moldau
from moldau import Admin, NewTopic, Producer
from moldau.tables import Json, Text, TopicTable


@pytest.fixture
def topic(bootstrap: str, fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("tables")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions=2)]).check()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(60):
            value = None if number % 11 == 10 else json.dumps({"id": number, "amount": number / 4})
            headers = [("source", b"web"), ("none", None)] if number % 5 == 0 else ()
            producer.send(name, value, f"k{number % 7}", headers, partition=number % 2)
        producer.flush()
    return name


def in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by([("partition", "ascending"), ("offset", "ascending")])


def same(table: TopicTable, spark: Any) -> int:
    """How many rows both have."""
    here = in_order(table.arrow())
    there = in_order(table.spark(spark).toArrow())
    assert there.column_names == here.column_names
    for name in here.column_names:
        left, right = here[name].to_pylist(), there[name].to_pylist()
        if name == "timestamp":
            right = [each.astimezone(UTC) for each in right]
        assert left == right, name
    return here.num_rows


def test_spark_has_the_same_frame(bootstrap: str, topic: str, spark: Any) -> None:
    plain = moldau.table(topic, bootstrap=bootstrap)
    assert same(plain, spark) == 60
    assert same(plain.filter((pc.field("partition") == 1) & (pc.field("offset") < 9)), spark) == 9
    assert same(plain.as_of({0: 5, 1: 0}), spark) == 5
    columns = Json({"id": "int64", "amount": "float64"})
    typed = moldau.table(topic, bootstrap=bootstrap, key=Text(), value=columns)
    assert same(typed, spark) == 60
    assert same(typed.filter(pc.field("amount") > 10), spark) == 17
    newest = moldau.table(topic, bootstrap=bootstrap, key=Text(), value=columns, latest=True)
    assert 0 < same(newest, spark) < 14
