"""The broker's configuration: the tables of settings put together, read and cross-checked.

Attributes hold what is in force: `log_retention_ms` is a number even if only hours were given,
`log_dirs` is never empty, `node_id` is broker.id if that was the key used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moldau.config.broker_settings.cluster_settings import ClusterSettings
from moldau.config.broker_settings.coordinator_settings import GroupSettings
from moldau.config.broker_settings.foreign_settings import ForeignSettings
from moldau.config.broker_settings.log_file_settings import LogFileSettings
from moldau.config.broker_settings.network_settings import NetworkSettings
from moldau.config.broker_settings.security_settings import SecuritySettings
from moldau.config.broker_settings.share_group_settings import ShareSettings
from moldau.config.broker_settings.storage_settings import LogSettings
from moldau.config.kerberos_settings import KerberosSettings
from moldau.config.listeners import listening
from moldau.config.setting_definition import HOUR, MINUTE, ConfigError, Setting, suggestion
from moldau.config.token_settings import TokenCheckSettings, TokenLoginSettings
from moldau.model.cluster import Endpoint

LISTENER_PREFIX = "listener.name."
NO_NUMBER = -1
"""The node id of a broker on ZooKeeper that is to be handed one."""
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
    KerberosSettings,
    TokenLoginSettings,
    TokenCheckSettings,
    LogFileSettings,
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
        named = {self.aliases.get(k, k): v for k, v in overrides.items()}
        return self._of(self.given, named, self.node_id)

    def numbered(self, node_id: int) -> BrokerConfig:
        """The same broker once it has the number that its settings do not give it."""
        return self._of(self.given, self.overrides, node_id)

    def for_listener(self, listener: str) -> BrokerConfig:
        """What holds on one listener, where `listener.name.<name>.<key>` replaces `<key>`."""
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        merged = {**self.given, **self.overrides}
        own = {k[len(prefix) :]: v for k, v in merged.items() if k.lower().startswith(prefix)}
        return self.with_overrides({**self.overrides, **own}) if own else self

    def for_mechanism(self, listener: str, mechanism: str) -> BrokerConfig:
        """What holds for one way to log in at it: keys of `for_listener` may have a mechanism in
        front, `listener.name.<name>.<mechanism>.<key>`."""
        prefix = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}."
        merged = {**self.given, **self.overrides}
        own = {k[len(prefix) :]: v for k, v in merged.items() if k.lower().startswith(prefix)}
        at_listener = self.for_listener(listener)
        if not own:
            return at_listener
        return at_listener.with_overrides({**at_listener.overrides, **own})

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
    def _of(
        cls, given: Mapping[str, str], overrides: Mapping[str, str], handed: int = NO_NUMBER
    ) -> BrokerConfig:
        texts = {**given, **overrides}
        values = dict(cls.defaults)
        for key, text in texts.items():
            row = cls.rows.get(key)
            if row is not None:
                values[row.name] = row.parse(text)
            elif key.startswith(LISTENER_PREFIX):
                _check_for_listener(key, cls.row_of(key), text)
        _resolve(values, texts, handed)
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


def _resolve(values: dict[str, Any], texts: Mapping[str, str], handed: int) -> None:
    """Fills in settings whose default is another setting."""
    values["node_id"] = values["broker_id"] = _number_of(values, texts, handed)
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


def _number_of(values: Mapping[str, Any], texts: Mapping[str, str], handed: int) -> int:
    """The broker's number; `handed` is the one it has if its settings give it none."""
    node_id, broker_id = values["node_id"], values["broker_id"]
    if "node.id" in texts and "broker.id" in texts and node_id != broker_id:
        raise ConfigError(
            "broker.id", broker_id, f"must be the same as node.id, which is {node_id}"
        )
    chosen: int = node_id if "node.id" in texts else broker_id
    if values["zookeeper_connect"]:
        _check_number(chosen, values)
        return handed if chosen == NO_NUMBER else chosen
    # Nobody else can hand out a number when there is no ZooKeeper, and nobody else has one.
    return max(0, chosen)


def _check_number(chosen: int, values: Mapping[str, Any]) -> None:
    """People and ZooKeeper must never give two brokers the same number."""
    reserved = values["reserved_broker_max_id"]
    if not values["broker_id_generation_enable"] and chosen == NO_NUMBER:
        limit = "must be at least 0, because broker.id.generation.enable is false"
        raise ConfigError("broker.id", chosen, limit)
    if values["broker_id_generation_enable"] and chosen > reserved:
        limit = f"must be at most reserved.broker.max.id, which is {reserved}"
        raise ConfigError("broker.id", chosen, limit)


DEDUPE_BYTES_MIN = 1024 * 1024
"""Apache Kafka's limit for each thread that compacts."""


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
    threads, buffer = values["log_cleaner_threads"], values["log_cleaner_dedupe_buffer_size"]
    if buffer // max(threads, 1) <= DEDUPE_BYTES_MIN:
        limit = f"must be more than {DEDUPE_BYTES_MIN} for each of the {threads} of "
        raise ConfigError("log.cleaner.dedupe.buffer.size", buffer, limit + "log.cleaner.threads")
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
