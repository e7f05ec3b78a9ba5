"""Keys and values with a schema's number before them: Avro, Protobuf and JSON by a registry.

The registry is the operator's; nobody else names hosts. Blocks while the registry is asked, so it
is called in a thread. A registry that does not answer is left alone for a while.
"""

from __future__ import annotations

import base64
import time
from collections import OrderedDict
from collections.abc import Callable
from io import BytesIO
from typing import Any

from moldau.client.serialization.schema_registry import (
    AVRO,
    JSON_SCHEMA,
    PROTOBUF,
    Described,
    Registry,
    RegistryError,
)

PREFIX_BYTES = 5
ANSWER_SECONDS_MAX = 3.0
SILENT_SECONDS = 15.0
SCHEMAS_MAX = 500
REFERENCES_MAX = 100

Decode = Callable[[bytes], Any]
"""From the bytes behind the number to what JSON can say."""


class UnreadableError(Exception):
    """The bytes are not what their number says, or nobody can say what that is."""


class RegistryValues:
    def __init__(self, address: str) -> None:
        self._registry = Registry(address, answer_seconds_max=ANSWER_SECONDS_MAX)
        self._known: OrderedDict[int, tuple[str, Decode]] = OrderedDict()
        self._fault = ""
        self._silent_until = 0.0

    def read(self, content: bytes) -> tuple[str, Any]:
        """The kind of schema and the value; UnreadableError."""
        if len(content) < PREFIX_BYTES or content[0] != 0:
            raise UnreadableError("it does not begin with a zero and a schema's number")
        schema_id = int.from_bytes(content[1:PREFIX_BYTES], "big")
        kind, decode = self._decoder(schema_id)
        try:
            return f"{kind} (schema {schema_id})", decode(content[PREFIX_BYTES:])
        except _unreadable() as fault:
            words = " ".join(str(fault).split())[:200] or type(fault).__name__
            raise UnreadableError(f"it does not fit schema {schema_id}: {words}") from None

    def _decoder(self, schema_id: int) -> tuple[str, Decode]:
        known = self._known.get(schema_id)
        if known is not None:
            self._known.move_to_end(schema_id)
            return known
        if time.monotonic() < self._silent_until:
            raise UnreadableError(self._fault)
        try:
            schema = self._registry.described(schema_id)
            made = self._made(schema)
        except RegistryError as fault:
            self._fault, self._silent_until = str(fault), time.monotonic() + SILENT_SECONDS
            raise UnreadableError(str(fault)) from None
        self._known[schema_id] = made
        if len(self._known) > SCHEMAS_MAX:
            self._known.popitem(last=False)
        return made

    def _made(self, schema: Described) -> tuple[str, Decode]:
        try:
            match schema.kind:
                case _ if schema.kind == AVRO:
                    return "Avro", self._avro(schema)
                case _ if schema.kind == PROTOBUF:
                    return "Protobuf", self._protobuf(schema)
                case _ if schema.kind == JSON_SCHEMA:
                    return "JSON", _json
        except ImportError as fault:
            raise UnreadableError(
                f"{schema.kind} needs {fault.name}: pip install 'moldau[console]'"
            ) from None
        except _unreadable() as fault:
            words = " ".join(str(fault).split())[:200] or type(fault).__name__
            raise UnreadableError(f"its schema cannot be read: {words}") from None
        raise UnreadableError(f"schemas of type {schema.kind} cannot be read")

    def _referred(self, schema: Described) -> dict[str, Described]:
        """All that a schema refers to, those that others refer to first."""
        found: dict[str, Described] = {}

        def visit(each: Described) -> None:
            for reference in each.references:
                if reference.name in found:
                    continue
                if len(found) >= REFERENCES_MAX:
                    raise UnreadableError(f"it refers to more than {REFERENCES_MAX} schemas")
                other = self._registry.referred(reference)
                found[reference.name] = other
                visit(other)
                found[reference.name] = found.pop(reference.name)

        visit(schema)
        return found

    def _avro(self, schema: Described) -> Decode:
        import json

        from fastavro import parse_schema, schemaless_reader

        named: dict[str, Any] = {}
        for other in self._referred(schema).values():
            parse_schema(json.loads(other.text), named)
        parsed = parse_schema(json.loads(schema.text), named)
        return lambda body: schemaless_reader(BytesIO(body), parsed, None)

    def _protobuf(self, schema: Described) -> Decode:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

        pool = descriptor_pool.DescriptorPool()
        _add_well_known(pool)
        for name, other in self._referred(schema).items():
            pool.Add(_file(descriptor_pb2, other, name))
        own = _file(descriptor_pb2, schema, "schema.proto")
        pool.Add(own)
        found = pool.FindFileByName(own.name)
        messages = [found.message_types_by_name[each.name] for each in own.message_type]

        def decode(body: bytes) -> Any:
            indexes, start = _message_indexes(body)
            chosen: Any = messages[indexes[0]]
            for index in indexes[1:]:
                chosen = chosen.nested_types[index]
            made = message_factory.GetMessageClass(chosen)()
            made.ParseFromString(body[start:])
            return json_format.MessageToDict(made, preserving_proto_field_name=True)

        return decode


def _unreadable() -> tuple[type[Exception], ...]:
    """What bytes or schemas that are not right come to."""
    import struct
    from decimal import DecimalException

    kinds: list[type[Exception]] = [
        ValueError, TypeError, LookupError, EOFError, OverflowError, StopIteration,
        RecursionError, struct.error, DecimalException,
    ]  # fmt: skip
    try:
        from google.protobuf.message import DecodeError

        kinds.append(DecodeError)
    except ImportError:
        pass
    try:
        from fastavro.schema import SchemaParseException, UnknownType

        kinds += [SchemaParseException, UnknownType]
    except ImportError:
        pass
    return tuple(kinds)


def _json(body: bytes) -> Any:
    import json

    return json.loads(body.decode())


def _file(descriptor_pb2: Any, schema: Described, name: str) -> Any:
    made = descriptor_pb2.FileDescriptorProto()
    made.ParseFromString(base64.b64decode(schema.text, validate=True))
    made.name = name
    return made


def _add_well_known(pool: Any) -> None:
    """The files that come with every compiler of Protobuf."""
    from google.protobuf import (
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    for module in (
        any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
    ):  # fmt: skip
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)


def _message_indexes(body: bytes) -> tuple[list[int], int]:
    """Which message of the file it is, and where its bytes begin. A lone zero is the first."""
    count, position = _varint(body, 0)
    if count == 0:
        return [0], position
    if not 0 < count <= REFERENCES_MAX:
        raise ValueError(f"{count} is no depth of a message")
    indexes = []
    for _ in range(count):
        index, position = _varint(body, position)
        if index < 0:
            raise ValueError("the index of a message is negative")
        indexes.append(index)
    return indexes, position


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 35:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise ValueError("a number is too long")
