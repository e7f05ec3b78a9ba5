"""Columns of bytes become typed columns, and what cannot be read is named."""

from __future__ import annotations

import io
import struct
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from moldau.tables import Avro, Json, Number, Protobuf, TableError, Text

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": {"type": "array", "items": "int"}},
    ],
}


def place(row: int) -> str:
    return f"row {row}"


def read(given: Any, values: list[bytes | None]) -> list[dict[str, Any]]:
    names = [field.name or "value" for field in given.fields()]
    arrays = given.decode(pa.array(values, pa.binary()), place)
    for field, array in zip(given.fields(), arrays, strict=True):
        assert array.type == field.type
    return pa.table(dict(zip(names, arrays, strict=True))).to_pylist()


def test_json_gives_the_named_columns_and_leaves_the_rest_out() -> None:
    schema = Json({"id": "int64", "amount": "float64", "tags": pa.list_(pa.string())})
    values = [b'{"id":1,"amount":2.5,"more":{}}', None, b'{"tags":["a"],\n "id":3}']
    assert read(schema, values) == [
        {"id": 1, "amount": 2.5, "tags": None},
        {"id": None, "amount": None, "tags": None},
        {"id": 3, "amount": None, "tags": ["a"]},
    ]
    assert read(schema, []) == []


@pytest.mark.parametrize("bad", [b"no json", b"", b'{"id":"x"}', b'{"id":1}{"id":2}', b"[1]"])
def test_a_value_that_is_no_such_json_is_named_or_null(bad: bytes) -> None:
    values = [b'{"id":1}', bad, b'{"id":2}']
    with pytest.raises(TableError, match=r"row 1 does not fit the schema as JSON"):
        read(Json({"id": "int64"}), values)
    rows = read(Json({"id": "int64"}, malformed="null"), values)
    assert rows == [{"id": 1}, {"id": None}, {"id": 2}]


def test_text_and_numbers_are_columns_of_their_own() -> None:
    assert read(Text(), [b"a", None, "ü".encode()]) == [
        {"value": "a"},
        {"value": None},
        {"value": "ü"},
    ]
    packed = [struct.pack(">q", -7), None, struct.pack(">q", 1 << 40)]
    assert read(Number(), packed) == [{"value": -7}, {"value": None}, {"value": 1 << 40}]
    with pytest.raises(TableError, match="row 0 is no UTF-8"):
        read(Text(), [b"\xff"])
    with pytest.raises(TableError, match="row 1 has 1 bytes, and int32 has 4"):
        read(Number("int32"), [bytes(4), b"x"])
    assert read(Number("int32", malformed="null"), [b"x", bytes(4)]) == [
        {"value": None},
        {"value": 0},
    ]


def avro(**row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"note": None, "lines": [], **row})
    return out.getvalue()


def test_avro_is_read_by_its_schema() -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    values = [avro(id=1, at=at, lines=[1, 2]), None, avro(id=2, at=at, note="x")]
    assert read(Avro(AVRO), values) == [
        {"id": 1, "note": None, "at": at, "lines": [1, 2]},
        {"id": None, "note": None, "at": None, "lines": None},
        {"id": 2, "note": "x", "at": at, "lines": []},
    ]


def test_a_value_that_is_no_such_avro_is_named_or_null() -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    values = [avro(id=1, at=at), b"\xff", avro(id=2, at=at) + b"x"]
    with pytest.raises(TableError, match="row 1 does not fit its schema"):
        read(Avro(AVRO), values)
    ids = [row["id"] for row in read(Avro(AVRO, malformed="null"), values)]
    assert ids[:2] == [1, None]


def message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="t", syntax="proto3")
    order = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    order.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=1)
    order.field.add(name="note", number=2, type=kinds.TYPE_STRING, label=1)
    order.field.add(name="lines", number=3, type=kinds.TYPE_INT32, label=3)
    line = file.message_type.add(name="Line")
    line.field.add(name="text", number=1, type=kinds.TYPE_STRING, label=1)
    order.field.add(name="line", number=4, type=kinds.TYPE_MESSAGE, label=1, type_name=".t.Line")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Order"))


def test_protobuf_is_read_by_its_class() -> None:
    order = message_class()
    one = order(id=1, note="x", lines=[1, 2])
    one.line.text = "first"
    values = [one.SerializeToString(), None, order(id=2).SerializeToString()]
    wanted = [
        {"id": 1, "note": "x", "lines": [1, 2], "line": {"text": "first"}},
        {"id": None, "note": None, "lines": None, "line": None},
        {"id": 2, "note": "", "lines": [], "line": None},
    ]
    assert read(Protobuf(order), values) == wanted
    framed = [b"\0\0\0\0\7\0" + each if each is not None else None for each in values]
    framed[2] = b"\0\0\0\0\7\2\0" + (values[2] or b"")
    assert read(Protobuf(order, framed=True), framed) == wanted
    with pytest.raises(TableError, match=r"row 0 is no t\.Order"):
        read(Protobuf(order), [b"\xff"])
