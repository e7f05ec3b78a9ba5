"""The broker's configuration: the tables of settings put together, read and cross-checked.

Attributes hold what is in force: `log_retention_ms` is a number even if only hours were given,
`log_dirs` is never empty, `node_id` is broker.id if that was the key used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moldau.config.broker_cluster import ClusterSettings
from moldau.config.broker_foreign import ForeignSettings
from moldau.config.broker_groups import GroupSettings
from moldau.config.broker_log import LogSettings
from moldau.config.broker_network import NetworkSettings
from moldau.config.broker_security import SecuritySettings
from moldau.config.broker_share import ShareSettings
from moldau.config.definition import HOUR, MINUTE, ConfigError, Setting, suggestion
from moldau.config.listeners import listening
from moldau.model.cluster import Endpoint

LISTENER_PREFIX = "listener.name."
OPEN_PREFIXES = (
    LISTENER_PREFIX,
    "config.providers.",
    "kafka.metrics.",
    "rsm.config.",
    "rlmm.config.",
)
"""Families of keys that nobody can list; they are kept and never warned about."""


class BrokerConfig(
    NetworkSettings,
    LogSettings,
    ClusterSettings,
    GroupSettings,
    ShareSettings,
    SecuritySettings,
    ForeignSettings,
):
    given: Mapping[str, str]
    """What the file and the command line say, by key; aliases are already resolved."""
    overrides: Mapping[str, str]
    """What was changed while running, on top of it."""
    bound_endpoints: tuple[Endpoint, ...]
    """Where to listen; an empty host means everywhere, port 0 a free one."""
    advertised_endpoints: tuple[Endpoint, ...]
    """What clients are told; the broker fills in an empty host and port 0."""
    inter_broker_listener: str

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> tuple[BrokerConfig, list[str]]:
        """The configuration and what the operator should know; ConfigError if it cannot be."""
        given: dict[str, str] = {}
        warnings: list[str] = []
        for key, text in properties.items():
            name = cls.aliases.get(key, key)
            if name != key:
                warnings.append(f"{key} is read as {name}: use that name")
                if name in properties:
                    continue
            given[name] = text
        for one, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if one in given:
                given.setdefault(other, given[one])
        warnings += cls._remarks(given)
        return cls._of(given, {}), warnings

    def with_overrides(self, overrides: Mapping[str, str]) -> BrokerConfig:
        """The same broker after dynamic changes; they replace all earlier ones."""
        return self._of(self.given, {self.aliases.get(k, k): v for k, v in overrides.items()})

    def for_listener(self, listener: str) -> BrokerConfig:
        """What holds on one listener, where `listener.name.<name>.<key>` replaces `<key>`."""
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        merged = {**self.given, **self.overrides}
        own = {k[len(prefix) :]: v for k, v in merged.items() if k.lower().startswith(prefix)}
        return self.with_overrides({**self.overrides, **own}) if own else self

    @classmethod
    def row_of(cls, key: str) -> Setting | None:
        """The row of a key, also behind `listener.name.<name>.` or a SASL mechanism's name."""
        row = cls.rows.get(key)
        if row is None and key.startswith(LISTENER_PREFIX):
            _, _, rest = key.removeprefix(LISTENER_PREFIX).partition(".")
            while rest and row is None:
                row = cls.rows.get(rest)
                _, _, rest = rest.partition(".")
        return row

    @classmethod
    def _of(cls, given: Mapping[str, str], overrides: Mapping[str, str]) -> BrokerConfig:
        texts = {**given, **overrides}
        values = dict(cls.defaults)
        for key, text in texts.items():
            row = cls.rows.get(key)
            if row is not None:
                values[row.name] = row.parse(text)
            elif key.startswith(LISTENER_PREFIX):
                _check_for_listener(key, cls.row_of(key), text)
        _resolve(values, texts)
        _cross_check(values)
        places = listening(values, texts)
        values["bound_endpoints"] = places.bound
        values["advertised_endpoints"] = places.advertised
        values["inter_broker_listener"] = places.inter_broker
        values["given"] = given
        values["overrides"] = overrides
        return cls(values)

    @classmethod
    def _remarks(cls, given: Mapping[str, str]) -> Iterator[str]:
        idle = []
        for key, text in given.items():
            row = cls.rows.get(key)
            if row is None:
                if not key.startswith(OPEN_PREFIXES):
                    yield f"unknown configuration key {key}{suggestion(key, cls.rows)}"
            elif row.no_effect is not None and text.strip() != row.default_text:
                idle.append(key)
        if idle:
            yield f"accepted without effect: {', '.join(sorted(idle))}"


