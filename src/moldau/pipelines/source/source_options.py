"""The options of the source, named as Spark's Kafka connector names them.

A job moves over by changing the format's name, so what the connector takes is taken and means the
same; what it refuses is refused. A name that neither knows is refused too, since a misspelt
option would silently do nothing. Names are compared without case, as Spark does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.config.setting_definition import ConfigError, suggestion
from moldau.model.names import TopicPartition
from moldau.pipelines.hidden_settings import HiddenSettings
from moldau.pipelines.source.source_offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    parse_offsets,
    parse_partitions,
)

T = TypeVar("T")

SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
STARTINGS = ("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp")
ENDINGS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
OWN = ("commitGroup",)
NAMES = (
    *SUBSCRIPTIONS,
    *STARTINGS,
    *ENDINGS,
    *("startingOffsetsByTimestampStrategy", "failOnDataLoss", "includeHeaders"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("minPartitions", "maxRecordsPerPartition", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs"),
    *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    *OWN,
)
REFUSED = {
    "auto.offset.reset": "the option startingOffsets says where to start",
    "key.deserializer": "keys are bytes; decode them with DataFrame code",
    "value.deserializer": "values are bytes; decode them with DataFrame code",
    "enable.auto.commit": "Spark keeps the progress; the option commitGroup tells it to a group",
    "interceptor.classes": "records come as the broker has them",
}
POLL_TIMEOUT_MS = 120_000
TRIGGER_DELAY_MS = 15 * 60_000
FETCH_BYTES = 8 * 1024 * 1024
"""More than a consumer asks for: a task reads one partition, and becomes one Arrow batch of it."""

_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class SourceError(Exception):
    """What a user can mend, in one sentence."""


class OptionError(SourceError, ValueError):
    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"The option {name} cannot be {value!r}: {reason}")


class Edge(NamedTuple):
    """Where reading starts or ends: `offsets` or `timestamps` of partitions, or all at one of
    `default` (EARLIEST or LATEST) and `timestamp`."""

    default: int = EARLIEST
    offsets: Offsets | None = None
    timestamps: Offsets | None = None
    timestamp: int | None = None

    def is_at(self, place: int) -> bool:
        """Whether any partition is at EARLIEST or LATEST by name."""
        if self.timestamp is not None or self.timestamps is not None:
            return False
        return self.default == place if self.offsets is None else place in self.offsets.values()


class Subscription(NamedTuple):
    """One of the three is given."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    settings: dict[str, str]
    """Kafka's own settings, without the prefix."""
    subscription: Subscription
    start: Edge
    end: Edge
    latest_if_no_timestamp: bool = False
    fail_on_data_loss: bool = True
    include_headers: bool = False
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_ms: int = TRIGGER_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    poll_timeout_ms: int = POLL_TIMEOUT_MS
    commit_group: str | None = None

    @property
    def bootstrap(self) -> str:
        return self.settings["bootstrap.servers"]

    @property
    def consumer(self) -> ConsumerConfig:
        return ConsumerConfig.parse(self.settings)[0]


