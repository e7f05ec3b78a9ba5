"""Bytes of Kafka to columns of Spark and back: text, numbers as Java's serdes, JSON.

    words = lines.select(codecs.string("value").alias("line"))
    counts = changes.select(codecs.long("value").alias("count"))

All of it runs inside Spark; no Python is called per row. Avro is in `avro.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

    ColumnOrName = Column | str

_TEXT_LIKE = ("date", "timestamp", "timestamp_ntz", "decimal", "interval", "char", "varchar")
_NESTED = ("struct", "array", "map")


def string(column: ColumnOrName) -> Column:
    """Bytes as text, the form of StringSerializer."""
    return _column(column).cast("string")


def to_string(column: ColumnOrName) -> Column:
    return _column(column).cast("string").cast("binary")


def long(column: ColumnOrName) -> Column:
    """Eight bytes as a number, the form of LongSerializer; null where there are not eight."""
    return _number(column, 8, "bigint")


def to_long(column: ColumnOrName) -> Column:
    # hex of a number has no leading zeros, and of a negative one all of its digits.
    return F.unhex(F.lpad(F.hex(_column(column).cast("bigint")), 16, "0"))


def integer(column: ColumnOrName) -> Column:
    """Four bytes as a number, the form of IntegerSerializer; null where there are not four."""
    unsigned = F.conv(F.hex(_column(column)), 16, 10).cast("bigint")
    signed = F.when(unsigned >= 1 << 31, unsigned - (1 << 32)).otherwise(unsigned)
    return F.when(F.octet_length(_column(column)) == 4, signed.cast("int"))


def to_integer(column: ColumnOrName) -> Column:
    digits = F.hex(_column(column).cast("int").cast("bigint"))
    return F.unhex(F.lpad(F.right(digits, F.lit(8)), 8, "0"))


def json(column: ColumnOrName, schema: StructType | DataType | str) -> Column:
    """Text of JSON as the columns that `schema` names; null where it is no JSON."""
    return F.from_json(string(column), schema)  # type: ignore[arg-type]


def to_json(*columns: ColumnOrName) -> Column:
    """Several columns as one JSON object; one column that is a struct, array or map as itself."""
    if len(columns) == 1:
        return F.to_json(_column(columns[0])).cast("binary")
    return F.to_json(F.struct(*[_column(each) for each in columns])).cast("binary")


def encoded(column: Column, kind: DataType) -> Column:
    """What `Kafka.to` makes of a column: nested ones become JSON, dates and decimals text; text,
    bytes and numbers are left to the writing task."""
    name = kind.typeName()
    if name in _NESTED:
        return F.to_json(column)
    if name.startswith(_TEXT_LIKE):
        return column.cast("string")
    return column


def _number(column: ColumnOrName, size_bytes: int, kind: str) -> Column:
    found = F.conv(F.hex(_column(column)), 16, -10).cast(kind)
    return F.when(F.octet_length(_column(column)) == size_bytes, found)


def _column(column: ColumnOrName) -> Column:
    return F.col(column) if isinstance(column, str) else column
