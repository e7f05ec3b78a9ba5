"""Carry a broker's metrics where you want them: a reporter of your own.

    from collections.abc import Sequence

    from moldau.reporting import Measurement, MetricsReporter

    class OurReporter(MetricsReporter):
        def report(self, at_ms: int, measurements: Sequence[Measurement]) -> None:
            for each in measurements:
                print(at_ms, each.mbean, dict(each.tags), each.value)

The broker loads it by `metric.reporters=our.module:OurReporter`, from a module that Python finds
(PYTHONPATH), and calls it every `kafka.metrics.polling.interval.secs` in a thread of its own.
"""

from __future__ import annotations

from moldau.metrics.reporting.measurements import ClientMeasurement, Measurement, MetricsReporter

__all__ = ["ClientMeasurement", "Measurement", "MetricsReporter"]
