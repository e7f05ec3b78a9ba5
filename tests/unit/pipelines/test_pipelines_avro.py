"""Avro's wire format in the hands of a task: bytes to values and back, and schemas to types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import types as T

from moldau.client.serialization.schema_registry import RegistryError
from moldau.pipelines.formats.avro import _spark_type, decode_all, encode_all
from moldau.pipelines.formats.avro_schema import AvroError, avro_schema
from tests.support.schema_registry import SchemaRegistry

USER = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}],
}
USER_NOW = {
    **USER,
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": "long"},
        {"name": "town", "type": ["null", "string"], "default": None},
    ],
}
# By the specification: the length 3 and its letters, then 21, both zigzag.
BOB_21 = b"\x06bob\x2a"


@pytest.fixture
def served() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


def test_bytes_are_a_zero_the_schemas_number_and_avros_binary_form() -> None:
    made = encode_all([{"name": "bob", "age": 21}, None], 258, json.dumps(USER), "users-value")
    assert made == [b"\0\0\0\1\2" + BOB_21, None]


def test_records_of_older_and_newer_writers_are_read_into_one_schema(
    served: SchemaRegistry,
) -> None:
    old = served.add("users-value", USER).to_bytes(4)
    new = served.add("users-value", USER_NOW).to_bytes(4)
    values = [b"\0" + old + BOB_21, None, b"\0" + new + BOB_21 + b"\2\4Li"]
    into_new = decode_all(values, served.address, json.dumps(USER_NOW))
    assert into_new == [
        {"name": "bob", "age": 21, "town": None},
        None,
        {"name": "bob", "age": 21, "town": "Li"},
    ]
    assert served.requests.count("GET /schemas/ids/1") == 1
    with pytest.raises(AvroError, match="Schema 2 of a record cannot be read into the schema"):
        decode_all(values, served.address, json.dumps(USER))


@pytest.mark.parametrize(
    "value",
    [b"", b"\0\0\0", b"\1\0\0\0\1\x06bob\x2a", b"\0\0\0\0\1\x06bo", b"\0\0\0\0\1\x06\xff\xff\xff"],
)
def test_what_is_no_avro_is_told_or_is_null_as_asked(served: SchemaRegistry, value: bytes) -> None:
    served.add("users-value", USER)
    text = json.dumps(USER)
    with pytest.raises(AvroError, match=f"A value of {len(value)} bytes is no Avro") as fault:
        decode_all([value], served.address, text)
    assert "\n" not in str(fault.value)
    assert decode_all([value], served.address, text, skips_malformed=True) == [None]


def test_a_schema_that_is_not_registered_is_no_malformed_value(served: SchemaRegistry) -> None:
    with pytest.raises(RegistryError, match="has no schema 9"):
        decode_all([b"\0\0\0\0\x09x"], served.address, '"int"', skips_malformed=True)


def test_a_row_that_does_not_fit_names_the_subject() -> None:
    with pytest.raises(AvroError, match="does not fit schema 3 of subject users-value"):
        encode_all([{"name": "bob", "age": "old"}], 3, json.dumps(USER), "users-value")


def test_types_of_avro_have_their_types_of_spark() -> None:
    named = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
    fields: list[tuple[Any, str]] = [
        ("boolean", "boolean"),
        ("bytes", "binary"),
        (["null", "double"], "double"),
        (["int", "null", "long"], "bigint"),
        (named, "string"),
        ("shop.Colour", "string"),
        ({"type": "fixed", "name": "Hash", "size": 4}, "binary"),
        ({"type": "array", "items": "Hash"}, "array<binary>"),
        ({"type": "map", "values": ["null", "float"]}, "map<string,float>"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp_ntz"),
        ({"type": "long", "logicalType": "time-micros"}, "bigint"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "decimal(9,2)",
        ),
    ]
    schema = {
        "type": "record",
        "name": "All",
        "namespace": "shop",
        "fields": [{"name": f"f{n}", "type": kind} for n, (kind, _) in enumerate(fields)],
    }
    found = _spark_type(json.dumps(schema))
    assert isinstance(found, T.StructType)
    assert [each.dataType.simpleString() for each in found] == [kind for _, kind in fields]


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ('["int", "string"]', "one type, and this Avro union has 2"),
        ('{"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}',
         "The record N contains itself"),
        ('"Nobody"', "The Avro schema is wrong"),
        ('{"type": "array"}', "The Avro schema is wrong"),
        ("{", "is no JSON"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 50}', "50 digits"),
    ],
)  # fmt: skip
def test_a_schema_that_is_no_column_is_refused_in_one_sentence(schema: str, sentence: str) -> None:
    with pytest.raises(AvroError, match=sentence) as fault:
        _spark_type(schema)
    assert "\n" not in str(fault.value)


def test_the_schema_made_of_a_type_comes_back_as_that_type() -> None:
    inner = T.StructType().add("x", T.DoubleType()).add("y", T.BinaryType())
    kinds: list[T.DataType] = [
        T.LongType(), T.BooleanType(), T.FloatType(), T.DateType(), T.TimestampType(),
        T.TimestampNTZType(), T.DecimalType(9, 2), T.ArrayType(T.StringType()),
        T.MapType(T.StringType(), T.IntegerType()), inner, T.ArrayType(inner),
    ]  # fmt: skip
    kind = T.StructType([T.StructField(f"f{n}", each) for n, each in enumerate(kinds)])
    made = json.dumps(avro_schema(kind, "row"))
    assert _spark_type(made).simpleString() == kind.simpleString()
    with pytest.raises(AvroError, match="no Avro type for interval"):
        avro_schema(T.DayTimeIntervalType(), "row")
