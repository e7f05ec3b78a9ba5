"""Topics as tables on a real broker: what every way out of a table gives is what was written."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import moldau
import moldau.testing
from moldau.model.names import TopicPartition
from moldau.tables import Json, TableError, Text, TopicTable, range_scan
from moldau.testing.local_broker import LocalBroker

ROWS = 3_000
BASE_MS = 1_700_000_000_000
SETTINGS = {"log.segment.bytes": "1048576", "log.cleaner.enable": "false", "log.retention.ms": "-1"}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with moldau.testing.broker(SETTINGS, with_faults=False) as broker:
        broker.create_topic("orders", partitions=3)
        broker.create_topic("customers", partitions=1)
        producer = broker.producer({"linger.ms": 5, "compression.type": "lz4"})
        for number in range(ROWS):
            producer.send(
                "orders",
                order(number),
                b"%d" % (number % 50),
                partition=number % 3,
                timestamp_ms=BASE_MS + number * 1_000,
                headers=[("source", b"web")] if number % 7 == 0 else (),
            )
        for number in range(100):
            producer.send("customers", b"name %d" % number, b"%d" % (number % 10))
        producer.send("customers", None, b"3")
        producer.flush()
        yield broker


def order(number: int) -> bytes:
    return json.dumps({"id": number, "amount": number / 4}).encode()


def orders(broker: LocalBroker, **options: Any) -> TopicTable:
    return moldau.table("orders", bootstrap=broker.bootstrap, **options)


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by(
        [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    )


def test_a_table_has_every_record_with_all_that_is_in_it(broker: LocalBroker) -> None:
    rows = in_order(orders(broker).arrow()).to_pylist()
    assert len(rows) == ROWS
    for row in rows:
        number = row["offset"] * 3 + row["partition"]
        assert row == {
            "topic": "orders",
            "partition": number % 3,
            "offset": number // 3,
            "timestamp": datetime.fromtimestamp(BASE_MS / 1000 + number, UTC),
            "timestamp_type": 0,
            "key": b"%d" % (number % 50),
            "value": order(number),
            "headers": [{"key": "source", "value": b"web"}] if number % 7 == 0 else [],
        }


def test_duckdb_polars_and_pandas_see_the_same_frame(broker: LocalBroker) -> None:
    table = orders(broker, key=Text(), value=Json({"id": "int64", "amount": "float64"}))
    wanted = in_order(table.arrow())
    names = list(wanted.column_names)
    by_polars = in_order(table.to_polars().to_arrow().cast(wanted.schema))
    assert by_polars.equals(wanted)
    by_pandas = pa.Table.from_pandas(table.to_pandas(), wanted.schema, preserve_index=False)
    assert in_order(by_pandas).equals(wanted)
    relation = table.to_duckdb()
    assert relation.columns == names
    found = in_order(relation.to_arrow_table().cast(wanted.schema))
    assert found.to_pylist() == wanted.to_pylist()
    assert sum(batch.num_rows for batch in table.batches()) == ROWS


def test_only_what_a_filter_leaves_is_read(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    plain = range_scan.RangeReader

    def counted(client: Any, part: Any, topic_id: bytes) -> Any:
        read.append(part)
        return plain(client, part, topic_id)

    monkeypatch.setattr(range_scan, "RangeReader", counted)
    connection = duckdb.connect()
    connection.register("orders", orders(broker).dataset())
    query = 'select count(*) from orders where partition = 1 and "offset" between 10 and 19'
    assert connection.sql(query).fetchall() == [(10,)]
    assert read == [(TopicPartition("orders", 1), 10, 20)]

    read.clear()
    since = datetime.fromtimestamp(BASE_MS / 1000 + 2_990, UTC)
    table = orders(broker).filter(ds.field("timestamp") >= pa.scalar(since)).select("offset")
    assert table.arrow().num_rows == 10
    assert sum(end - start for _, start, end in read) == 10

    read.clear()
    lazy = polars.scan_pyarrow_dataset(orders(broker).dataset())
    assert lazy.filter(polars.col("partition") == 2).select(polars.len()).collect().item() == 1_000
    assert {part.tp.partition for part in read} == {2}

    read.clear()
    assert orders(broker).filter(pc.field("topic") == "customers").arrow().num_rows == 0
    assert read == []


def test_a_table_is_as_of_a_time_or_of_offsets(broker: LocalBroker) -> None:
    moment = datetime.fromtimestamp(BASE_MS / 1000 + 1_499, UTC)
    for given in (moment, moment.isoformat(), round(moment.timestamp() * 1000)):
        assert orders(broker, as_of=given).arrow().num_rows == 1_500
    vector = orders(broker, as_of=moment).offsets()
    assert vector == {("orders", 0): 500, ("orders", 1): 500, ("orders", 2): 500}
    assert orders(broker).as_of(vector).arrow().num_rows == 1_500
    assert orders(broker, as_of={0: 7, 1: 0, 2: 1}).arrow().num_rows == 8
    with pytest.raises(TableError, match=r"no offset for orders-1, which now ends at 1000"):
        orders(broker, as_of={0: 7, 2: 1}).arrow()
    with pytest.raises(TableError, match=r"offset 1001 of orders-0, which holds offsets 0 to 1000"):
        orders(broker, as_of={0: 1_001, 1: 0, 2: 1}).arrow()


def test_the_latest_state_has_one_row_for_each_living_key(broker: LocalBroker) -> None:
    customers = moldau.table(
        "customers", bootstrap=broker.bootstrap, latest=True, key=Text(), value=Text()
    )
    rows = customers.select("key", "value").arrow().to_pylist()
    wanted = {str(key): f"name {90 + key}" for key in range(10) if key != 3}
    assert {row["key"]: row["value"] for row in rows} == wanted
    assert len(rows) == len(wanted)
    # A later record outside of the filter still takes the place of those inside.
    early = customers.filter(ds.field("offset") < 95).arrow()
    assert sorted(early["key"].to_pylist()) == ["0", "1", "2", "4"]
    before = customers.as_of({0: 95}).arrow()
    assert before.num_rows == 10


def test_what_was_aborted_never_comes_back_and_an_open_transaction_ends_the_table(
    broker: LocalBroker,
) -> None:
    broker.create_topic("paid", partitions=1)
    producer = broker.producer({"transactional.id": "tables"})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        producer.send("paid", b"%d" % number)
        producer.flush()
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.begin_transaction()
    producer.send("paid", b"open")
    producer.flush()

    def values(**options: Any) -> list[Any]:
        table = moldau.table("paid", bootstrap=broker.bootstrap, **options)
        return table.select("value").arrow()["value"].to_pylist()

    deadline = time.monotonic() + 60
    while values() != [b"0", b"2", b"4"]:
        # The marker of the last commit may be on its way.
        assert time.monotonic() < deadline, values()
        time.sleep(0.1)
    everything = values(settings={"isolation.level": "read_uncommitted"})
    assert everything == [b"0", b"1", b"2", b"3", b"4", b"5", b"open"]
    producer.abort_transaction()
    assert values() == [b"0", b"2", b"4"]


def test_mistakes_are_told_in_a_sentence(broker: LocalBroker) -> None:
    with pytest.raises(TableError, match=r"There is no topic ordres .*; did you mean orders\?"):
        moldau.table("ordres", bootstrap=broker.bootstrap).arrow()
    with pytest.raises(TableError, match=r"The setting isolation\.level cannot be 'none'"):
        orders(broker, settings={"isolation.level": "none"})
    with pytest.raises(TableError, match="There is no column amount: the columns are topic,"):
        orders(broker).select("amount")
    with pytest.raises(TableError, match="as_of cannot be 'noon'"):
        orders(broker, as_of="noon")
    with pytest.raises(TableError, match=r"The value of orders-\d at offset 0 does not fit"):
        orders(broker, value=Json({"id": "bool"})).arrow()
    with pytest.raises(TableError, match="Two columns would be named value_key"):
        orders(broker, value=Json({"key": "string", "value_key": "string"}))


def test_records_that_go_while_they_are_read_are_told(broker: LocalBroker) -> None:
    broker.create_topic("short", partitions=1)
    producer = broker.producer()
    producer.send_many("short", [b"x"] * 10)
    producer.flush()
    table = moldau.table("short", bootstrap=broker.bootstrap)
    reader = table.scanned(["offset"], None)
    broker.admin().delete_records({("short", 0): 10})
    with pytest.raises(TableError, match=r"Offset 0 of short-0 is out of range.*: ask again"):
        reader.read_all()
