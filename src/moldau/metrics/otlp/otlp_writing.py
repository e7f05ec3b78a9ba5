"""Writes OTLP's `MetricsData`: what a client pushes, and what a broker sends to a collector.

The numbers of fields are those of opentelemetry.proto.metrics.v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.metrics.otlp.protobuf_fields import (
    bytes_field,
    double_field,
    fields,
    message_of,
    number_field,
    signed_field,
    text_field,
    unsigned_field,
)

GAUGE, SUM = 5, 7
DELTA, CUMULATIVE = 1, 2


class Series(NamedTuple):
    """One number to tell."""

    attributes: tuple[tuple[str, str], ...]
    value: float


class Family(NamedTuple):
    """All numbers of one name."""

    name: str
    description: str
    is_counter: bool
    series: list[Series]


def metrics_data(
    resource: Mapping[str, str],
    scope: str,
    families: Iterable[Family],
    begun_ns: int,
    now_ns: int,
    *,
    temporality: int = CUMULATIVE,
) -> bytes:
    """Times are of the wall clock. A counter tells what has come since `begun_ns`."""
    metrics = b"".join(
        bytes_field(2, _metric(family, begun_ns, now_ns, temporality)) for family in families
    )
    scope_metrics = bytes_field(1, text_field(1, scope)) + metrics
    resource_metrics = bytes_field(1, _pairs(1, resource.items())) + bytes_field(2, scope_metrics)
    return bytes_field(1, resource_metrics)


def _metric(family: Family, begun_ns: int, now_ns: int, temporality: int) -> bytes:
    times = unsigned_field(3, now_ns)
    if family.is_counter:
        times = unsigned_field(2, begun_ns) + times
    points = b"".join(bytes_field(1, times + _point(each)) for each in family.series)
    if family.is_counter:
        content = bytes_field(SUM, points + number_field(2, temporality) + number_field(3, 1))
    else:
        content = bytes_field(GAUGE, points)
    return text_field(1, family.name) + text_field(2, family.description) + content


def _point(series: Series) -> bytes:
    value = series.value
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        number = signed_field(6, value)
    else:
        number = double_field(4, value)
    return number + _pairs(7, series.attributes)


def _pairs(number: int, pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(
        bytes_field(number, text_field(1, key) + bytes_field(2, text_field(1, value)))
        for key, value in pairs
    )


def with_resource(data: memoryview, added: Mapping[str, str]) -> bytes:
    """The same MetricsData with more attributes for each resource; nothing else is looked at.

    Raises ValueError if it is none."""
    out = []
    for field in fields(data):
        if field[0] != 1:
            continue
        resource, rest = bytearray(), []
        for inner in fields(message_of(field)):
            content = bytes(message_of(inner))
            if inner[0] == 1:
                resource += content
            else:
                rest.append(bytes_field(inner[0], content))
        resource += _pairs(1, added.items())
        out.append(bytes_field(1, bytes_field(1, bytes(resource)) + b"".join(rest)))
    return b"".join(out)