def parse_options(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """OptionError says which option is wrong and why."""
    given = {name.lower(): str(value) for name, value in options.items()}
    settings = _settings(given)
    _check_names(given)
    if is_stream:
        for name in ENDINGS:
            if name.lower() in given:
                raise OptionError(name, given[name.lower()], "a stream has no end")
    start = _edge(given, "starting", LATEST if is_stream else EARLIEST)
    end = _edge(given, "ending", LATEST)
    if not is_stream:
        _check_batch(given, start, end)
    max_offsets = _number(given, "maxOffsetsPerTrigger")
    min_offsets = _number(given, "minOffsetsPerTrigger")
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise OptionError(
            "minOffsetsPerTrigger", min_offsets, f"maxOffsetsPerTrigger is {max_offsets}"
        )
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError("startingOffsetsByTimestampStrategy", strategy, "use error or latest")
    delay = given.get("maxtriggerdelay")
    return SourceOptions(
        settings=HiddenSettings(settings),
        subscription=_subscription(given),
        start=start,
        end=end,
        latest_if_no_timestamp=strategy == "latest",
        fail_on_data_loss=_flag(given, "failOnDataLoss", True),
        include_headers=_flag(given, "includeHeaders", False),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_trigger_delay_ms=TRIGGER_DELAY_MS if delay is None else parse_duration_ms(delay),
        min_partitions=_number(given, "minPartitions"),
        max_records_per_partition=_number(given, "maxRecordsPerPartition"),
        poll_timeout_ms=_number(given, "kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS,
        commit_group=given.get("commitgroup") or settings.get("group.id"),
    )


def parse_duration_ms(text: str) -> int:
    """Spark's way to write times: 500ms, 10s, 15m, 2h, 1d."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in _UNITS_MS:
        raise OptionError("maxTriggerDelay", text, "write for instance 500ms, 10s, 15m or 1h")
    return int(int(found[1]) * _UNITS_MS[found[2]])


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    settings = {
        name.removeprefix("kafka."): value
        for name, value in given.items()
        if name.startswith("kafka.")
    }
    if not settings.get("bootstrap.servers"):
        raise SourceError(
            "The option kafka.bootstrap.servers is missing: name at least one broker as host:port"
        )
    for name, reason in REFUSED.items():
        if name in settings:
            raise OptionError(f"kafka.{name}", settings[name], reason)
    settings.setdefault("max.partition.fetch.bytes", str(FETCH_BYTES))
    try:
        ConsumerConfig.parse(settings)
    except ConfigError as fault:
        raise OptionError(f"kafka.{fault.key}", fault.value, fault.limit) from None
    return settings


def _check_names(given: Iterable[str]) -> None:
    known = {name.lower(): name for name in NAMES}
    for name in given:
        if name not in known and not name.startswith("kafka."):
            close = suggestion(name, known)
            for lower, right in known.items():
                close = close.replace(lower + "?", right + "?")
            raise SourceError(f"The format moldau has no option {name}{close}")


def _subscription(given: Mapping[str, str]) -> Subscription:
    chosen = [name for name in SUBSCRIPTIONS if name.lower() in given]
    if len(chosen) != 1:
        raise SourceError(
            f"Exactly one of the options {', '.join(SUBSCRIPTIONS)} says what to read, "
            f"and {' and '.join(chosen) or 'none'} was given"
        )
    name = chosen[0]
    value = given[name.lower()].strip()
    if name == "assign":
        return Subscription(assigned=_checked(name, value, parse_partitions))
    if name == "subscribePattern":
        try:
            re.compile(value)
        except re.error as fault:
            raise OptionError(name, value, f"it is no regular expression: {fault}") from None
        if not value:
            raise OptionError(name, value, "it is empty")
        return Subscription(pattern=value)
    topics = tuple(dict.fromkeys(filter(None, (topic.strip() for topic in value.split(",")))))
    if not topics:
        raise OptionError(name, value, "it names no topic")
    return Subscription(topics=topics)


def _edge(given: Mapping[str, str], side: str, default: int) -> Edge:
    """Of the three options for one side a timestamp for all wins, then timestamps."""
    text = given.get(f"{side}timestamp")
    if text is not None:
        return Edge(timestamp=_millis(f"{side}Timestamp", text))
    name = f"{side}OffsetsByTimestamp"
    text = given.get(name.lower())
    if text is not None:
        stamps = _checked(name, text, lambda value: parse_offsets(value, "timestamp"))
        for tp, stamp in stamps.items():
            if stamp < 0:
                raise OptionError(name, text, f"{stamp} of {tp} is no time")
        return Edge(timestamps=stamps)
    name = f"{side}Offsets"
    text = given.get(name.lower(), "").strip()
    if text.lower() in ("earliest", "latest"):
        return Edge(EARLIEST if text.lower() == "earliest" else LATEST)
    if not text:
        return Edge(default)
    if not text.startswith("{"):
        raise OptionError(name, text, "use earliest, latest, or JSON with an offset per partition")
    offsets = _checked(name, text, parse_offsets)
    for tp, offset in offsets.items():
        if offset < EARLIEST:
            raise OptionError(name, text, f"{offset} of {tp} is no offset")
    return Edge(offsets=offsets)


def _check_batch(given: Mapping[str, str], start: Edge, end: Edge) -> None:
    """A batch must not start at the end, nor end at the start."""
    places = (("startingOffsets", start, LATEST), ("endingOffsets", end, EARLIEST))
    for name, edge, wrong in places:
        word = "latest" if wrong == LATEST else "earliest"
        text = given.get(name.lower(), "")
        if edge.is_at(wrong):
            raise OptionError(name, text, f"a batch cannot use {word} ({wrong}) there")


def _checked(name: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ValueError as fault:
        raise OptionError(name, text, str(fault)) from None


def _millis(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise OptionError(name, text, "a timestamp is a number of milliseconds since 1970")
    return int(text)


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise OptionError(name, text, "it must be a whole number of at least 1")
    return int(text)


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(name, text, "use true or false")
    return text.strip().lower() == "true"
