"""The metrics of a broker as MBeans: which there are, and the attributes of one.

A metric of the table that has a name is an MBean for each set of tags, with the attributes that
Kafka's meters, gauges and histograms have. Of the others several make up one MBean: each of them
is an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from moldau.broker.monitoring.meters import Meters
from moldau.broker.monitoring.metric_readers import READERS
from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.metrics.duration_cells import Summary
from moldau.metrics.mbeans.object_names import NamePattern, ObjectName, object_name
from moldau.metrics.metric_definition import Kind, Metric, Tags
from moldau.metrics.table.all_metrics import METRICS

NAMES_PER_LOOK = 100
"""So many are looked at; then the loop may rest."""

Attributes = dict[str, Any]
MBean = tuple[ObjectName, Attributes]

_BEAN = re.compile(r"(kafka\.[\w.]+):type=([\w-]+)(?:,name=([\w-]+)|/([\w-]+))")
PERCENTILES = {
    "0.50": "50thPercentile",
    "0.75": "75thPercentile",
    "0.95": "95thPercentile",
    "0.98": "98thPercentile",
    "0.99": "99thPercentile",
    "0.999": "999thPercentile",
}


class _Group(NamedTuple):
    """Metrics that make up the same MBeans."""

    domain: str
    fixed: tuple[tuple[str, str], ...]
    tags: tuple[str, ...]
    metrics: list[tuple[Metric, str]]
    """Each with the attribute that it is; empty of one that is the whole MBean."""


def _groups() -> list[_Group]:
    groups: dict[tuple[str, ...], _Group] = {}
    for metric in METRICS:
        found = _BEAN.fullmatch(metric.bean)
        if found is None or metric.only == "strimzi":
            continue  # Kafka has no MBean of it
        domain, kind, name, attribute = found.groups()
        fixed = (("type", kind), ("name", name)) if name else (("type", kind),)
        key = (domain, kind, name or "", *metric.tags)
        group = groups.setdefault(key, _Group(domain, fixed, metric.tags, []))
        group.metrics.append((metric, attribute or ""))
    return list(groups.values())


GROUPS = _groups()


class MBeans:
    def __init__(self, sources: MetricSources, meters: Meters) -> None:
        self._sources = sources
        self._meters = meters

    def matching(self, pattern: NamePattern) -> Iterator[MBean | None]:
        """None is a place to rest at."""
        for group in GROUPS:
            if not pattern.may_have(group.domain, group.fixed, group.tags):
                continue
            found: dict[Tags, Attributes] = {}
            for metric, attribute in group.metrics:
                for number, sample in enumerate(READERS[metric.bean](self._sources)):
                    if sample is None or number % NAMES_PER_LOOK == 0:
                        yield None
                    if sample is None:
                        continue
                    tags, value = sample
                    if not attribute:
                        name = _name(group, tags)
                        if pattern.means(name):
                            yield name, self._attributes(metric, tags, value)
                    else:
                        found.setdefault(tags, {})[attribute] = _plain(value)
            for number, (tags, attributes) in enumerate(found.items()):
                if number % NAMES_PER_LOOK == 0:
                    yield None
                name = _name(group, tags)
                if pattern.means(name):
                    yield name, attributes
            yield None

    def _attributes(self, metric: Metric, tags: Tags, value: Any) -> Attributes:
        if metric.kind is Kind.QUANTILES:
            assert isinstance(value, Summary)
            told = {PERCENTILES[name]: number for name, number in value.quantiles}
            return {"Count": value.number, **told}
        if metric.kind is Kind.COUNTER and metric.bean.endswith("PerSec"):
            one, five, fifteen = self._meters.rates.of(metric.bean, tags)
            return {
                "Count": value,
                "OneMinuteRate": one,
                "FiveMinuteRate": five,
                "FifteenMinuteRate": fifteen,
                "MeanRate": value / self._meters.age_seconds(),
                "RateUnit": "SECONDS",
            }
        if metric.bean.endswith("RequestHandlerAvgIdlePercent"):
            return {"Value": value, "OneMinuteRate": value}
        return {"Value": _plain(value)}


def _plain(value: Any) -> Any:
    """Kafka counts what is so as 1."""
    return int(value) if isinstance(value, bool) else value


def _name(group: _Group, tags: Tags) -> ObjectName:
    return object_name(group.domain, (*group.fixed, *zip(group.tags, tags, strict=False)))
