"""Keys and values as people see them: by their look, as chosen, and by a schema registry."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from fastavro import schemaless_writer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from moldau.client.consumer.consumer_records import ConsumerRecord, TimestampType
from moldau.console.records.decoders import Decoders
from moldau.console.records.registry_values import RegistryValues, UnreadableError
from tests.support.schema_registry import SchemaRegistry

USER = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}, {"name": "raw", "type": "bytes"}],
}


def record(value: bytes | None, topic: str = "t", key: bytes | None = None) -> ConsumerRecord:
    return ConsumerRecord(topic, 0, 0, 0, TimestampType(0), key, value, ())


@pytest.fixture
def served() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


@pytest.mark.parametrize(
    ("value", "choice", "kind", "text"),
    [
        (None, "auto", "null", ""),
        (b'{"a": [1]}', "auto", "JSON", '{"a": [1]}'),
        (b"{not json", "auto", "text", "{not json"),
        ("grüße\n".encode(), "auto", "text", "grüße\n"),
        (b"\xff\x00", "auto", "hex", "000000  ff 00"),
        (b"\x01ab", "auto", "hex", "000000  01 61 62"),
        (b"abc", "hex", "hex", "000000  61 62 63"),
        (b"\xffabc", "text", "text", "\\xffabc"),
        (struct.pack(">q", -5), "int64", "int64", "-5"),
        (struct.pack(">d", 1.5), "float64", "float64", "1.5"),
        (b"abc", "int64", "hex", "000000  61 62 63"),
        (b"abc", "json", "hex", "000000  61 62 63"),
        (b"\0\0\0\0\1x", "registry", "hex", "000000  00 00 00 00 01 78"),
    ],
)
def test_contents_are_shown_as_what_they_are(
    value: bytes | None, choice: str, kind: str, text: str
) -> None:
    shown = Decoders().show(record(value), choice, False, 1000, is_listed=True)
    assert shown.kind == kind and shown.text.startswith(text)
    assert bool(shown.fault) == (kind == "hex" and choice not in ("auto", "hex"))


@pytest.mark.parametrize("choice", ["auto", "text", "hex", "json"])
def test_large_contents_are_cut_and_their_size_is_said(choice: str) -> None:
    content = json.dumps({"text": "ä" * 100_000}, ensure_ascii=False).encode()
    shown = Decoders().show(record(content), choice, False, 500, is_listed=True)
    assert len(shown.text) <= 1_000 and shown.is_cut and shown.size_bytes == len(content)


def test_records_of_groups_are_shown_by_their_fields() -> None:
    key = struct.pack(">hh", 1, 7) + b"billing" + struct.pack(">h", 1) + b"t" + struct.pack(">i", 2)
    shown = Decoders().show(
        record(None, "__consumer_offsets", key), "auto", True, 1000, is_listed=True
    )
    assert json.loads(shown.text) == {"group": "billing", "topic": "t", "partition": 2}
    broken = record(b"\0", "__consumer_offsets", b"\0")
    assert Decoders().show(broken, "auto", True, 100, is_listed=True).kind == "hex"


def avro(schema: dict[str, Any], number: int, value: Any) -> bytes:
    out = BytesIO()
    schemaless_writer(out, schema, value)
    return b"\0" + number.to_bytes(4) + out.getvalue()


def test_avro_is_read_by_the_schema_that_its_number_names(served: SchemaRegistry) -> None:
    number = served.add("users-value", USER)
    decoders = Decoders(served.address)
    content = avro(USER, number, {"name": "Ann", "raw": b"\xff"})
    for choice in ("auto", "registry"):
        shown = decoders.show(record(content), choice, False, 1000, is_listed=True)
        assert shown.kind == f"Avro (schema {number})"
        assert json.loads(shown.text) == {"name": "Ann", "raw": "ff"}
    opened = decoders.opened_by("t", "auto", "auto")
    assert opened is not None and opened(record(content), False)["name"] == "Ann"
    torn = decoders.show(record(content[:-1]), "auto", False, 1000, is_listed=True)
    assert torn.kind == "hex" and "does not fit schema" in torn.fault
    opened(record(content[:-1]), False)
    assert opened.unreadable == 1
    assert len(served.requests) == 1, "a schema is asked for once"


def message_of(file: descriptor_pb2.FileDescriptorProto, name: str, **fields: Any) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))(**fields)
    return bytes(made.SerializeToString())


def test_protobuf_is_read_by_the_message_that_its_indexes_name(served: SchemaRegistry) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    for name in ("Other", "Order"):
        message = file.message_type.add(name=name)
        message.field.add(name="item_name", number=1, type=9, label=1)
    served.extra = {"schemaType": "PROTOBUF"}
    number = served.add("orders-value", base64.b64encode(file.SerializeToString()).decode())
    values = RegistryValues(served.address)
    prefix = b"\0" + number.to_bytes(4)
    content = message_of(file, "shop.Order", item_name="tea")
    assert values.read(prefix + b"\x02\x02" + content) == (
        f"Protobuf (schema {number})", {"item_name": "tea"},
    )  # fmt: skip
    assert values.read(prefix + b"\0" + content)[1] == {"item_name": "tea"}
    for bad in (b"", b"\x02\x10", b"\x7f\x7f\x7f\x7f\x7f\x7f", b"\0\xff\xff"):
        with pytest.raises(UnreadableError):
            values.read(prefix + bad)


def test_a_registry_that_is_away_is_asked_once_in_a_while(served: SchemaRegistry) -> None:
    served.busy = 3
    values = RegistryValues(served.address)
    for _ in range(5):
        with pytest.raises(UnreadableError, match="does not answer"):
            values.read(b"\0\0\0\0\1x")
    assert len(served.requests) == 3
