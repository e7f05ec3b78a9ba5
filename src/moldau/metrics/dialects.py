"""The names and labels of a metric in Prometheus, as two families of dashboards ask for them.

Apache Kafka has MBeans; whoever exports them gives them names by rules. Those of Strimzi and of the
JMX exporter's examples turn `PerSec` into `_total` and keep the case of labels; Confluent's keep
`persec`, write labels in lower case and give few types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import NamedTuple

from moldau.metrics.metric_definition import Kind, Metric, jmx_parts, plain_name


class Dialect(Enum):
    """Values of `metrics.http.dialect`."""

    STRIMZI = "strimzi"
    CONFLUENT = "confluent"


class Written(NamedTuple):
    """How a metric is written."""

    name: str
    type: str
    tags: tuple[str, ...]
    count_name: str
    """Of a metric with quantiles; the same name if they stand together."""


@cache
def written(metric: Metric, dialect: Dialect) -> Written:
    if dialect is Dialect.CONFLUENT and ":" in metric.bean:
        name = _confluent_name(metric)
        tags = tuple(_confluent_tag(tag, metric.bean) for tag in metric.tags)
        is_attribute = bool(jmx_parts(metric.bean)[3])
        is_gauge = is_attribute or metric.by_partition or metric.bean in _CONFLUENT_NAMES
        return Written(name, "gauge" if is_gauge else "untyped", tags, name)
    types = {Kind.COUNTER: "counter", Kind.GAUGE: "gauge", Kind.QUANTILES: "summary"}
    name = metric.prometheus_name
    return Written(name, types[metric.kind], metric.tags, f"{name}_count")


def metrics_in(dialect: Dialect, metrics: Iterable[Metric]) -> list[Metric]:
    return [row for row in metrics if row.only in ("", dialect.value)]


_CONFLUENT_NAMES = {
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent": (
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate"
    ),
    "kafka.server:type=socket-server-metrics/connections-software": (
        "kafka_server_socketservermetrics_connections"
    ),
}
_CONFLUENT_TAGS = {
    "networkProcessor": "network_processor",
    "clientSoftwareName": "client_software_name",
    "clientSoftwareVersion": "client_software_version",
    "client-id": "client_id",
}
"""What the rules give another name; all else is in lower case."""
_DEPRECATED = "kafka.network:type=RequestMetrics,name=DeprecatedRequestsPerSec"
_DEPRECATED_TAGS = {"request": "api_name", "version": "api_version"}


def _confluent_name(metric: Metric) -> str:
    known = _CONFLUENT_NAMES.get(metric.bean)
    if known is not None:
        return known
    domain, kind, name, attribute = jmx_parts(metric.bean)
    if kind == "socket-server-metrics":
        kind = "socketservermetrics"
        attribute = attribute.removesuffix("-total")
    return plain_name("_".join(filter(None, ("kafka", domain, kind, name, attribute))))


def _confluent_tag(tag: str, bean: str) -> str:
    if bean.startswith(_DEPRECATED) and tag in _DEPRECATED_TAGS:
        return _DEPRECATED_TAGS[tag]
    is_renamed = "socket-server-metrics" in bean or bean.startswith(_DEPRECATED) or "-" in tag
    return _CONFLUENT_TAGS[tag] if is_renamed and tag in _CONFLUENT_TAGS else tag.lower()


def label_name(tag: str) -> str:
    return re.sub(r"\W", "_", tag)
