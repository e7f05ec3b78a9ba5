"""Settings of the clients: what all of them share, and how a table is read.

Keys are Kafka's own. Values may be text, as in a properties file, or the Python values they stand
for; a setting that names a class also takes the class or an object of it. In keyword arguments
the dots of a key are underscores. What a user should know comes back as sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from moldau.config.client_settings.security_settings import (
    SecuritySettings,
    not_built,
    settle_protocol,
)
from moldau.config.setting_definition import (
    HIDDEN,
    MINUTE,
    SECOND,
    ConfigError,
    Kind,
    Long,
    Names,
    Setting,
    setting,
    suggestion,
    value_text,
)

OPEN_PREFIXES = ("config.providers.", "metrics.", "auto.include.jmx.reporter")
"""Families of keys that nobody can list; kept, not warned about."""


class KeyConstants(type):
    """Gives each table Kafka's constants: `ProducerConfig.LINGER_MS_CONFIG` is "linger.ms"."""

    irregular: ClassVar[dict[str, str]] = {
        "KEY_SERIALIZER_CLASS": "key.serializer",
        "VALUE_SERIALIZER_CLASS": "value.serializer",
        "KEY_DESERIALIZER_CLASS": "key.deserializer",
        "VALUE_DESERIALIZER_CLASS": "value.deserializer",
    }

    def __getattr__(cls, name: str) -> str:
        plain = name.removesuffix("_CONFIG")
        key = KeyConstants.irregular.get(plain, plain.lower().replace("_", "."))
        if plain.isupper() and key in cls.__dict__.get("rows", {}):
            return key
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


