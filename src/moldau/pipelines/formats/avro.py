"""Avro in the wire format of Confluent's serializers, with the schemas in a registry.

    order = avro.from_avro("value", "http://127.0.0.1:8081", topic="orders")
    rows = k.stream("orders").select(order.alias("order")).select("order.*")
    value = avro.to_avro(F.struct("id", "amount"), REGISTRY, topic="paid", schema=SCHEMA)

A value is a zero, the schema's number in four bytes, and Avro's binary form. What records were
written with is looked up by number where they are read; all are read into one schema, so that
writers may move on while a query runs. Values pass in whole Arrow batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import DecimalException
from functools import lru_cache
from io import BytesIO
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any

# Spark reads the type hints of the functions below, to know what they take.
import pyarrow

from moldau.client.serialization.schema_registry import registry_at, subject_of
from moldau.pipelines.formats.avro_schema import AvroError, avro_schema, parse, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    from moldau.pipelines.formats.column_codecs import ColumnOrName

MAGIC = 0
PREFIX = Struct(">bI")
SCHEMAS_MAX = 1_000
"""How many parsed schemas a process keeps."""
MALFORMED = ("fail", "null")
UNREADABLE = (
    ValueError, TypeError, LookupError, EOFError, OverflowError, StopIteration, StructError,
    DecimalException,
)  # fmt: skip
"""What bytes that do not fit a schema come to."""


def from_avro(
    column: ColumnOrName,
    registry: str,
    *,
    topic: str | None = None,
    schema: str | None = None,
    is_key: bool = False,
    malformed: str = "fail",
) -> Column:
    """Bytes as columns. They are read into `schema`, Avro's JSON, or into the latest one of the
    topic's subject. A value that is no such Avro ends the query, or is null (`malformed`)."""
    _fastavro()
    if malformed not in MALFORMED:
        raise AvroError(f"malformed cannot be {malformed!r}: use {' or '.join(MALFORMED)}")
    if schema is None and topic is None:
        raise AvroError("from_avro() needs the topic, to ask for its schema, or a schema to read")
    text = schema
    if text is None:
        text = registry_at(registry).latest(subject_of(str(topic), is_key=is_key)).text
    kind = _spark_type(text)
    read = _reader(registry, text, kind, malformed == "null")
    return _per_batch(read, kind, column)


def to_avro(
    column: ColumnOrName,
    registry: str,
    *,
    topic: str,
    schema: str | DataType,
    is_key: bool = False,
) -> Column:
    """A column as bytes. The schema (Avro's JSON, or the column's type, of which one is made) is
    registered at once under the topic's subject."""
    _fastavro()
    subject = subject_of(topic, is_key=is_key)
    if isinstance(schema, str):
        text = schema
    else:
        name = "".join(each if each.isalnum() else "_" for each in subject)
        text = json.dumps(avro_schema(schema, name if name[0].isalpha() else f"_{name}"))
    _parsed(text)
    schema_id = registry_at(registry).register(subject, text)
    write = _writer(schema_id, text, subject)
    return _per_batch(write, "binary", column)


def decode_all(
    values: list[bytes | None], registry: str, text: str, *, skips_malformed: bool = False
) -> list[Any]:
    """What `from_avro` does with a batch, in the task."""
    from fastavro import schemaless_reader
    from fastavro.read import SchemaResolutionError

    into = _parsed(text)
    found: list[Any] = []
    written: Any = None
    written_id = -1  # Neighbours mostly have one schema.
    for value in values:
        if value is None:
            found.append(None)
            continue
        try:
            magic, schema_id = PREFIX.unpack_from(value)
            if magic != MAGIC:
                raise ValueError(f"it begins with {magic}, not with {MAGIC}")
            if schema_id != written_id:
                written = _parsed(registry_at(registry).schema(schema_id))
                written_id = schema_id
            body = BytesIO(value)
            body.seek(PREFIX.size)
            found.append(schemaless_reader(body, written, into))
        except SchemaResolutionError as fault:
            raise AvroError(
                f"Schema {schema_id} of a record cannot be read into the schema asked for "
                f"({_words(fault)}): give a schema that goes with it"
            ) from None
        except UNREADABLE as fault:
            if not skips_malformed:
                raise AvroError(_unreadable(value, fault)) from None
            found.append(None)
    return found


def encode_all(rows: list[Any], schema_id: int, text: str, subject: str) -> list[bytes | None]:
    """What `to_avro` does with a batch, in the task."""
    from fastavro import schemaless_writer

    schema, prefix = _parsed(text), PREFIX.pack(MAGIC, schema_id)
    made: list[bytes | None] = []
    for row in rows:
        if row is None:
            made.append(None)
            continue
        body = BytesIO()
        body.write(prefix)
        try:
            schemaless_writer(body, schema, row)
        except UNREADABLE as fault:
            raise AvroError(
                f"A row does not fit schema {schema_id} of subject {subject}: {_words(fault)}"
            ) from None
        made.append(body.getvalue())
    return made


def _per_batch(
    function: Callable[[pyarrow.Array], pyarrow.Array], kind: DataType | str, column: ColumnOrName
) -> Column:
    from pyspark.sql.pandas.functions import arrow_udf

    make: Any = arrow_udf  # Its stubs do not know that hints are enough.
    made: Column = make(function, kind)(column)
    return made


def _reader(
    registry: str, text: str, kind: DataType, skips_malformed: bool
) -> Callable[[pyarrow.Array], pyarrow.Array]:
    def read(values: pyarrow.Array) -> pyarrow.Array:
        from pyspark.sql.pandas.types import to_arrow_type

        rows = decode_all(values.to_pylist(), registry, text, skips_malformed=skips_malformed)
        return pyarrow.array(rows, type=to_arrow_type(kind, timezone="UTC"))

    return read


def _writer(schema_id: int, text: str, subject: str) -> Callable[[pyarrow.Array], pyarrow.Array]:
    def write(rows: pyarrow.Array) -> pyarrow.Array:
        values = rows.to_pylist(maps_as_pydicts="strict")
        return pyarrow.array(encode_all(values, schema_id, text, subject), pyarrow.binary())

    return write


@lru_cache(maxsize=SCHEMAS_MAX)
def _parsed(text: str) -> Any:
    """What fastavro makes of a schema."""
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        return parse_schema(parse(text))
    except (SchemaParseException, UnknownType, *UNREADABLE) as fault:
        raise AvroError(f"The Avro schema is wrong ({_words(fault)}): {text[:100]}") from None


def _spark_type(text: str) -> DataType:
    from fastavro.schema import expand_schema

    return spark_type(expand_schema(_parsed(text)))


def _fastavro() -> None:
    try:
        import fastavro  # noqa: F401
    except ImportError:
        raise AvroError(
            "Avro needs fastavro: install it with pip install 'moldau[spark]'"
        ) from None


def _unreadable(value: bytes, fault: BaseException) -> str:
    return (
        f"A value of {len(value)} bytes is no Avro with a schema's number ({_words(fault)}): it "
        f"begins with {value[:8].hex(' ') or 'nothing'}; malformed='null' makes such values null"
    )


def _words(fault: BaseException) -> str:
    return " ".join(str(fault).split())[:200] or type(fault).__name__
