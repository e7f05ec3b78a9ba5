"""Quotas of clients and users (KIP-546).

A null `entity_name` is the default entity of its type.
"""

from __future__ import annotations

from moldau.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    string,
)


class ComponentData(Struct):
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+", default="")


class DescribeClientQuotasRequest(Message, versions="0-1", flexible="1+"):
    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+", default="")


class ValueData(Struct):
    key: str = string()
    value: float = float64()


class DescribeClientQuotasResponseEntry(Struct):
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


class DescribeClientQuotasResponse(Message, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[DescribeClientQuotasResponseEntry] | None = array(
        DescribeClientQuotasResponseEntry, nullable="0+"
    )


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class AlterClientQuotasRequestEntry(Struct):
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Message, versions="0-1", flexible="1+"):
    entries: list[AlterClientQuotasRequestEntry] = array(AlterClientQuotasRequestEntry)
    validate_only: bool = boolean()


class AlterClientQuotasResponseEntry(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Message, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponseEntry] = array(AlterClientQuotasResponseEntry)