class ClientSettings(SecuritySettings, metaclass=KeyConstants):
    bootstrap_servers: Names = setting(
        "bootstrap.servers",
        (),
        aliases=("metadata.broker.list", "broker.list"),
        doc="Brokers to ask for the rest of the cluster, as host:port,host:port.",
    )
    client_id: str = setting(
        "client.id", "", doc="Name of this client in the broker's logs and quotas."
    )
    client_dns_lookup: str = setting(
        "client.dns.lookup",
        "use_all_dns_ips",
        one_of=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        no_effect="every address is tried, and no canonical name is looked up",
        doc="Whether every address of a host name is tried, one after the other.",
    )
    client_rack: str = setting(
        "client.rack", "", doc="Where this client runs, to read from a replica nearby."
    )
    request_timeout_ms: int = setting(
        "request.timeout.ms",
        30 * SECOND,
        at_least=0,
        aliases=("timeout.ms",),
        doc="How long a request may take before it fails or is sent again.",
    )
    default_api_timeout_ms: int = setting(
        "default.api.timeout.ms",
        MINUTE,
        at_least=0,
        doc="How long a call may take that is given no time-out, with all its retries.",
    )
    retry_backoff_ms: Long = setting(
        "retry.backoff.ms", 100, at_least=0, doc="Pause before a failed request is sent again."
    )
    retry_backoff_max_ms: Long = setting(
        "retry.backoff.max.ms",
        SECOND,
        at_least=0,
        doc="Longest pause; each further failure doubles the pause up to this.",
    )
    reconnect_backoff_ms: Long = setting(
        "reconnect.backoff.ms", 50, at_least=0, doc="Pause before a broker is connected to again."
    )
    reconnect_backoff_max_ms: Long = setting(
        "reconnect.backoff.max.ms",
        SECOND,
        at_least=0,
        doc="Longest pause; each further failure doubles the pause up to this.",
    )
    socket_connection_setup_timeout_ms: Long = setting(
        "socket.connection.setup.timeout.ms",
        10 * SECOND,
        at_least=0,
        doc="How long opening a connection may take.",
    )
    socket_connection_setup_timeout_max_ms: Long = setting(
        "socket.connection.setup.timeout.max.ms",
        30 * SECOND,
        at_least=0,
        doc="Longest time; each further failure doubles the time up to this.",
    )
    connections_max_idle_ms: Long = setting(
        "connections.max.idle.ms",
        9 * MINUTE,
        at_least=-1,
        doc="Close a connection that was not used for so long; -1 keeps it.",
    )
    metadata_max_age_ms: Long = setting(
        "metadata.max.age.ms",
        5 * MINUTE,
        at_least=0,
        doc="Ask for the cluster's metadata again after this time, even if nothing failed.",
    )
    metadata_recovery_strategy: str = setting(
        "metadata.recovery.strategy",
        "rebootstrap",
        one_of=("none", "rebootstrap"),
        ignore_case=True,
        no_effect="bootstrap.servers are always asked again",
        doc="Whether to start from bootstrap.servers again when no known broker answers.",
    )
    metadata_recovery_rebootstrap_trigger_ms: Long = setting(
        "metadata.recovery.rebootstrap.trigger.ms",
        5 * MINUTE,
        at_least=0,
        no_effect="bootstrap.servers are asked as soon as no known broker answers",
        doc="How long no broker may answer before bootstrap.servers are asked again.",
    )
    # Kafka fixes these two at 128 and 32 or 64 KiB; the kernel's own sizes are faster (decision 5).
    send_buffer_bytes: int = setting(
        "send.buffer.bytes", -1, at_least=-1, doc="The socket's send buffer; -1 is the kernel's."
    )
    receive_buffer_bytes: int = setting(
        "receive.buffer.bytes",
        -1,
        at_least=-1,
        doc="The socket's receive buffer; -1 is the kernel's.",
    )
    enable_metrics_push: bool = setting(
        "enable.metrics.push",
        True,
        doc="Send metrics to a broker that asks for them.",
    )
    metric_reporters: Names = setting(
        "metric.reporters",
        (),
        no_effect="metrics have no reporters",
        doc="Classes told of metrics.",
    )

    given: Mapping[str, Any]
    """What the user said, by key; aliases are already resolved."""

    @classmethod
    def parse(
        cls, config: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> tuple[Self, list[str]]:
        """The settings and what the user should know; ConfigError if a value is not allowed.

        `ProducerConfig.parse({"bootstrap.servers": "localhost:9092"}, linger_ms=5)`
        """
        given: dict[str, Any] = {}
        warnings: list[str] = []
        for key, value in [*(config or {}).items(), *keywords.items()]:
            name = cls._key(key)
            meant = cls.aliases.get(name, name)
            if meant != name:
                warnings.append(f"{name} is read as {meant}: use that name")
            given[meant] = value
        values = dict(cls.defaults)
        for key, value in given.items():
            row = cls.rows.get(key)
            if row is not None and value is not None:
                values[row.name] = _typed(row, value)
        settle_protocol(values, given)
        values["given"] = given
        warnings += cls._remarks(given)
        warnings += cls._resolve(values, given)
        return cls(values), warnings

    @classmethod
    def _key(cls, key: str) -> str:
        if key in cls.rows or "_" not in key:
            return key
        dotted = key.replace("_", ".")
        is_known = dotted in cls.rows or dotted in cls.aliases or not_built(dotted) is not None
        return dotted if is_known else key

    @classmethod
    def _resolve(cls, values: dict[str, Any], given: Mapping[str, Any]) -> list[str]:
        """Fills in what depends on other settings and checks what no row can; remarks."""
        return []

    @classmethod
    def _remarks(cls, given: Mapping[str, Any]) -> list[str]:
        remarks = []
        idle = []
        for key in given:
            row = cls.rows.get(key)
            if row is None and not key.startswith(OPEN_PREFIXES) and not_built(key) is None:
                remarks.append(f"unknown configuration key {key}{suggestion(key, cls.rows)}")
            elif row is not None and row.no_effect is not None:
                idle.append(key)
        if idle:
            remarks.append(f"accepted without effect: {', '.join(sorted(idle))}")
        return remarks


def _typed(row: Setting, value: Any) -> Any:
    """Text is parsed; a Python value is checked as its text; classes and objects are kept."""
    if row.kind is Kind.LIST and not isinstance(value, str):
        items = tuple(value) if isinstance(value, list | tuple | set) else (value,)
        if all(isinstance(item, str) for item in items):
            return row.parse(",".join(items))
        return items
    if row.kind is Kind.CLASS and not isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and row.kind is not Kind.DOUBLE:
        value = int(value)
    if not isinstance(value, str | bool | int | float):
        shown = HIDDEN if row.is_sensitive else value
        raise ConfigError(row.key, shown, f"a {type(value).__name__} is not a {row.kind.name}")
    return row.parse(value_text(value) or "")
