"""How one metric is declared: Kafka's name for it, its tags, what it means, where it is counted.

The tables are in `table/`; the Prometheus text, the reference page and a test are made from them.
Whoever wants to carry metrics elsewhere takes `table/all_metrics.METRICS` for what there is, and
`READERS` of `broker/monitoring/metric_readers.py` for the values: `READERS[metric.bean](sources)`
yields pairs of tag values (in the order of `metric.tags`; empty for the sum of all) and a number,
of `QUANTILES` a `Summary`; and now and then None, at which the loop may do something else. Rows
with `only` tell the same for one dialect of Prometheus names (`dialects.py`); those of Confluent's
are Kafka's own MBeans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    QUANTILES = "summary"
    """A count, and quantiles of the last minutes."""


class Metric(NamedTuple):
    bean: str
    """Kafka's MBean without its tags, `kafka.server:type=T,name=N`; an attribute other than Count
    or Value follows a slash. A plain Prometheus name where Kafka has no MBean."""
    kind: Kind
    tags: tuple[str, ...]
    sentence: str
    counted: str
    """Where the number comes from."""
    by_partition: bool = False
    """Has so many series that it is told on a path of its own."""
    only: str = ""
    """The one dialect that has it; empty for all."""

    @property
    def prometheus_name(self) -> str:
        return prometheus_name(self.bean, is_counter=self.kind is Kind.COUNTER)


Tags = tuple[str, ...]
"""Values in the order of the metric's tags; empty for the sum of all."""
Sample = tuple[Tags, Any]
"""A number; of a metric with quantiles a `Summary`."""
Samples = Iterable[Sample | None]
"""None is a place to rest at: it has taken a while to come so far."""

_BEAN = re.compile(r"kafka\.([\w.]+):type=([\w-]+)(?:,name=([\w-]+))?(?:/([\w-]+))?")


def jmx_parts(bean: str) -> tuple[str, str, str, str]:
    """Domain without `kafka.`, type, name, attribute; the last two may be empty."""
    match = _BEAN.fullmatch(bean)
    assert match is not None, bean
    domain, kind, name, attribute = match.groups(default="")
    return domain, kind, name, attribute


def prometheus_name(bean: str, *, is_counter: bool) -> str:
    """As Strimzi's rules and the JMX exporter's examples make it: everything lower case, `PerSec`
    becomes `_total`, `Percent` becomes `_percent`."""
    if ":" not in bean:
        return bean
    domain, kind, name, attribute = jmx_parts(bean)
    ending = attribute
    if name.endswith("PerSec") and not attribute:
        name = name.removesuffix("PerSec")
        ending = "total" if is_counter else ""
    elif name.endswith("Percent"):
        # A counter there is the count of a meter.
        ending = "count_total" if is_counter else "percent"
        name = name if is_counter else name.removesuffix("Percent")
    return plain_name("_".join(filter(None, ("kafka", domain, kind, name, ending))))


def plain_name(words: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", words.lower())


def counter(
    bean: str, tags: tuple[str, ...], sentence: str, counted: str, *, by_partition: bool = False
) -> Metric:
    return Metric(bean, Kind.COUNTER, tags, sentence, counted, by_partition)


def gauge(
    bean: str,
    tags: tuple[str, ...],
    sentence: str,
    counted: str,
    *,
    by_partition: bool = False,
    only: str = "",
) -> Metric:
    return Metric(bean, Kind.GAUGE, tags, sentence, counted, by_partition, only)


def quantiles(bean: str, tags: tuple[str, ...], sentence: str, counted: str) -> Metric:
    return Metric(bean, Kind.QUANTILES, tags, sentence, counted)
