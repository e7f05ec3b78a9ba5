"""Serializers and what may be sent without one."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client.producer.record_values import as_bytes, as_headers
from moldau.client.serialization.serializers import Serializer, deserializer, serializer
from moldau.client.shared.client_errors import SerializationError

JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("name", "given", "written"),
    [
        ("String", "grüß", "grüß".encode()),
        ("Long", -2, b"\xff" * 7 + b"\xfe"),
        ("Integer", 5, b"\0\0\0\5"),
        ("Short", 5, b"\0\5"),
        ("Double", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        ("Float", 1.5, b"\x3f\xc0\0\0"),
    ],
)
def test_javas_names_mean_javas_bytes(name: str, given: Any, written: bytes) -> None:
    write = serializer(JAVA + name + "Serializer", {}, is_key=True)
    read = deserializer(JAVA + name + "Deserializer", {}, is_key=True)
    assert write is not None
    assert read is not None
    assert write("t", given) == written
    assert read("t", written) == given
    assert write("t", None) is None
    assert read("t", None) is None


@pytest.mark.parametrize("given", [None, "", "bytes", JAVA + "ByteArraySerializer"])
def test_bytes_need_no_work_at_all(given: str | None) -> None:
    assert serializer(given, {}, is_key=False) is None


def test_short_and_old_names_are_understood() -> None:
    for name in ("string", "str", "StringSerializer", "kafka.serializer.StringEncoder"):
        write = serializer(name, {}, is_key=False)
        assert write is not None
        assert write("t", "x") == b"x"


def test_the_encoding_of_text_is_a_setting() -> None:
    write = serializer("string", {"value.serializer.encoding": "latin-1"}, is_key=False)
    assert write is not None
    assert write("t", "ü") == b"\xfc"


def test_functions_classes_and_objects_serve_as_serializers() -> None:
    class Shout(Serializer):
        def serialize(self, topic: str, data: Any) -> bytes:
            return f"{topic}:{data}".upper().encode()

    for given in (Shout, Shout()):
        write = serializer(given, {}, is_key=False)
        assert write is not None
        assert write("t", "x") == b"T:X"
    function = serializer(lambda data: data[::-1], {}, is_key=False)
    assert function is not None
    assert function("t", b"ab") == b"ba"


def test_a_number_of_the_wrong_size_is_refused() -> None:
    read = deserializer("long", {}, is_key=True)
    assert read is not None
    with pytest.raises(ValueError, match="8 bytes"):
        read("t", b"123")


def test_text_and_views_are_sent_as_bytes_and_objects_are_refused() -> None:
    assert as_bytes("ü", "value") == "ü".encode()
    assert as_bytes(memoryview(b"x"), "value") == b"x"
    with pytest.raises(SerializationError, match=r"value\.serializer"):
        as_bytes(5, "value")


def test_headers_are_pairs_or_a_mapping() -> None:
    assert as_headers({"a": b"1", "b": None}) == (("a", b"1"), ("b", None))
    assert as_headers([("a", "1"), ("a", b"2")]) == (("a", b"1"), ("a", b"2"))
    with pytest.raises(SerializationError):
        as_headers([(b"a", b"1")])
