"""The reporters of a broker: made from its settings, then given the metrics again and again.

Built only where one is set. None of them is on the loop: each has a thread (`reporter_thread.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from moldau.broker.monitoring.client_telemetry import ClientTelemetry
from moldau.broker.monitoring.meters import Meters
from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.broker.monitoring.opening import is_csv_on, own_reporters
from moldau.broker.monitoring.reporting.own_reporter import loaded
from moldau.broker.monitoring.reporting.reporter_settings import otlp_headers
from moldau.broker.monitoring.reporting.reporter_thread import CLOSE_SECONDS_MAX, ReporterThread
from moldau.broker.monitoring.reporting.snapshots import snapshot
from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.metrics.otlp.otlp_reading import Point
from moldau.metrics.reporting.measurements import MetricsReporter

POINT_BYTES = 1_024
"""What a point takes in memory, its attributes with it: some take less, few more."""
CSV = "csv"
"""Begins the names of threads that only write files of numbers."""


class Reporters:
    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigError if one cannot be had."""
        self.interval_ms = config.kafka_metrics_polling_interval_secs * 1000
        made = _made(config)
        self.threads = [ReporterThread(name, reporter) for name, reporter in made.items()]

    @property
    def takes_clients(self) -> bool:
        """Whether one of them looks at what clients push."""
        return any(not thread.name.startswith(CSV) for thread in self.threads)

    def follow(self, telemetry: ClientTelemetry) -> None:
        telemetry.takers.append(self._pushed)

    async def report(self, sources: MetricSources, meters: Meters) -> None:
        measurements = await snapshot(sources, meters)
        at_ms = int(time.time() * 1000)
        for thread in self.threads:
            thread.offer_report(partial(thread.reporter.report, at_ms, measurements))

    async def close(self) -> None:
        ends_at = time.monotonic() + CLOSE_SECONDS_MAX
        closing = [asyncio.to_thread(thread.close, ends_at) for thread in self.threads]
        await asyncio.gather(*closing)

    def _pushed(self, client: Mapping[str, str], data: memoryview, points: list[Point]) -> None:
        for thread in self.threads:
            reporter = thread.reporter
            forward = getattr(reporter, "forward", None)
            if forward is not None:
                thread.offer(partial(forward, dict(client), data), size_bytes=len(data))
            elif type(reporter).report_client is not MetricsReporter.report_client:
                size_bytes = len(points) * POINT_BYTES
                call = partial(reporter.report_client, dict(client), points)
                thread.offer(call, size_bytes=size_bytes)


def _made(config: BrokerConfig) -> dict[str, Any]:
    """By name."""
    made: dict[str, Any] = {}
    if is_csv_on(config):
        from moldau.broker.monitoring.reporting.csv_reporter import CsvReporter

        directory = config.kafka_csv_metrics_dir
        made[CSV] = _opened("kafka.csv.metrics.dir", directory, partial(CsvReporter, directory))
    path = config.metrics_json_file
    if path is not None:
        from moldau.broker.monitoring.reporting.json_reporter import JsonReporter

        limit, broker = config.metrics_json_max_bytes, str(config.node_id)
        made["json"] = _opened(
            "metrics.json.file", path, partial(JsonReporter, path, limit, broker)
        )
    if config.metrics_otlp_endpoint is not None:
        from moldau.broker.monitoring.reporting.otlp_reporter import OtlpReporter

        resource = {"service.name": "kafka", "service.instance.id": str(config.node_id)}
        made["otlp"] = OtlpReporter(config.metrics_otlp_endpoint, otlp_headers(config), resource)
    for own in own_reporters(config):
        made[own] = loaded(own, config)
    return made


def _opened(key: str, path: str, make: Any) -> Any:
    try:
        return make()
    except OSError as fault:
        raise ConfigError(key, path, f"cannot be written: {fault.strerror}") from None