def _check_for_listener(key: str, row: Setting | None, text: str) -> None:
    """A value for one listener is held to the same row."""
    if row is not None:
        try:
            row.parse(text)
        except ConfigError as fault:
            raise ConfigError(key, fault.value, fault.limit) from None


def _resolve(values: dict[str, Any], texts: Mapping[str, str]) -> None:
    """Fills in settings whose default is another setting."""
    values["node_id"] = values["broker_id"] = _number_of(values, texts)
    if values["log_dirs"] is None:
        values["log_dirs"] = values["log_dir"]
    retention_ms = values["log_retention_ms"]
    if retention_ms is None:
        minutes = values["log_retention_minutes"]
        hours = values["log_retention_hours"]
        retention_ms = hours * HOUR if minutes is None else minutes * MINUTE
    values["log_retention_ms"] = max(-1, retention_ms)
    if values["log_roll_ms"] is None:
        values["log_roll_ms"] = values["log_roll_hours"] * HOUR
    if values["log_roll_jitter_ms"] is None:
        values["log_roll_jitter_ms"] = values["log_roll_jitter_hours"] * HOUR
    if values["log_flush_interval_ms"] is None:
        values["log_flush_interval_ms"] = values["log_flush_scheduler_interval_ms"]
    if values["zookeeper_connection_timeout_ms"] is None:
        values["zookeeper_connection_timeout_ms"] = values["zookeeper_session_timeout_ms"]
    if values["num_replica_alter_log_dirs_threads"] is None:
        values["num_replica_alter_log_dirs_threads"] = len(values["log_dirs"])


def _number_of(values: Mapping[str, Any], texts: Mapping[str, str]) -> int:
    node_id, broker_id = values["node_id"], values["broker_id"]
    if "node.id" in texts and "broker.id" in texts and node_id != broker_id:
        raise ConfigError(
            "broker.id", broker_id, f"must be the same as node.id, which is {node_id}"
        )
    chosen: int = node_id if "node.id" in texts else broker_id
    if chosen == -1 and values["zookeeper_connect"]:
        limit = "no number is handed out yet; give this broker one that no other has"
        raise ConfigError("broker.id", chosen, limit)
    # Nobody else can hand out a number when there is no ZooKeeper, and nobody else has one.
    return max(0, chosen)


def _cross_check(values: Mapping[str, Any]) -> None:
    """Rules between settings; the ranges of single ones are in their rows."""
    if not values["log_dirs"] or "" in values["log_dirs"]:
        raise ConfigError("log.dirs", ",".join(values["log_dirs"]), "must name a directory")
    if values["log_retention_ms"] == 0:
        limit = "must be -1 (keep for ever) or at least 1"
        raise ConfigError("log.retention.ms", 0, limit)
    queued, largest = values["queued_max_request_bytes"], values["socket_request_max_bytes"]
    if 0 < queued < largest:
        limit = f"must be at least socket.request.max.bytes, which is {largest}"
        raise ConfigError("queued.max.request.bytes", queued, limit)
    for low, high in PAIRS:
        if values[low] > values[high]:
            limit = f"must be at most {_key(high)}, which is {values[high]}"
            raise ConfigError(_key(low), values[low], limit)


def _key(name: str) -> str:
    return name.replace("_", ".")


PAIRS = (
    ("replica_fetch_wait_max_ms", "replica_socket_timeout_ms"),
    ("replica_fetch_wait_max_ms", "replica_lag_time_max_ms"),
    ("log_cleaner_min_compaction_lag_ms", "log_cleaner_max_compaction_lag_ms"),
    ("group_min_session_timeout_ms", "group_max_session_timeout_ms"),
    ("group_consumer_min_session_timeout_ms", "group_consumer_max_session_timeout_ms"),
    ("group_consumer_min_heartbeat_interval_ms", "group_consumer_max_heartbeat_interval_ms"),
    ("group_consumer_heartbeat_interval_ms", "group_consumer_session_timeout_ms"),
    ("group_streams_min_session_timeout_ms", "group_streams_max_session_timeout_ms"),
    ("group_share_min_session_timeout_ms", "group_share_max_session_timeout_ms"),
    ("delegation_token_expiry_time_ms", "delegation_token_max_lifetime_ms"),
)
"""The first must not be above the second."""
