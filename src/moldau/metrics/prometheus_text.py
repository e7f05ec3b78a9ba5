"""Metrics as Prometheus reads them: the text format, version 0.0.4.

Lines come one by one, so that whoever writes them can let others work in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moldau.metrics.duration_cells import Summary
from moldau.metrics.metric_definition import Kind, Metric, Samples

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def family(metric: Metric, samples: Samples) -> Iterator[str]:
    """The lines of one metric; none if there are no samples. An empty one is a place to rest."""
    if metric.kind is Kind.QUANTILES:
        yield from _quantiles(metric, samples)
        return
    name, is_begun = metric.prometheus_name, False
    for sample in samples:
        if sample is None:
            yield ""
            continue
        if not is_begun:
            is_begun = True
            yield _head(name, metric.kind, metric.sentence)
        values, value = sample
        yield f"{name}{_labels(metric.tags, values)} {_number(value)}\n"


def _quantiles(metric: Metric, samples: Samples) -> Iterator[str]:
    """A count and a bare name with quantiles, as two families: lines of one stand together."""
    name = metric.prometheus_name
    summaries: list[tuple[tuple[str, ...], Summary]] = []
    for sample in samples:
        if sample is None:
            yield ""
        else:
            summaries.append(sample)
    if not summaries:
        return
    yield _head(f"{name}_count", Kind.COUNTER, f"{metric.sentence} How many.")
    for values, summary in summaries:
        yield f"{name}_count{_labels(metric.tags, values)} {summary.number}\n"
    yield _head(name, Kind.GAUGE, metric.sentence)
    tags = (*metric.tags, "quantile")
    for values, summary in summaries:
        for quantile, value in summary.milliseconds:
            yield f"{name}{_labels(tags, (*values, quantile))} {_number(value)}\n"


def _head(name: str, kind: Kind, sentence: str) -> str:
    text = sentence.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {text}\n# TYPE {name} {kind.value}\n"


def _labels(tags: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not values:
        return ""
    pairs = ",".join(f'{tag}="{_escaped(value)}"' for tag, value in zip(tags, values, strict=True))
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    if value.isalnum():
        return value
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: Any) -> str:
    if value is True or value is False:
        return "1" if value else "0"
    return repr(value)
