"""Metrics that clients push to brokers (KIP-714).

`metrics` is an OTLP payload, compressed as the request says.
"""

from __future__ import annotations

from moldau.wire.schema import (
    Message,
    array,
    blob,
    boolean,
    int8,
    int16,
    int32,
    string,
    uuid,
)


class GetTelemetrySubscriptionsRequest(Message, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid()


class GetTelemetrySubscriptionsResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)


class PushTelemetryRequest(Message, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = blob()


class PushTelemetryResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
