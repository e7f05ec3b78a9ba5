"""Where each value in force comes from: what DescribeConfigs tells about topics, brokers, groups.

A value is taken from the first layer that has it: the topic, this broker's dynamic settings, the
cluster's dynamic settings, the file, the default. A setting that falls back to another one
(milliseconds to minutes to hours) lists that one as a synonym.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from moldau.config.broker_config import BrokerConfig
from moldau.config.client_metrics_config import ClientMetricsConfig
from moldau.config.group_config import GroupConfig
from moldau.config.setting_definition import (
    LONG_MAX,
    ConfigError,
    Kind,
    Long,
    Scope,
    Setting,
    Settings,
    setting,
    value_text,
)
from moldau.config.topic_config import TopicConfig


class Source(IntEnum):
    """Numbered as DescribeConfigs does."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    name: str
    value: str | None
    """None also if the value is secret."""
    source: Source
    kind: Kind
    synonyms: tuple[Synonym, ...] = ()
    """Every layer that has a value, the one in force first."""
    is_sensitive: bool = False
    read_only: bool = False
    documentation: str | None = None


class BrokerLayers(NamedTuple):
    """A broker's settings by where they were made."""

    static: BrokerConfig
    """Only what its file says counts here, whatever was changed since."""
    dynamic_default: Mapping[str, str] = {}
    dynamic: Mapping[str, str] = {}

    def texts(self) -> tuple[tuple[Source, Mapping[str, str]], ...]:
        return (
            (Source.DYNAMIC_BROKER, self.dynamic),
            (Source.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            (Source.STATIC_BROKER, self.static.given),
        )

    def current(self) -> BrokerConfig:
        """What is in force. Dynamic settings that are no longer valid are passed over, as they
        are when a broker starts with them."""
        merged = {**self.dynamic_default, **self.dynamic}
        if merged == self.static.overrides:
            return self.static
        try:
            return self.static.with_overrides(merged)
        except ConfigError:
            rows = BrokerConfig.rows
            return self.static.with_overrides(
                {k: text for k, text in merged.items() if k in rows and rows[k].allows(text)}
            )


class RateSettings(Settings):
    """Set while a broker runs and never in its file: how fast replicas may move. Listed only
    where they are set; `replication/` reads them from the cluster's settings."""

    leader_replication_throttled_rate: Long = setting(
        "leader.replication.throttled.rate",
        LONG_MAX,
        at_least=0,
        doc="Bytes per second that this broker sends to throttled replicas that are not in sync.",
    )
    follower_replication_throttled_rate: Long = setting(
        "follower.replication.throttled.rate",
        LONG_MAX,
        at_least=0,
        doc="Bytes per second that throttled replicas of this broker fetch.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: Long = setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG_MAX,
        at_least=0,
        doc="Bytes per second that are copied between log directories.",
    )


NOT_KAFKAS = frozenset(
    {
        "advertised.host.name",
        "advertised.port",
        "allow.everyone.if.no.acl.found",
        "host.name",
        "log4j.configuration",
        "port",
        "super.users",
    }
)
"""Of releases before 3.0, or of an authorizer: Kafka's own table has none of them, so a broker that
has them in its file lists them without their values."""
FALLBACKS = {
    "log.retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.retention.minutes": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.ms", "log.roll.hours"),
    "log.roll.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}
"""Settings that take their value from another one while they have none of their own."""


def topic_defaults(broker: BrokerLayers) -> dict[str, Entry]:
    """Every setting of a topic that overrides none, by name."""
    current = broker.current()
    entries = {}
    for key, row in sorted(TopicConfig.rows.items()):
        if row.synonym is None:
            entries[key] = _entry(key, row, row.default_text, (), read_only=False)
        else:
            value = value_text(getattr(current, BrokerConfig.rows[row.synonym].name))
            synonyms = _broker_synonyms(row.synonym, broker)
            entries[key] = _entry(key, row, value, synonyms, read_only=False)
    return entries


def topic_entries(overrides: Mapping[str, str], defaults: Mapping[str, Entry]) -> list[Entry]:
    """Every setting of a topic, by name; `defaults` is what `topic_defaults` returned."""
    own = {TopicConfig.aliases.get(key, key): text for key, text in overrides.items()}
    entries = []
    for key, default in defaults.items():
        row = TopicConfig.rows[key]
        if key in own:
            value = _text(row, own[key])
            synonyms = (Synonym(key, value, Source.TOPIC), *default.synonyms)
            entries.append(_entry(key, row, value, synonyms, read_only=False))
        elif not row.hidden:
            entries.append(default)
    return entries


def broker_entries(broker: BrokerLayers) -> list[Entry]:
    """Every setting of one broker, by name, also those that no row knows."""
    entries = []
    for key, row in BrokerConfig.rows.items():
        if not row.hidden or (key not in NOT_KAFKAS and _is_set(key, broker)):
            synonyms = _broker_synonyms(key, broker)
            value = synonyms[0].value if synonyms else None
            if key in ("node.id", "broker.id"):
                value = str(broker.static.node_id)
            entries.append(_entry(key, row, value, synonyms, row.scope is Scope.READ_ONLY))
    others = {
        key
        for _, texts in broker.texts()
        for key in texts
        if key not in BrokerConfig.rows or key in NOT_KAFKAS
    }
    return sorted(entries + [_other_entry(key, broker) for key in others])


def _is_set(key: str, broker: BrokerLayers) -> bool:
    return any(key in texts for _, texts in broker.texts())


def default_broker_entries(dynamic_default: Mapping[str, str]) -> list[Entry]:
    """What was set for all brokers of the cluster, by name."""
    entries = []
    for key, text in dynamic_default.items():
        row = _row(key)
        sensitive = row is None or row.is_sensitive
        value = None if row is None or sensitive else _text(row, text)
        synonyms = (Synonym(key, value, Source.DYNAMIC_DEFAULT_BROKER),)
        if row is None:
            source = Source.DYNAMIC_DEFAULT_BROKER
            entries.append(Entry(key, None, source, Kind.UNKNOWN, synonyms, is_sensitive=True))
        else:
            entries.append(_entry(key, row, value, synonyms, row.scope is Scope.READ_ONLY))
    return sorted(entries)


def group_entries(overrides: Mapping[str, str], broker: BrokerLayers) -> list[Entry]:
    """Every setting of a group, by name; a group need not exist to have settings."""
    entries = []
    for key, row in sorted(GroupConfig.rows.items()):
        if row.synonym is not None:
            synonyms = _broker_synonyms(row.synonym, broker)
        else:
            synonyms = (Synonym(key, row.default_text, Source.DEFAULT),)
        if key in overrides:
            synonyms = (Synonym(key, _text(row, overrides[key]), Source.GROUP), *synonyms)
        entries.append(_entry(key, row, synonyms[0].value, synonyms, read_only=False))
    return entries


def client_metrics_entries(overrides: Mapping[str, str]) -> list[Entry]:
    entries = []
    for key, row in sorted(ClientMetricsConfig.rows.items()):
        if key in overrides:
            value = _text(row, overrides[key])
            synonyms = (Synonym(key, value, Source.CLIENT_METRICS),)
            entries.append(_entry(key, row, value, synonyms, read_only=False))
        else:
            entries.append(_entry(key, row, row.default_text, (), read_only=False))
    return entries


def _entry(
    key: str, row: Setting, value: str | None, synonyms: tuple[Synonym, ...], read_only: bool
) -> Entry:
    return Entry(
        key,
        None if row.is_sensitive else value,
        synonyms[0].source if synonyms else Source.DEFAULT,
        row.kind,
        synonyms,
        row.is_sensitive,
        read_only,
        row.sentence,
    )


def _broker_synonyms(key: str, broker: BrokerLayers) -> tuple[Synonym, ...]:
    return _synonyms(FALLBACKS.get(key, (key,)), key, broker)


def _synonyms(keys: Iterable[str], head: str, broker: BrokerLayers) -> tuple[Synonym, ...]:
    """As Kafka: layer by layer, from the first that is about the key itself."""
    found = []
    for source, texts in broker.texts():
        for key in keys:
            if key in texts:
                row = _row(key)
                value = None if row is None or row.is_sensitive else _text(row, texts[key])
                found.append(Synonym(key, value, source))
    for key in keys:
        row = BrokerConfig.rows.get(key)
        if row is not None and row.default is not None:
            found.append(Synonym(key, row.default_text, Source.DEFAULT))
    while found and found[0].name != head:
        del found[0]
    return tuple(found)


def _other_entry(key: str, broker: BrokerLayers) -> Entry:
    """A key outside the table. Nobody knows what it holds, so its value is never shown, unless
    it is a known setting made for one listener."""
    row = _row(key)
    keys = (key,) if row is None or row.key == key else (key, row.key)
    synonyms = _synonyms(keys, key, broker)
    value = synonyms[0].value
    kind = Kind.UNKNOWN if row is None else row.kind
    sensitive = row is None or row.is_sensitive
    return Entry(key, value, synonyms[0].source, kind, synonyms, sensitive, read_only=True)


def _row(key: str) -> Setting | None:
    """What Kafka knows of a key, if it knows it at all."""
    if key in NOT_KAFKAS:
        return None
    return BrokerConfig.row_of(key) or RateSettings.rows.get(key)


def _text(row: Setting, text: str) -> str | None:
    """The text as the broker understood it; as it stands if it is not valid any more."""
    try:
        return value_text(row.parse(text))
    except ConfigError:
        return text
