"""Turning keys and values into bytes and back: what `key.serializer` and its three sisters name.

A serializer is given as a callable, as an object or class with `serialize(topic, data)`, or by
name: a short one ("string"), a dotted path, or the name of Java's class. None means that the data
are bytes already, which costs nothing per record. None (a tombstone) stays None everywhere.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from moldau.client.shared.configured_classes import instance_of

Serialize = Callable[[str, Any], bytes | None]
Deserialize = Callable[[str, bytes | None], Any]

_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_DOUBLE = struct.Struct(">d")
_FLOAT = struct.Struct(">f")


class Serializer:
    """The interface for classes; `headers` of the record are not given, as few need them."""

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        """Called once, with all settings of the producer."""

    def serialize(self, topic: str, data: Any) -> bytes | None:
        raise NotImplementedError

    def close(self) -> None:
        """Called when the producer closes."""


class Deserializer:
    """From bytes to what `poll` returns; a plain function of the bytes will do too."""

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        """Called once, with all settings of the consumer."""

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Called when the consumer closes."""


class StringSerializer(Serializer):
    """Text as UTF-8, or in `key.serializer.encoding` and its like."""

    def __init__(self) -> None:
        self.encoding = "utf-8"

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        self.encoding = _encoding(settings, is_key, "serializer")

    def serialize(self, topic: str, data: str | None) -> bytes | None:
        return None if data is None else data.encode(self.encoding)


class StringDeserializer(Deserializer):
    """UTF-8 to text, or another encoding by its setting."""

    def __init__(self) -> None:
        self.encoding = "utf-8"

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        self.encoding = _encoding(settings, is_key, "deserializer")

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        return None if data is None else data.decode(self.encoding, "replace")


class BytesSerializer(Serializer):
    """Bytes as they are."""

    def serialize(self, topic: str, data: bytes | None) -> bytes | None:
        return data


class BytesDeserializer(Deserializer):
    """Bytes as they are."""

    def deserialize(self, topic: str, data: bytes | None) -> bytes | None:
        return data


class _NumberSerializer(Serializer):
    layout = _LONG

    def serialize(self, topic: str, data: Any) -> bytes | None:
        return None if data is None else self.layout.pack(data)


class _NumberDeserializer(Deserializer):
    layout = _LONG

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        if data is None:
            return None
        if len(data) != self.layout.size:
            raise ValueError(
                f"{type(self).__name__} takes {self.layout.size} bytes, a record of {topic} "
                f"has {len(data)}"
            )
        return self.layout.unpack(data)[0]


class LongSerializer(_NumberSerializer):
    """Whole numbers in 8 bytes."""

    layout = _LONG


class LongDeserializer(_NumberDeserializer):
    """8 bytes to a whole number."""

    layout = _LONG


class IntegerSerializer(_NumberSerializer):
    """Whole numbers in 4 bytes."""

    layout = _INT


class IntegerDeserializer(_NumberDeserializer):
    """4 bytes to a whole number."""

    layout = _INT


class ShortSerializer(_NumberSerializer):
    """Whole numbers in 2 bytes."""

    layout = _SHORT


class ShortDeserializer(_NumberDeserializer):
    """2 bytes to a whole number."""

    layout = _SHORT


class DoubleSerializer(_NumberSerializer):
    """Numbers in 8 bytes of IEEE 754."""

    layout = _DOUBLE


class DoubleDeserializer(_NumberDeserializer):
    """8 bytes of IEEE 754 to a number."""

    layout = _DOUBLE


class FloatSerializer(_NumberSerializer):
    """Numbers in 4 bytes of IEEE 754."""

    layout = _FLOAT


class FloatDeserializer(_NumberDeserializer):
    """4 bytes of IEEE 754 to a number."""

    layout = _FLOAT


class VoidSerializer(Serializer):
    """For keys or values that are always None."""

    def serialize(self, topic: str, data: Any) -> None:
        if data is not None:
            raise ValueError(f"VoidSerializer takes None only, not {type(data).__name__}")


class VoidDeserializer(Deserializer):
    """None, whatever there is."""

    def deserialize(self, topic: str, data: bytes | None) -> None:
        if data is not None:
            raise ValueError(f"VoidDeserializer takes no data, a record of {topic} has some")


_KINDS: dict[str, tuple[type[Serializer], type[Deserializer]]] = {
    "String": (StringSerializer, StringDeserializer),
    "ByteArray": (BytesSerializer, BytesDeserializer),
    "Bytes": (BytesSerializer, BytesDeserializer),
    "ByteBuffer": (BytesSerializer, BytesDeserializer),
    "Long": (LongSerializer, LongDeserializer),
    "Integer": (IntegerSerializer, IntegerDeserializer),
    "Short": (ShortSerializer, ShortDeserializer),
    "Double": (DoubleSerializer, DoubleDeserializer),
    "Float": (FloatSerializer, FloatDeserializer),
    "Void": (VoidSerializer, VoidDeserializer),
}
_JAVA_PACKAGE = "org.apache.kafka.common.serialization."
_SHORT_NAMES = {"int": "Integer", "str": "String"}
_OLD_NAMES = {
    "kafka.serializer.StringEncoder": "String",
    "kafka.serializer.StringDecoder": "String",
    "kafka.serializer.DefaultEncoder": "Bytes",
    "kafka.serializer.DefaultDecoder": "Bytes",
}

_CLASSES: dict[str, type] = {}
for _name, (_writer, _reader) in _KINDS.items():
    _CLASSES[_JAVA_PACKAGE + _name + "Serializer"] = _writer
    _CLASSES[_JAVA_PACKAGE + _name + "Deserializer"] = _reader
    _CLASSES[_name + "Serializer"] = _writer
    _CLASSES[_name + "Deserializer"] = _reader


def serializer(given: Any, settings: Mapping[str, Any], *, is_key: bool) -> Serialize | None:
    """What to call as (topic, data), or None where data are bytes already."""
    chosen = _chosen(given, settings, is_key, writing=True)
    if chosen is None or isinstance(chosen, BytesSerializer):
        return None
    if hasattr(chosen, "serialize"):
        method: Serialize = chosen.serialize
        return method
    return lambda topic, data: chosen(data)


def deserializer(given: Any, settings: Mapping[str, Any], *, is_key: bool) -> Deserialize | None:
    """What to call as (topic, data), or None where bytes are wanted."""
    chosen = _chosen(given, settings, is_key, writing=False)
    if chosen is None or isinstance(chosen, BytesDeserializer):
        return None
    if hasattr(chosen, "deserialize"):
        method: Deserialize = chosen.deserialize
        return method
    return lambda topic, data: chosen(data)


def _chosen(given: Any, settings: Mapping[str, Any], is_key: bool, *, writing: bool) -> Any:
    if given is None or given == "":
        return None
    if isinstance(given, str):
        given = _named(given, writing)
    chosen = instance_of(given)
    if hasattr(chosen, "configure"):
        chosen.configure(settings, is_key)
    return chosen


def _named(name: str, writing: bool) -> Any:
    """The class behind a short, old or Java name; other names are dotted paths."""
    kind = _OLD_NAMES.get(name) or _SHORT_NAMES.get(name.lower()) or name[:1].upper() + name[1:]
    if kind in _KINDS:
        return _KINDS[kind][0 if writing else 1]
    return _CLASSES.get(name, name)


def _encoding(settings: Mapping[str, Any], is_key: bool, role: str) -> str:
    specific = settings.get(f"{'key' if is_key else 'value'}.{role}.encoding")
    return str(specific or settings.get(f"{role}.encoding") or "utf-8")
