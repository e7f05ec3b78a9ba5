"""Avro: with a schema of its own, or with the schemas of a registry, as Confluent's serializers
write it: a zero, the schema's number in four bytes, and the record.

Neighbours mostly have one schema, and records of one schema are read as one block.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import TYPE_CHECKING, Any

from moldau.client.serialization.schema_registry import RegistryError, registry_at
from moldau.tables.table_faults import TableError, load
from moldau.tables.value_formats import Place, checked_malformed

if TYPE_CHECKING:
    import pyarrow

PREFIX_BYTES = 5
SYNC_BYTES = 16
_PRIMITIVES = {
    "null": "null", "boolean": "bool", "int": "int32", "long": "int64", "float": "float32",
    "double": "float64", "bytes": "binary", "string": "string", "enum": "string",
}  # fmt: skip


class Avro:
    """Records of Avro; their fields become columns."""

    def __init__(
        self,
        schema: str | dict[str, Any] | None = None,
        *,
        registry: str | None = None,
        subject: str | None = None,
        malformed: str = "fail",
    ) -> None:
        """`schema`: what records are read into. `registry`: where the schemas are that they were
        written with; `subject`: of which the latest schema is read into, if none is given."""
        self._avro = load("fastavro", "sql")
        self._faults = _faults_of(self._avro)
        self._registry = registry_at(registry) if registry else None
        if schema is None:
            if self._registry is None or subject is None:
                raise TableError("Avro needs a schema, or a registry and a subject that has one")
            try:
                schema = self._registry.latest(subject).text
            except RegistryError as fault:
                raise TableError(str(fault)) from None
        try:
            self._schema = json.loads(schema) if isinstance(schema, str) else schema
            self._into = self._avro.parse_schema(self._schema)
        except (ValueError, self._avro.schema.SchemaParseException) as fault:
            raise TableError(f"This is no schema of Avro: {fault}") from None
        if not isinstance(self._into, dict) or self._into.get("type") != "record":
            raise TableError("Avro needs the schema of a record")
        self._skips = checked_malformed(malformed)
        self._heads: dict[int, bytes] = {}
        """The head of a file for each schema that records were written with."""

    def fields(self) -> list[pyarrow.Field]:
        pa = load("pyarrow", "arrow")
        named: dict[str, Any] = {}
        return [
            pa.field(each["name"], _type(pa, each["type"], named)) for each in self._into["fields"]
        ]

    def decode(self, column: pyarrow.Array, place: Place) -> list[pyarrow.Array]:
        pa = load("pyarrow", "arrow")
        compute = load("pyarrow.compute", "arrow")
        rows: list[Any] = [None] * len(column)
        if self._registry is None:
            self._read(rows, 0, column, list(range(len(column))), 0, place)
        else:
            heads = compute.binary_slice(column, 0, PREFIX_BYTES).dictionary_encode()
            for number, head in enumerate(heads.dictionary.to_pylist()):
                chosen = compute.indices_nonzero(compute.equal(heads.indices, number))
                self._read_framed(rows, head, column.take(chosen), chosen.to_pylist(), place)
        return [
            pa.array([row and row.get(field.name) for row in rows], field.type)
            for field in self.fields()
        ]

    def _read_framed(
        self, rows: list[Any], head: bytes, column: Any, places: list[int], place: Place
    ) -> None:
        if len(head) < PREFIX_BYTES or head[0]:
            if self._skips:
                return
            raise TableError(
                f"{place(places[0])} does not begin as Avro with a schema's number does: leave the"
                " registry out, or have null in its place (malformed)"
            )
        self._read(rows, PREFIX_BYTES, column, places, int.from_bytes(head[1:], "big"), place)

    def _read(
        self,
        rows: list[Any],
        skipped: int,
        column: Any,
        places: list[int],
        schema_id: int,
        place: Place,
    ) -> None:
        compute = load("pyarrow.compute", "arrow")
        bodies = compute.binary_slice(column, skipped) if skipped else column
        living = compute.indices_nonzero(compute.is_valid(bodies)).to_pylist()
        contents = [each for each in bodies.to_pylist() if each is not None]
        head = self._head(schema_id)
        try:
            found = self._block(head, contents)
        except self._faults:
            found = self._each(head, contents, [places[row] for row in living], place)
        for row, value in zip(living, found, strict=True):
            rows[places[row]] = value

    def _block(self, head: bytes, contents: list[bytes]) -> list[Any]:
        whole = b"".join(contents)
        sync = head[-SYNC_BYTES:]
        block = b"".join((head, _varlong(len(contents)), _varlong(len(whole)), whole, sync))
        found = list(self._avro.reader(BytesIO(block), self._into)) if contents else []
        if len(found) != len(contents):
            raise ValueError("the records do not fill their bytes")
        return found

    def _each(
        self, head: bytes, contents: list[bytes], places: list[int], place: Place
    ) -> list[Any]:
        found: list[Any] = []
        for content, row in zip(contents, places, strict=True):
            try:
                found += self._block(head, [content])
            except self._faults as fault:
                if not self._skips:
                    reason = f"{type(fault).__name__} {fault}".strip()
                    raise TableError(f"{place(row)} does not fit its schema: {reason}") from None
                found.append(None)
        return found

    def _head(self, schema_id: int) -> bytes:
        head = self._heads.get(schema_id)
        if head is None:
            written = self._into
            if self._registry is not None:
                try:
                    text = self._registry.schema(schema_id)
                except RegistryError as fault:
                    raise TableError(str(fault)) from None
                written = self._avro.parse_schema(json.loads(text))
            out = BytesIO()
            self._avro.writer(out, written, [])
            head = self._heads[schema_id] = out.getvalue()
        return head


def _faults_of(avro: Any) -> tuple[type[Exception], ...]:
    """What bytes that do not fit a schema come to."""
    from decimal import DecimalException
    from struct import error

    return (
        ValueError, TypeError, LookupError, EOFError, OverflowError, StopIteration, error,
        DecimalException, avro.read.SchemaResolutionError,
    )  # fmt: skip


def _varlong(number: int) -> bytes:
    out = bytearray()
    number <<= 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _type(pa: Any, given: Any, named: dict[str, Any]) -> Any:
    if isinstance(given, list):
        kinds = [each for each in given if each != "null"]
        if len(kinds) != 1:
            raise TableError(f"A column cannot be one of {len(kinds)} types: choose one of {given}")
        return _type(pa, kinds[0], named)
    if isinstance(given, str):
        if given in _PRIMITIVES:
            return pa.type_for_alias(_PRIMITIVES[given])
        if given not in named:
            raise TableError(f"The type {given} contains itself, and a column cannot")
        return named[given]
    kind, logical = given["type"], given.get("logicalType")
    if logical is not None and (found := _logical(pa, logical, given)) is not None:
        return found
    if kind == "record":
        fields = [
            pa.field(each["name"], _type(pa, each["type"], named)) for each in given["fields"]
        ]
        made = pa.struct(fields)
    elif kind == "array":
        return pa.list_(_type(pa, given["items"], named))
    elif kind == "map":
        return pa.map_(pa.string(), _type(pa, given["values"], named))
    elif kind == "fixed":
        made = pa.binary(given["size"])
    elif kind == "enum":
        made = pa.string()
    else:
        return _type(pa, kind, named)
    named[given["name"]] = made
    return made


def _logical(pa: Any, logical: str, given: dict[str, Any]) -> Any:
    if logical == "decimal":
        return pa.decimal128(given["precision"], given.get("scale", 0))
    return {
        "date": pa.date32(),
        "time-millis": pa.time32("ms"),
        "time-micros": pa.time64("us"),
        "timestamp-millis": pa.timestamp("ms", "UTC"),
        "timestamp-micros": pa.timestamp("us", "UTC"),
        "local-timestamp-millis": pa.timestamp("ms"),
        "local-timestamp-micros": pa.timestamp("us"),
    }.get(logical)
