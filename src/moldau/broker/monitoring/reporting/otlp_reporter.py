"""Sends metrics to a collector by OTLP over HTTP: the broker's own, and what clients push.

Counters are sent as what they are since the start, so a request that fails loses nothing: the next
one says it again. What a client has pushed goes on as it came, with who it is.
"""

from __future__ import annotations

import gzip
import http.client
import time
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from moldau import __version__
from moldau.metrics.otlp.otlp_writing import Family, Series, metrics_data, with_resource
from moldau.metrics.reporting.measurements import Measurement, MetricsReporter

SERIES_MAX = 5_000
"""In one request."""
SECONDS_MAX = 10.0
REASON_BYTES_MAX = 300
PATH = "/v1/metrics"


class OtlpReporter(MetricsReporter):
    def __init__(self, endpoint: str, headers: Mapping[str, str], resource: dict[str, str]) -> None:
        """`endpoint` as checked by the settings."""
        self._parts = urlsplit(endpoint)
        self._headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            "User-Agent": f"moldau/{__version__}",
            **headers,
        }
        self._resource = resource
        self._begun_ns = time.time_ns()

    def report(self, at_ms: int, measurements: Sequence[Measurement]) -> None:
        for families in batches(measurements):
            data = metrics_data(
                self._resource, "moldau", families, self._begun_ns, at_ms * 1_000_000
            )
            self._post(data)

    def forward(self, client: Mapping[str, str], data: memoryview) -> None:
        """What a client has pushed."""
        self._post(with_resource(data, {**client, **self._resource_of_broker()}))

    def _resource_of_broker(self) -> dict[str, str]:
        return {f"broker.{key}": value for key, value in self._resource.items()}

    def _post(self, data: bytes) -> None:
        """Raises OSError, HTTPException."""
        parts = self._parts
        is_https = parts.scheme == "https"
        make = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
        connection = make(parts.hostname or "", parts.port, timeout=SECONDS_MAX)
        target = parts.path if parts.path not in ("", "/") else PATH
        if parts.query:
            target = f"{target}?{parts.query}"
        try:
            connection.request("POST", target, gzip.compress(data, 1), self._headers)
            answer = connection.getresponse()
            reason = answer.read(REASON_BYTES_MAX).decode(errors="replace").strip()
            if not 200 <= answer.status < 300:
                raise OSError(f"{parts.netloc} answers {answer.status} {answer.reason} {reason}")
        finally:
            connection.close()


def batches(measurements: Sequence[Measurement]) -> Iterator[list[Family]]:
    """By the names for Prometheus, without `_total`, which collectors add to counters themselves.
    Of durations there are the quantiles, and how many there were."""
    families: dict[str, Family] = {}
    count = 0
    for each in measurements:
        is_counter = each.kind != "gauge"
        name = each.name.removesuffix("_total") if is_counter else each.name
        if each.quantiles:
            name = f"{name}_count"
        _add(families, name, each.mbean, is_counter, Series(each.tags, each.value))
        for quantile, value in each.quantiles.items():
            tags = (*each.tags, ("quantile", quantile))
            _add(families, each.name, each.mbean, False, Series(tags, value))
        count += 1 + len(each.quantiles)
        if count >= SERIES_MAX:
            yield list(families.values())
            families, count = {}, 0
    if families:
        yield list(families.values())


def _add(
    families: dict[str, Family], name: str, mbean: str, is_counter: bool, series: Series
) -> None:
    if name not in families:
        families[name] = Family(name, mbean, is_counter, [])
    families[name].series.append(series)
