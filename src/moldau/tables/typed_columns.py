"""From Kafka's columns to those of the table: keys and values in their formats.

Fields of a value go by their own names, or with `value_` before them where Kafka has a column of
that name; fields of a key always have `key_` before them. A format of one value, like a text, just
gives the column another type.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.tables.table_faults import TableError, load
from moldau.tables.value_formats import ValueFormat

if TYPE_CHECKING:
    import pyarrow


class Part(NamedTuple):
    """A column of bytes and what becomes of it."""

    name: str
    format: ValueFormat
    fields: tuple[Any, ...]


class TypedColumns:
    def __init__(
        self,
        raw: pyarrow.Schema,
        key: ValueFormat | None,
        value: ValueFormat | None,
        names: Collection[str] | None = None,
    ) -> None:
        self._raw = raw
        self._given = (key, value)
        self._parts = {
            name: _part(name, given, raw)
            for name, given in (("key", key), ("value", value))
            if given is not None
        }
        pa = load("pyarrow", "arrow")
        fields = []
        for field in raw:
            part = self._parts.get(field.name)
            fields += [field] if part is None else list(part.fields)
        known = [field.name for field in fields]
        for name in known:
            if known.count(name) > 1:
                raise TableError(f"Two columns would be named {name}: rename it in a schema")
        self.schema = pa.schema([f for f in fields if names is None or f.name in names])

    def only(self, names: Collection[str]) -> TypedColumns:
        return TypedColumns(self._raw, *self._given, names)

    @property
    def is_typed(self) -> bool:
        return bool(self._parts)

    @property
    def raw_names(self) -> set[str]:
        """The columns of Kafka that are needed; with their place, to say which cannot be read."""
        names = set(self.schema.names)
        needed = {field.name for field in self._raw if field.name in names}
        for name, part in self._parts.items():
            needed.discard(name)
            if any(field.name in names for field in part.fields):
                needed |= {name, "topic", "partition", "offset"}
        return needed or {"topic"}

    def convert(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        pa = load("pyarrow", "arrow")
        names = self.schema.names
        found: dict[str, Any] = {
            name: batch.column(name)
            for name in names
            if name in batch.schema.names and name not in self._parts
        }
        for name, part in self._parts.items():
            if any(field.name in names for field in part.fields):
                arrays = part.format.decode(batch.column(name), _places(batch, name))
                found |= {f.name: array for f, array in zip(part.fields, arrays, strict=True)}
        if not names:
            return batch.select([])
        return pa.RecordBatch.from_arrays([found[name] for name in names], schema=self.schema)


def _part(name: str, given: ValueFormat, raw: pyarrow.Schema) -> Part:
    fields = []
    for field in given.fields():
        if not field.name:
            fields.append(field.with_name(name))
        elif name == "key" or field.name in raw.names:
            fields.append(field.with_name(f"{name}_{field.name}"))
        else:
            fields.append(field)
    return Part(name, given, tuple(fields))


def _places(batch: pyarrow.RecordBatch, name: str) -> Any:
    def place(row: int) -> str:
        topic, partition, offset = (
            batch.column(each)[row].as_py() for each in ("topic", "partition", "offset")
        )
        return f"The {name} of {topic}-{partition} at offset {offset}"

    return place
