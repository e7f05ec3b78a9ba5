"""Random messages of the oracle library kio, and the same messages in Moldau's classes.

kio has one class per message and version, generated from Kafka's own definitions; it knows times,
error codes and UUIDs as Python types where Moldau keeps the number or the 16 bytes of the wire.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

import moldau.wire.messages
from moldau.wire.schema import Field, Message, Struct

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WORDS = ["", "a", "topic-1", "žluťoučký kůň", "日本語 🎈", "\x00\x7f", "x" * 127, "y" * 128]
INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@dataclass(frozen=True)
class Shape:
    """How instances are drawn: how often null or tagged, how many items per depth."""

    null: float
    tagged: float
    items: tuple[range, ...]
    long_text: bool = False


SHAPES = {
    "empty": Shape(null=1.0, tagged=0.0, items=(range(1),)),
    "full": Shape(null=0.0, tagged=1.0, items=(range(1, 4), range(1, 3))),
    "mixed": Shape(null=0.3, tagged=0.5, items=(range(4), range(3))),
    "large": Shape(0.1, 0.5, (range(130, 140), range(2), range(2)), long_text=True),
}


def entities() -> Iterator[tuple[type[Any], int]]:
    """Every message of the oracle in every version."""
    for versions in schema_name_map.values():
        for version, paths in sorted(versions.items()):
            for path in paths.values():
                yield pkgutil.resolve_name(path), version


def our_messages() -> dict[str, type[Message]]:
    found = {}
    for module in pkgutil.iter_modules(moldau.wire.messages.__path__):
        family = importlib.import_module(f"moldau.wire.messages.{module.name}")
        for name, value in vars(family).items():
            declared_here = getattr(value, "__module__", "") == family.__name__
            if declared_here and isinstance(value, type) and issubclass(value, Message):
                assert name not in found, f"{name} is declared twice"
                found[name] = value
    return found


def encode(entity: Any) -> bytes:
    out = BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def decode(cls: type[Any], data: bytes) -> Any:
    entity, size = entity_reader(cls)(data, 0)
    assert size == len(data), f"{cls.__name__} leaves {len(data) - size} bytes"
    return entity


def index_size() -> int:
    return sum(len(paths) for versions in schema_name_map.values() for paths in versions.values())


def unwrapped(annotation: Any) -> tuple[Any, bool, bool]:
    """The item's type, whether it stands in an array, whether the whole may be null."""
    optional = NoneType in get_args(annotation)
    if optional:
        (annotation,) = (arg for arg in get_args(annotation) if arg is not NoneType)
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0], True, optional
    return annotation, False, optional


def is_entity(item: Any) -> bool:
    return is_dataclass(item)


class Draw:
    """Draws one random instance; the same seed draws the same instance."""

    def __init__(self, seed: str, shape: Shape) -> None:
        self.random = random.Random(seed)
        self.shape = shape

    def entity(self, cls: type[Any], depth: int = 0) -> Any:
        values = {}
        for field in fields(cls):
            if "tag" in field.metadata and self.random.random() >= self.shape.tagged:
                if field.default is MISSING:
                    values[field.name] = tagged_default(field.type)
                continue
            values[field.name] = self.value(field, depth)
        return cls(**values)

    def value(self, field: Any, depth: int) -> Any:
        item, is_array, optional = unwrapped(field.type)
        kind = field.metadata.get("kafka_type", "")
        if optional and self.random.random() < self.shape.null:
            return None
        if not is_array:
            return self.item(item, kind, depth)
        sizes = self.shape.items[min(depth, len(self.shape.items) - 1)]
        return tuple(self.item(item, kind, depth + 1) for _ in range(self.random.choice(sizes)))

    def item(self, item: Any, kind: str, depth: int) -> Any:
        draw = self.random
        if is_entity(item):
            return self.entity(item, depth)
        if kind in INT_BITS:
            limit = 1 << (INT_BITS[kind] - 1)
            return draw.choice([0, -1, 1, limit - 1, -limit, draw.randrange(-limit, limit)])
        match kind:
            case "uint16":
                return draw.choice([0, 65535, draw.randrange(65536)])
            case "bool":
                return draw.random() < 0.5
            case "float64":
                return draw.choice([0.0, -1.5, 1e300, draw.random()])
            case "string":
                return draw.choice([*WORDS, "z" * 20_000] if self.shape.long_text else WORDS)
            case "bytes" | "records":
                return draw.randbytes(draw.choice([0, 1, 60, 127, 128, 300]))
            case "uuid":
                return None if draw.random() < 0.3 else UUID(bytes=draw.randbytes(16))
            case "error_code":
                return draw.choice(list(ErrorCode))
            case "timedelta_i32":
                return timedelta(milliseconds=draw.choice([0, -1, 2**31 - 1, -(2**31), 1234]))
            case "timedelta_i64":
                return timedelta(milliseconds=draw.choice([0, -1, 2**40, -(2**40), 1234]))
            case "datetime_i64":
                return EPOCH + timedelta(milliseconds=draw.choice([0, 1, 2**41 + 7]))
        raise AssertionError(f"the oracle has a type unknown here: {kind}")


def tagged_default(annotation: Any) -> Any:
    """What a tagged field without a default of its own holds when it is absent."""
    item, is_array, optional = unwrapped(annotation)
    if is_array:
        return ()
    if optional:
        return None
    if is_entity(item):
        unset = [field for field in fields(item) if field.default is MISSING]
        return item(**{field.name: tagged_default(field.type) for field in unset})
    if item is ErrorCode:
        return ErrorCode.none
    return "" if issubclass(item, str) else 0


def ours(entity: Any, cls: type[Struct]) -> Any:
    """The same message in our class, built by its constructor."""
    declared = {field.name: field for field in cls.__fields__}
    values = {}
    for field in fields(entity):
        mine = our_field(field.name, declared)
        value = getattr(entity, field.name)
        if "tag" in field.metadata and mine.struct is not None and not mine.is_array:
            default = tagged_default(field.type) if field.default is MISSING else field.default
            value = None if value == default else value
        values[mine.name] = our_value(value, mine, field.metadata.get("kafka_type", ""))
    return cls(**values)


def our_field(name: str, declared: dict[str, Field]) -> Field:
    name = name.rstrip("_").replace("k_raft", "kraft")
    return declared[name] if name in declared else declared[f"{name}_ms"]


def our_value(value: Any, field: Field, kind: str) -> Any:
    if field.is_array and value is not None:
        return [our_item(item, field, kind) for item in value]
    return None if field.is_array else our_item(value, field, kind)


def our_item(value: Any, field: Field, kind: str) -> Any:
    if kind == "datetime_i64":
        return -1 if value is None else round((value - EPOCH) / timedelta(milliseconds=1))
    if kind == "uuid":
        return bytes(16) if value is None else value.bytes
    if is_dataclass(value):
        assert field.struct is not None
        return ours(value, field.struct)
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    return value.value if isinstance(value, ErrorCode) else value
