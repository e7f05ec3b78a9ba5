"""Avro's schemas and Spark's types: what a column becomes, and the schema of a column.

Unions of null and one other type are columns that may be null; int with long, and float with
double, become the wider. Logical types that Spark has are kept (dates, timestamps, decimals); of
the rest the plain value is taken.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import types as T

PLAIN: dict[str, T.DataType] = {
    "null": T.NullType(),
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "fixed": T.BinaryType(),
    "string": T.StringType(),
    "enum": T.StringType(),
}
LOGICAL: dict[tuple[str, str], T.DataType] = {
    ("int", "date"): T.DateType(),
    ("long", "timestamp-millis"): T.TimestampType(),
    ("long", "timestamp-micros"): T.TimestampType(),
    ("long", "local-timestamp-millis"): T.TimestampNTZType(),
    ("long", "local-timestamp-micros"): T.TimestampNTZType(),
}
WIDER = (({"int", "long"}, "long"), ({"float", "double"}, "double"))
DECIMAL_DIGITS_MAX = 38

Schema = Any
"""What JSON makes of a schema: text, a list (a union) or an object."""


class AvroError(Exception):
    """What a user can mend, in one sentence."""


def parse(text: str) -> Schema:
    """The schema, with the logical types alone that Spark has."""
    try:
        found = json.loads(text)
    except ValueError as fault:
        raise AvroError(f"The Avro schema is no JSON ({fault}): {text[:100]}") from None
    return _kept(found)


def spark_type(schema: Schema) -> T.DataType:
    """What values of this schema are in Spark, where everything may be null. Types that have a
    name must be written out where they are used."""
    if isinstance(schema, list):
        return _union(schema)
    if isinstance(schema, str):
        if schema in PLAIN:
            return PLAIN[schema]
        raise AvroError(f"The record {schema} contains itself, which a column of Spark cannot")
    kind = schema["type"]
    if not isinstance(kind, str):
        return spark_type(kind)
    if kind in ("record", "error"):
        return T.StructType(
            [T.StructField(each["name"], spark_type(each["type"])) for each in schema["fields"]]
        )
    if kind == "array":
        return T.ArrayType(spark_type(schema["items"]))
    if kind == "map":
        return T.MapType(T.StringType(), spark_type(schema["values"]))
    if schema.get("logicalType") == "decimal":
        return _decimal(schema)
    return LOGICAL.get((kind, str(schema.get("logicalType")))) or spark_type(kind)


def avro_schema(kind: T.DataType, name: str) -> Schema:
    """The schema of a column, for those who have none; all of its fields may be null."""
    if isinstance(kind, T.StructType):
        fields = [
            {
                "name": field.name,
                "type": ["null", avro_schema(field.dataType, f"{name}_{field.name}")],
                "default": None,
            }
            for field in kind.fields
        ]
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(kind, T.ArrayType):
        return {"type": "array", "items": ["null", avro_schema(kind.elementType, f"{name}_item")]}
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        return {"type": "map", "values": ["null", avro_schema(kind.valueType, f"{name}_value")]}
    if isinstance(kind, T.DecimalType):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if isinstance(kind, T.TimestampType):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if isinstance(kind, T.TimestampNTZType):
        return {"type": "long", "logicalType": "local-timestamp-micros"}
    if isinstance(kind, T.DateType):
        return {"type": "int", "logicalType": "date"}
    if isinstance(kind, T.ShortType | T.ByteType):
        return "int"
    for word, plain in PLAIN.items():
        if word not in ("null", "fixed", "enum") and isinstance(kind, type(plain)):
            return word
    raise AvroError(f"There is no Avro type for {kind.simpleString()}: cast the column first")


def _kept(schema: Schema) -> Schema:
    if isinstance(schema, list):
        return [_kept(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _kept_part(name, value) for name, value in schema.items()}
    logical = schema.get("logicalType")
    kind = schema.get("type")
    is_known = isinstance(kind, str) and (kind, str(logical)) in LOGICAL
    if logical is not None and logical != "decimal" and not is_known:
        del kept["logicalType"]
    return kept


def _kept_part(name: str, value: Any) -> Any:
    if name == "fields" and isinstance(value, list):
        return [
            {**field, "type": _kept(field["type"])}
            if isinstance(field, dict) and "type" in field
            else field
            for field in value
        ]
    return _kept(value) if name in ("type", "items", "values") else value


def _decimal(schema: Schema) -> T.DataType:
    digits = schema.get("precision")
    if not isinstance(digits, int) or not 0 < digits <= DECIMAL_DIGITS_MAX:
        raise AvroError(
            f"A decimal of {digits} digits does not fit into Spark, which has {DECIMAL_DIGITS_MAX}"
        )
    return T.DecimalType(digits, schema.get("scale", 0))


def _union(schema: list[Schema]) -> T.DataType:
    rest = [each for each in schema if each != "null"]
    if not rest:
        return T.NullType()
    if len(rest) == 1:
        return spark_type(rest[0])
    for kinds, wider in WIDER:
        if all(isinstance(each, str) for each in rest) and set(rest) == kinds:
            return PLAIN[wider]
    raise AvroError(
        f"A column of Spark has one type, and this Avro union has {len(rest)}: "
        f"{json.dumps(rest)[:100]}; give a reader's schema with one of them"
    )
