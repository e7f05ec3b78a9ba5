"""What keys and values are: formats that turn a column of bytes into typed columns.

    moldau.table("orders", bootstrap=…, value=Json({"id": "int64", "amount": "float64"}))

A column of bytes is decoded as a whole. What cannot be read ends the scan with a sentence that
names the record, or with `malformed="null"` gives nulls. A value of null gives nulls always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from moldau.tables.table_faults import TableError, load

if TYPE_CHECKING:
    import pyarrow

Place = Callable[[int], str]
"""Says which record a row is."""
MALFORMED = ("fail", "null")


class ValueFormat(Protocol):
    def fields(self) -> list[pyarrow.Field]:
        """The typed columns; one without a name takes the place of the bytes."""
        ...

    def decode(self, column: pyarrow.Array, place: Place) -> list[pyarrow.Array]: ...


def checked_malformed(given: str) -> bool:
    """Whether what cannot be read becomes null."""
    if given not in MALFORMED:
        raise TableError(f"malformed cannot be {given!r}: use {' or '.join(MALFORMED)}")
    return given == "null"


def arrow_type(pa: Any, name: str, given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return pa.type_for_alias(given)
    except ValueError:
        raise TableError(
            f"{name} cannot be of type {given!r}: use a name of Arrow's, like int64 or string, or a"
            " type of pyarrow"
        ) from None


class Text:
    """UTF-8."""

    def __init__(self, *, malformed: str = "fail") -> None:
        self._skips = checked_malformed(malformed)

    def fields(self) -> list[pyarrow.Field]:
        pa = load("pyarrow", "arrow")
        return [pa.field("", pa.string())]

    def decode(self, column: pyarrow.Array, place: Place) -> list[pyarrow.Array]:
        pa = load("pyarrow", "arrow")
        try:
            return [column.cast(pa.string())]
        except pa.ArrowInvalid:
            return [pa.array([self._read(each, place, row) for row, each in enumerate(column)])]

    def _read(self, each: Any, place: Place, row: int) -> str | None:
        content = each.as_py()
        try:
            return None if content is None else str(content, "utf-8")
        except UnicodeDecodeError as fault:
            if self._skips:
                return None
            raise TableError(f"{place(row)} is no UTF-8: {fault.reason}") from None


class Number:
    """One number, the higher bytes first, as Kafka's serializers write it: int16, int32, int64,
    float32, float64."""

    SIZES = {"int16": 2, "int32": 4, "int64": 8, "float32": 4, "float64": 8}

    def __init__(self, kind: str = "int64", *, malformed: str = "fail") -> None:
        if kind not in self.SIZES:
            raise TableError(f"a number cannot be {kind!r}: use one of {', '.join(self.SIZES)}")
        self._kind = kind
        self._skips = checked_malformed(malformed)

    def fields(self) -> list[pyarrow.Field]:
        pa = load("pyarrow", "arrow")
        return [pa.field("", pa.type_for_alias(self._kind))]

    def decode(self, column: pyarrow.Array, place: Place) -> list[pyarrow.Array]:
        pa = load("pyarrow", "arrow")
        compute = load("pyarrow.compute", "arrow")
        size = self.SIZES[self._kind]
        wrong = compute.not_equal(compute.binary_length(column), size)
        row = compute.index(wrong, True).as_py()
        if row >= 0:
            if not self._skips:
                length = len(column[row].as_py())
                raise TableError(f"{place(row)} has {length} bytes, and {self._kind} has {size}")
            column = compute.if_else(wrong, pa.scalar(None, pa.binary()), column)
        # Little-endian as Arrow has them: the bytes of each turned around. Nulls are any number.
        filled = compute.fill_null(column, bytes(size))
        turned = compute.binary_reverse(filled)
        content = b"".join(turned.to_pylist()) if turned.offset else _content(turned)
        kind = pa.type_for_alias(self._kind)
        numbers = pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(content)])
        if not column.null_count:
            return [numbers]
        return [compute.if_else(compute.is_valid(column), numbers, pa.scalar(None, kind))]


def _content(column: Any) -> Any:
    """The bytes of all rows in a row."""
    return column.buffers()[2] or b""


class Json:
    """JSON objects, read into the named columns; what else is in them is left out."""

    def __init__(self, schema: Mapping[str, Any] | Any, *, malformed: str = "fail") -> None:
        pa = load("pyarrow", "arrow")
        if isinstance(schema, Mapping):
            schema = pa.schema(
                [(name, arrow_type(pa, name, each)) for name, each in schema.items()]
            )
        if not len(schema):
            raise TableError("Json needs a schema with at least one column")
        self._schema = schema
        self._skips = checked_malformed(malformed)

    def fields(self) -> list[pyarrow.Field]:
        return [field.with_nullable(True) for field in self._schema]

    def decode(self, column: pyarrow.Array, place: Place) -> list[pyarrow.Array]:
        pa = load("pyarrow", "arrow")
        if not len(column):
            return [pa.nulls(0, field.type) for field in self._schema]
        try:
            table = self._read_all(pa, column)
        except pa.ArrowInvalid:
            table = None
        if table is None or table.num_rows != len(column):
            return self._read_each(pa, column, place)
        return [_combined(pa, table[field.name]) for field in self._schema]

    def _read_all(self, pa: Any, column: Any) -> Any:
        """One document for each line; a row of null is an empty one."""
        compute = load("pyarrow.compute", "arrow")
        filled = compute.fill_null(column, b"{}") if column.null_count else column
        lists = pa.ListArray.from_arrays(pa.array([0, len(filled)], pa.int32()), filled)
        lines = compute.binary_join(lists, b"\n")[0].as_buffer()
        return self._parsed(lines)

    def _parsed(self, lines: Any) -> Any:
        pa = load("pyarrow", "arrow")
        json = load("pyarrow.json", "arrow")
        return json.read_json(
            pa.BufferReader(lines),
            read_options=json.ReadOptions(block_size=max(1 << 20, min(lines.size, 1 << 24) + 1)),
            parse_options=json.ParseOptions(
                explicit_schema=self._schema,
                newlines_in_values=False,
                unexpected_field_behavior="ignore",
            ),
        )

    def _read_each(self, pa: Any, column: Any, place: Place) -> list[Any]:
        """Where a document has several lines, or is none: one by one."""
        pieces = []
        for row, each in enumerate(column.to_pylist()):
            try:
                line = b"{}" if each is None else b" ".join(each.split(b"\n")).replace(b"\r", b" ")
                table = self._parsed(pa.py_buffer(line))
                if table.num_rows != 1:
                    raise pa.ArrowInvalid(f"it holds {table.num_rows} documents")
            except pa.ArrowInvalid as fault:
                if not self._skips:
                    reason = str(fault).partition("\n")[0].removeprefix("JSON parse error: ")
                    raise TableError(
                        f"{place(row)} does not fit the schema as JSON: {reason}; correct the"
                        " schema, or have null in its place (malformed)"
                    ) from None
                table = self._parsed(pa.py_buffer(b"{}"))
            pieces.append(table)
        whole = pa.concat_tables(pieces)
        return [_combined(pa, whole[field.name]) for field in self._schema]


def _combined(pa: Any, column: Any) -> Any:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else combined.chunk(0)
