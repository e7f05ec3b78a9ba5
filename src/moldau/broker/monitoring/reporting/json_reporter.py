"""Writes metrics as lines of JSON: one for each look at them, and one for each push of a client.

A file that is full becomes `.1`, and what was `.1` is gone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.metrics.reporting.measurements import ClientMeasurement, Measurement, MetricsReporter


class JsonReporter(MetricsReporter):
    def __init__(self, path: str, bytes_max: int, broker: str) -> None:
        """Raises OSError if the file cannot be written."""
        self._path = path
        self._bytes_max = bytes_max
        self._broker = broker
        with open(path, "a"):
            pass

    def report(self, at_ms: int, measurements: Sequence[Measurement]) -> None:
        rows = [_row(each) for each in measurements]
        self._write({"time": at_ms, "broker": self._broker, "metrics": rows})

    def report_client(
        self, client: Mapping[str, str], measurements: Sequence[ClientMeasurement]
    ) -> None:
        rows = [
            {
                "name": each.name,
                "attributes": dict(each.attributes),
                "kind": "counter" if each.is_counter else "gauge",
                "delta": each.is_delta,
                "value": each.value,
            }
            for each in measurements
        ]
        self._write({"client": dict(client), "broker": self._broker, "metrics": rows})

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line).encode() + b"\n"
        try:
            is_full = os.path.getsize(self._path) + len(text) > self._bytes_max
        except FileNotFoundError:
            is_full = False  # somebody has moved it: a new one is begun
        if is_full:
            os.replace(self._path, self._path + ".1")
        # By one call, so that nobody reads half a line.
        with open(self._path, "ab", buffering=0) as file:
            if file.write(text) != len(text):
                raise OSError(f"{self._path} took only a part of a line: is the disk full?")


def _row(each: Measurement) -> dict[str, Any]:
    row: dict[str, Any] = {
        "mbean": each.mbean,
        "name": each.name,
        "kind": each.kind,
        "tags": dict(each.tags),
        "value": each.value,
    }
    if each.rates:
        row["rates"] = dict(zip(("1m", "5m", "15m", "mean"), each.rates, strict=True))
    if each.quantiles:
        row["quantiles"] = dict(each.quantiles)
    return row
