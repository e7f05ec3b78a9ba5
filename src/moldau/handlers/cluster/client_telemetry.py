"""GetTelemetrySubscriptions and PushTelemetry: the metrics of clients (KIP-714)."""

from __future__ import annotations

from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.metrics.pushed.client_instances import COMPRESSIONS
from moldau.wire.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)


async def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, ctx: RequestContext, on: Services
) -> GetTelemetrySubscriptionsResponse:
    assert on.telemetry is not None, "it is routed here only where somebody takes metrics"
    instance = on.telemetry.ask(request.client_instance_id, ctx)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.wanted.number,
        accepted_compression_types=list(COMPRESSIONS),
        push_interval_ms=instance.wanted.interval_ms,
        telemetry_max_bytes=on.telemetry.bytes_max,
        delta_temporality=True,
        requested_metrics=list(instance.wanted.metrics),
    )


async def push_telemetry(
    request: PushTelemetryRequest, ctx: RequestContext, on: Services
) -> PushTelemetryResponse:
    assert on.telemetry is not None, "it is routed here only where somebody takes metrics"
    await on.telemetry.push(
        request.client_instance_id,
        ctx,
        request.metrics,
        subscription=request.subscription_id,
        is_terminating=request.terminating,
        compression=request.compression_type,
    )
    return PushTelemetryResponse()
