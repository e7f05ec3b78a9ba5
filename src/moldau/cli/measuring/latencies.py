"""Throughput and latency of what is being produced, and the lines in which Kafka reports them.

Outcomes arrive on the producer's loop and are read by the command's thread: each list is only
appended to by one and taken whole by the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from moldau.cli.output import Output

MIB = 1024 * 1024
PERCENTILES = (0.5, 0.95, 0.99, 0.999)


class Latencies:
    def __init__(self, interval_ms: int, out: Output) -> None:
        self.out = out
        self.interval_s = interval_ms / 1000
        self.start = self.window_start = time.monotonic()
        self.milliseconds: list[float] = []
        self.bytes = 0
        self.failed = 0
        self.fault: Exception | None = None
        self.window_index = 0
        self.window_bytes = 0

    def watch(
        self, size: int, also: Latencies | None = None
    ) -> Callable[[Any, BaseException | None], None]:
        """What to call when one record of that size is stored or given up."""
        sent = time.monotonic()

        def done(metadata: Any, error: BaseException | None) -> None:
            self.count(sent, size, error)
            if also is not None:
                also.count(sent, size, error)

        return done

    def count(self, sent: float, size: int, error: BaseException | None) -> None:
        if error is not None:
            self.failed += 1
            self.fault = error if isinstance(error, Exception) else None
            return
        self.milliseconds.append((time.monotonic() - sent) * 1000)
        self.bytes += size

    def report(self) -> None:
        """A line for the time since the last one, if it is time."""
        now = time.monotonic()
        if not self.interval_s or now - self.window_start < self.interval_s:
            return
        count = len(self.milliseconds)
        window = self.milliseconds[self.window_index : count]
        seconds = now - self.window_start
        rate = len(window) / seconds
        mib = (self.bytes - self.window_bytes) / seconds / MIB
        mean, most = (sum(window) / len(window), max(window)) if window else (0.0, 0.0)
        self.out.line(
            f"{len(window)} records sent, {rate:.1f} records/sec ({mib:.2f} MB/sec),"
            f" {mean:.1f} ms avg latency, {most:.1f} ms max latency."
        )
        self.out.flush()
        self.window_start, self.window_index, self.window_bytes = now, count, self.bytes

    def total(self, what: str = "") -> None:
        seconds = max(time.monotonic() - self.start, 1e-9)
        count = len(self.milliseconds)
        ordered = sorted(self.milliseconds)
        mean = sum(ordered) / count if count else 0.0
        most = ordered[-1] if ordered else 0.0
        p50, p95, p99, p999 = (percentile(ordered, share) for share in PERCENTILES)
        self.out.line(
            f"{count} {what}records sent, {count / seconds:f} records/sec"
            f" ({self.bytes / seconds / MIB:.2f} MB/sec), {mean:.2f} ms avg latency,"
            f" {most:.2f} ms max latency, {p50} ms 50th, {p95} ms 95th, {p99} ms 99th,"
            f" {p999} ms 99.9th."
        )

    def as_json(self) -> dict[str, float]:
        seconds = max(time.monotonic() - self.start, 1e-9)
        ordered = sorted(self.milliseconds)
        count = len(ordered)
        return {
            "records": count,
            "failed": self.failed,
            "recordsPerSecond": count / seconds,
            "mibPerSecond": self.bytes / seconds / MIB,
            "latencyAvgMs": sum(ordered) / count if count else 0.0,
            "latencyMaxMs": ordered[-1] if ordered else 0.0,
            **{
                f"latencyP{share * 100:g}Ms".replace(".", ""): percentile(ordered, share)
                for share in PERCENTILES
            },
        }


def percentile(ordered: list[float], share: float) -> int:
    return int(ordered[int(share * len(ordered))]) if ordered else 0
