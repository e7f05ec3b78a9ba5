"""Protobuf: messages of a class that protoc made, as they are or as Confluent's serializers write
them: a zero, the schema's number in four bytes, which message of the file it is, and the message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.tables.table_faults import TableError, load
from moldau.tables.value_formats import Place, checked_malformed

if TYPE_CHECKING:
    import pyarrow

PREFIX_BYTES = 5
_SCALARS = {
    1: "float64", 2: "float32", 3: "int64", 4: "uint64", 5: "int32", 6: "uint64", 7: "uint32",
    8: "bool", 9: "string", 12: "binary", 13: "uint32", 14: "string", 15: "int32", 16: "int64",
    17: "int32", 18: "int64",
}  # fmt: skip
"""Arrow's types by the number of a field's type in Protobuf."""
_ENUM, _MESSAGE, _GROUP = 14, 11, 10


class Protobuf:
    """Messages of Protobuf; their fields become columns."""

    def __init__(self, message: Any, *, framed: bool = False, malformed: str = "fail") -> None:
        """`message`: the class. `framed`: written for a registry. A field that is not set has the
        default of its type, or null where Protobuf tells the two apart."""
        load("google.protobuf", "sql")
        if not hasattr(message, "DESCRIPTOR") or not hasattr(message, "FromString"):
            raise TableError(f"Protobuf needs a class of messages, not {message!r}")
        self._message = message
        self._framed = framed
        self._skips = checked_malformed(malformed)

    def fields(self) -> list[pyarrow.Field]:
        pa = load("pyarrow", "arrow")
        made = _struct(pa, self._message.DESCRIPTOR, ())
        return [made.field(index) for index in range(made.num_fields)]

    def decode(self, column: pyarrow.Array, place: Place) -> list[pyarrow.Array]:
        pa = load("pyarrow", "arrow")
        parse = self._message.FromString
        decode_error = load("google.protobuf.message", "sql").DecodeError
        messages: list[Any] = []
        for row, content in enumerate(column.to_pylist()):
            if content is None:
                messages.append(None)
                continue
            try:
                messages.append(parse(_unframed(content) if self._framed else content))
            except (decode_error, ValueError) as fault:
                if not self._skips:
                    name = self._message.DESCRIPTOR.full_name
                    raise TableError(f"{place(row)} is no {name}: {fault}") from None
                messages.append(None)
        columns = []
        for field, each in zip(self.fields(), self._message.DESCRIPTOR.fields, strict=True):
            get = _getter(each)
            values = [None if message is None else get(message) for message in messages]
            columns.append(pa.array(values, field.type))
        return columns


def _unframed(content: bytes) -> bytes:
    if len(content) <= PREFIX_BYTES or content[0]:
        raise ValueError("it does not begin with a schema's number")
    count, position = _varint(content, PREFIX_BYTES)
    for _ in range(count):
        _, position = _varint(content, position)
    return content[position:]


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(content) and shift < 35:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise ValueError("it does not say which message it is")


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _struct(pa: Any, descriptor: Any, outer: tuple[str, ...]) -> Any:
    if descriptor.full_name in outer:
        raise TableError(f"{descriptor.full_name} contains itself, and a column cannot")
    inside = (*outer, descriptor.full_name)
    return pa.struct([pa.field(each.name, _type(pa, each, inside)) for each in descriptor.fields])


def _type(pa: Any, field: Any, outer: tuple[str, ...]) -> Any:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_type(pa, key, outer), _type(pa, value, outer))
    if field.type in (_MESSAGE, _GROUP):
        made = _struct(pa, field.message_type, outer)
    else:
        made = pa.type_for_alias(_SCALARS[field.type])
    return pa.list_(made) if _is_repeated(field) else made


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _getter(field: Any) -> Callable[[Any], Any]:
    """From a message to what Arrow takes for a field of it."""
    name = field.name
    if _is_map(field):
        convert = _converter(field.message_type.fields_by_name["value"])
        return lambda message: [
            (key, convert(each)) for key, each in getattr(message, name).items()
        ]
    convert = _converter(field)
    if _is_repeated(field):
        return lambda message: [convert(each) for each in getattr(message, name)]
    if field.has_presence:
        return lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    if field.type in (_ENUM, _MESSAGE, _GROUP):
        return lambda message: convert(getattr(message, name))
    return lambda message: getattr(message, name)


def _converter(field: Any) -> Callable[[Any], Any]:
    if field.type == _ENUM:
        names = {each.number: each.name for each in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    if field.type in (_MESSAGE, _GROUP):
        getters = {each.name: _getter(each) for each in field.message_type.fields}
        return lambda message: {name: get(message) for name, get in getters.items()}
    return lambda value: value
