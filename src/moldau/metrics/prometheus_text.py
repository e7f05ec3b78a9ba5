"""Metrics as Prometheus reads them: the text format, version 0.0.4.

Lines come one by one, so that whoever writes them can let others work in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from moldau.metrics.dialects import Dialect, Written, label_name, written
from moldau.metrics.duration_cells import Summary
from moldau.metrics.metric_definition import Kind, Metric, Samples

VALUE_LENGTH_MAX = 500
"""Of a label; what is cut off is told by a checksum."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def family(metric: Metric, samples: Samples, dialect: Dialect = Dialect.STRIMZI) -> Iterator[str]:
    """The lines of one metric; none if there are no samples. An empty one is a place to rest."""
    how = written(metric, dialect)
    if metric.kind is Kind.QUANTILES:
        yield from _quantiles(metric, samples, how)
        return
    name, is_begun = how.name, False
    tags = tuple(map(label_name, how.tags))
    for sample in samples:
        if sample is None:
            yield ""
            continue
        if not is_begun:
            is_begun = True
            yield _head(how, metric.sentence)
        values, value = sample
        yield f"{name}{_labels(tags, values)} {_number(value)}\n"


def _quantiles(metric: Metric, samples: Samples, how: Written) -> Iterator[str]:
    """Of each the quantiles, then the count."""
    tags, is_begun = tuple(map(label_name, how.tags)), False
    with_quantile = (*tags, "quantile")
    for sample in samples:
        if sample is None:
            yield ""
            continue
        if not is_begun:
            is_begun = True
            yield _head(how, metric.sentence)
        values, summary = sample
        assert isinstance(summary, Summary)
        for quantile, value in summary.quantiles:
            labels = _labels(with_quantile, (*values, quantile))
            yield f"{how.name}{labels} {_number(value)}\n"
        yield f"{how.count_name}{_labels(tags, values)} {summary.number}\n"


def _head(how: Written, sentence: str) -> str:
    text = sentence.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {how.name} {text}\n# TYPE {how.name} {how.type}\n"


def _labels(tags: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not values:
        return ""
    if len(values) != len(tags):
        # A quantile of the sum of all.
        tags = tags[-len(values) :]
    pairs = ",".join(f'{tag}="{_escaped(value)}"' for tag, value in zip(tags, values, strict=True))
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    if len(value) > VALUE_LENGTH_MAX:
        # Clients name groups and themselves: two that begin alike stay two.
        value = f"{value[:VALUE_LENGTH_MAX]}~{sha256(value.encode()).hexdigest()[:12]}"
    if value.isalnum():
        return value
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: Any) -> str:
    if value is True or value is False:
        return "1" if value else "0"
    return repr(value)
