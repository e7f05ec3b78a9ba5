"""What clients have pushed last, by client and series: for Prometheus, for `/clients.json`.

Clients choose names and labels, so there is a limit for each: how many clients are kept, how many
series of one and of all. What comes beyond is counted and not kept. Deltas are added up here.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from moldau.metrics.metric_definition import Kind, Metric, Samples
from moldau.metrics.otlp.otlp_reading import Attributes, Point

CLIENTS_MAX = 1_000
SERIES_OF_CLIENT_MAX = 500
SERIES_MAX = 10_000
SERIES_PER_LOOK = 20
LABELS_OF_NAME_MAX = 64
"""Each series of a name has all labels of that name, those of other clients too."""
LENGTH_MAX = 255
"""Of a label's value; the rest is cut off."""
PREFIX = "kafka_client_"
"""Before every name: a client cannot take that of a broker's metric."""
STRIPPED = "org.apache.kafka."
LABELS = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "principal",
)
"""What each series tells of its client, by Kafka's words for it."""

_NO_NAME = re.compile(r"[^a-zA-Z0-9_]+")
Key = tuple[str, Attributes, bool]


class PushingClient:
    __slots__ = ("client", "pushed_at_ms", "values")

    def __init__(self, client: Mapping[str, str]) -> None:
        self.client = client
        self.pushed_at_ms = 0
        """By the wall clock."""
        self.values: dict[Key, float] = {}
        """By name, attributes and whether it is a counter."""


class PushedValues:
    def __init__(self) -> None:
        self._clients: OrderedDict[bytes, PushingClient] = OrderedDict()
        self._count = 0
        self.dropped = 0
        """Values that there was no place for."""

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def series_count(self) -> int:
        return self._count

    def clients(self) -> list[PushingClient]:
        return list(self._clients.values())

    def take(
        self,
        instance_id: bytes,
        client: Mapping[str, str],
        points: Iterable[Point],
        now_ms: int,
    ) -> None:
        pushing = self._clients.get(instance_id)
        if pushing is None:
            if len(self._clients) >= CLIENTS_MAX:
                self.forget(next(iter(self._clients)))
            pushing = self._clients[instance_id] = PushingClient(client)
        self._clients.move_to_end(instance_id)
        pushing.client, pushing.pushed_at_ms = client, now_ms
        values = pushing.values
        for name, attributes, value, is_counter, is_delta in points:
            if not math.isfinite(value):
                continue
            key = (name, attributes, is_counter)
            before = values.get(key)
            if before is None:
                if len(values) >= SERIES_OF_CLIENT_MAX or self._count >= SERIES_MAX:
                    self.dropped += 1
                    continue
                self._count += 1
                before = 0
            values[key] = before + value if is_delta else value

    def forget(self, instance_id: bytes) -> None:
        pushing = self._clients.pop(instance_id, None)
        if pushing is not None:
            self._count -= len(pushing.values)

    def keep(self, is_known: Callable[[bytes], bool]) -> None:
        """Forget all others."""
        for instance_id in [each for each in self._clients if not is_known(each)]:
            self.forget(instance_id)

    def families(self) -> Iterator[tuple[Metric, Samples] | None]:
        """What is told to Prometheus; None is a place to rest at. A name that two clients use for
        different things belongs to the first."""
        found: dict[str, _Family] = {}
        for pushing in self.clients():
            told = {label: pushing.client.get(label, "")[:LENGTH_MAX] for label in LABELS}
            for number, (key, value) in enumerate(list(pushing.values.items()), 1):
                name, attributes, is_counter = key
                kind = Kind.COUNTER if is_counter else Kind.GAUGE
                name = prometheus_name(name, is_counter=is_counter)
                family = found.setdefault(name, _Family(kind, dict.fromkeys(LABELS), []))
                if family.kind is kind:
                    family.add({**_own_labels(attributes), **told}, value)
                if number % SERIES_PER_LOOK == 0:
                    yield None
            yield None
        for name, family in sorted(found.items()):
            metric = Metric(name, family.kind, tuple(family.labels), "Pushed by clients.", "")
            yield metric, family.samples()


class _Family(NamedTuple):
    kind: Kind
    labels: dict[str, None]
    series: list[tuple[dict[str, str], float]]

    def add(self, labels: dict[str, str], value: float) -> None:
        """Labels that the name has no more room for are left out."""
        for label in labels:
            if len(self.labels) < LABELS_OF_NAME_MAX:
                self.labels.setdefault(label)
        self.series.append((labels, value))

    def samples(self) -> Samples:
        """A label that is empty is none to Prometheus; a set of labels is told once."""
        told: set[tuple[str, ...]] = set()
        for own, value in self.series:
            values = tuple(own.get(label, "") for label in self.labels)
            if values not in told:
                told.add(values)
                yield values, value


def prometheus_name(name: str, *, is_counter: bool) -> str:
    words = _NO_NAME.sub("_", name.removeprefix(STRIPPED).lower()).strip("_")
    ending = "_total" if is_counter and not words.endswith("_total") else ""
    return f"{PREFIX}{words}{ending}"


def _own_labels(attributes: Attributes) -> dict[str, str]:
    """Those of the series itself; they cannot say who the client is."""
    own: dict[str, str] = {}
    for key, value in sorted(attributes):
        label = _NO_NAME.sub("_", key)
        if label[:1].isdigit() or label.startswith("__"):
            label = f"attribute_{label.strip('_')}"
        if label and label not in LABELS:
            own[label] = value[:LENGTH_MAX]
    return own
