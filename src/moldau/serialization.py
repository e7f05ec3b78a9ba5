"""Keys and values as bytes and back: what `key.serializer` and its three sisters take.

    Producer(bootstrap_servers="localhost:9092", value_serializer=StringSerializer())

A serializer is a callable, an object or a class with `serialize(topic, data)`, or a name: a short
one ("string"), a dotted path, or the name of Java's class.
"""

from __future__ import annotations

from moldau.client.serialization.serializers import (
    BytesDeserializer,
    BytesSerializer,
    Deserializer,
    DoubleDeserializer,
    DoubleSerializer,
    FloatDeserializer,
    FloatSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    LongDeserializer,
    LongSerializer,
    Serializer,
    ShortDeserializer,
    ShortSerializer,
    StringDeserializer,
    StringSerializer,
    VoidDeserializer,
    VoidSerializer,
)

__all__ = [
    "BytesDeserializer",
    "BytesSerializer",
    "Deserializer",
    "DoubleDeserializer",
    "DoubleSerializer",
    "FloatDeserializer",
    "FloatSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "LongDeserializer",
    "LongSerializer",
    "Serializer",
    "ShortDeserializer",
    "ShortSerializer",
    "StringDeserializer",
    "StringSerializer",
    "VoidDeserializer",
    "VoidSerializer",
]
