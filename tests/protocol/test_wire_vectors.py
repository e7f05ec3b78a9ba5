"""Bytes that Apache Kafka 3.9.1 itself wrote, for what the oracle library lacks.

Those are the requests between controller and brokers of the ZooKeeper era, and the oldest versions
of others. Each line of vectors.txt holds message, version, bytes, and the values as Kafka's JSON.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from moldau.model.names import uuid_from_text
from moldau.wire.apis import APIS, OWN_FROM
from moldau.wire.schema import Field, Struct, blob, raw_records, uuid
from tests.protocol import oracle

OURS = oracle.our_messages()
RECORDS = {"group_records", "transaction_records"}
"""What coordinators store: compared with Kafka's own records in the tests of their codecs."""
OWN = {row.name + kind for row in APIS if row.key >= OWN_FROM for kind in ("Request", "Response")}
"""Moldau's own: nobody else has them."""
ZOOKEEPER_ERA = {
    "LeaderAndIsr": range(8),
    "StopReplica": range(5),
    "UpdateMetadata": range(9),
    "ControlledShutdown": range(4),
}


def read_vectors() -> list[Any]:
    vectors: list[Any] = []
    for line in (Path(__file__).parent / "vectors.txt").read_text("utf-8").splitlines():
        name, version, data, values = line.split(" ", 3)
        label = f"{name}-v{version}-{len(vectors)}"
        row = (name, int(version), bytes.fromhex(data), json.loads(values))
        vectors.append(pytest.param(*row, id=label))
    return vectors


def as_json(value: Any, field: Field, version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [json_item(item, field, version) for item in value]
    return json_item(value, field, version)


def json_item(value: Any, field: Field, version: int) -> Any:
    if isinstance(value, Struct):
        return as_object(value, version)
    return bytes(value) if field.kind in (blob, raw_records) else value


def as_object(message: Struct, version: int) -> dict[str, Any]:
    return {
        field.name.replace("_", ""): as_json(getattr(message, field.name), field, version)
        for field in message.__fields__
        if version in field.versions
    }


def from_kafka(values: dict[str, Any], cls: type[Struct]) -> dict[str, Any]:
    """Kafka's JSON with our names (underscores aside), and with bytes where it has text."""
    declared = {field.name.replace("_", ""): field for field in cls.__fields__}
    found = {}
    for name, value in values.items():
        field = declared[name.lower()]
        many = value if isinstance(value, list) else [value]
        many = [value_from_kafka(item, field) for item in many]
        found[name.lower()] = many if isinstance(value, list) else many[0]
    return found


def value_from_kafka(value: Any, field: Field) -> Any:
    if value is None:
        return None
    if field.struct is not None:
        return from_kafka(value, field.struct)
    if field.kind is uuid:
        return uuid_from_text(value)
    return base64.b64decode(value) if field.kind in (blob, raw_records) else value


def without_what_json_omits(values: Any, model: Any) -> Any:
    """Kafka's JSON leaves out tagged fields at their default, and the bytes of records."""
    if isinstance(values, list) and isinstance(model, list) and len(values) == len(model):
        return [without_what_json_omits(*pair) for pair in zip(values, model, strict=True)]
    if isinstance(values, dict) and isinstance(model, dict):
        return {
            name: without_what_json_omits(value, model[name])
            for name, value in values.items()
            if name in model and not name.endswith("records")
        }
    return values


@pytest.mark.parametrize(("name", "version", "data", "values"), read_vectors())
def test_bytes_written_by_apache_kafka_are_read_and_written_alike(
    name: str, version: int, data: bytes, values: dict[str, Any]
) -> None:
    message, position = OURS[name].decode_from(data, version)
    assert position == len(data)
    assert message.encode(version) == data
    expected = from_kafka(values, OURS[name])
    read = without_what_json_omits(as_object(message, version), expected)
    assert read == without_what_json_omits(expected, expected)


def test_every_declared_version_is_compared_with_somebody() -> None:
    compared = {(theirs.__name__, version) for theirs, version in oracle.entities()}
    compared |= {(vector.values[0], vector.values[1]) for vector in read_vectors()}
    declared = {
        (name, version)
        for name, cls in OURS.items()
        if cls.__module__.rpartition(".")[2] not in RECORDS and name not in OWN
        for version in range(cls.__versions__.first, cls.__versions__.last + 1)
    }
    assert declared == compared


def test_the_zookeeper_era_requests_are_declared_from_their_first_to_their_last_version() -> None:
    for name, versions in ZOOKEEPER_ERA.items():
        for direction in ("Request", "Response"):
            declared = OURS[name + direction].__versions__
            assert range(declared.first, declared.last + 1) == versions
