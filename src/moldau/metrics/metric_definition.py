"""How one metric is declared: Kafka's name for it, its tags, what it means, where it is counted.

The tables are in `table/`; the Prometheus text, the reference page and a test are made from them.
Names in Prometheus follow the rules that Strimzi and the examples of the JMX exporter share:
everything lower case, `PerSec` becomes `_total`, `Percent` becomes `_percent`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    QUANTILES = "gauge with quantiles"
    """A count, and quantiles of the last minutes."""


class Metric(NamedTuple):
    bean: str
    """Kafka's MBean without its tags, `kafka.server:type=T,name=N`; of those without a name the
    attribute follows a slash. A plain Prometheus name where Kafka has no MBean."""
    kind: Kind
    tags: tuple[str, ...]
    sentence: str
    counted: str
    """Where the number comes from."""
    by_partition: bool = False
    """Has so many series that it is told on a path of its own."""

    @property
    def prometheus_name(self) -> str:
        return prometheus_name(self.bean, is_counter=self.kind is Kind.COUNTER)


Tags = tuple[str, ...]
"""Values in the order of the metric's tags; empty for the sum of all."""
Sample = tuple[Tags, Any]
"""A number; of a metric with quantiles a `Summary`."""
Samples = Iterable[Sample | None]
"""None is a place to rest at: it has taken a while to come so far."""

_BEAN = re.compile(r"kafka\.([\w.]+):type=([\w-]+)(?:,name=([\w-]+)|/([\w-]+))")


def prometheus_name(bean: str, *, is_counter: bool) -> str:
    match = _BEAN.fullmatch(bean)
    if match is None:
        return bean
    domain, kind, name, attribute = match.groups()
    ending = ""
    if name is not None and name.endswith("PerSec"):
        name = name.removesuffix("PerSec")
        ending = "_total" if is_counter else ""
    elif name is not None and name.endswith("Percent"):
        name, ending = name.removesuffix("Percent"), "_percent"
    words = f"kafka_{domain}_{kind}_{name or attribute}{ending}"
    return re.sub(r"[^a-z0-9_]", "_", words.lower())


def counter(
    bean: str, tags: tuple[str, ...], sentence: str, counted: str, *, by_partition: bool = False
) -> Metric:
    return Metric(bean, Kind.COUNTER, tags, sentence, counted, by_partition)


def gauge(
    bean: str, tags: tuple[str, ...], sentence: str, counted: str, *, by_partition: bool = False
) -> Metric:
    return Metric(bean, Kind.GAUGE, tags, sentence, counted, by_partition)


def quantiles(bean: str, tags: tuple[str, ...], sentence: str, counted: str) -> Metric:
    return Metric(bean, Kind.QUANTILES, tags, sentence, counted)
