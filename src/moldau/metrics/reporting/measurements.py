"""What reporters are given: all numbers of one moment, as plain data, and what a reporter is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.metrics.otlp.otlp_reading import Point


class Measurement(NamedTuple):
    """One number, or what is known of durations."""

    mbean: str
    """Kafka's name for it without tags, `kafka.server:type=T,name=N`; where Kafka has none, that
    for Prometheus."""
    name: str
    """The name for Prometheus."""
    kind: str
    """`counter`, `gauge`, or `quantiles`: then the value is how many there were."""
    tags: tuple[tuple[str, str], ...]
    value: float
    rates: tuple[float, ...] = ()
    """Of a counter that is a meter: how much it grows in a second, over one, five and fifteen
    minutes and since the start."""
    quantiles: Mapping[str, float] = {}
    """In milliseconds, by `0.50` to `0.999`."""


ClientMeasurement = Point
"""One number that a client has pushed (KIP-714): `name`, `attributes`, `value`, `is_counter`,
`is_delta`."""


class MetricsReporter:
    """Base of reporters. Each is called in a thread of its own, by one call at a time.

    What it raises is written to the log. While it is at work, what comes meanwhile is dropped, so
    a slow one loses reports and holds up nobody."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called first, with the broker's settings as they were given, without secrets. What is
        raised here keeps the broker from starting."""

    def report(self, at_ms: int, measurements: Sequence[Measurement]) -> None:
        """Called every kafka.metrics.polling.interval.secs. `at_ms` is of the wall clock."""

    def report_client(
        self, client: Mapping[str, str], measurements: Sequence[ClientMeasurement]
    ) -> None:
        """Called when a client has pushed its metrics. `client` has client_id,
        client_instance_id, client_software_name, client_software_version,
        client_source_address, client_source_port and principal."""

    def close(self) -> None:
        """Called last."""
