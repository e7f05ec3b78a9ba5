"""kafka-python's keyword settings as Moldau's: most are Kafka's own, with underscores for dots.

What kafka-python knows and Moldau has no use for is passed over, with a warning; what kafka-python
does not know is refused as it does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from moldau.compat.kafka_python import kafka_security
from moldau.compat.kafka_python.errors import KafkaConfigurationError
from moldau.config.client_settings.common_settings import ClientSettings
from moldau.errors import ConfigError

log = logging.getLogger("moldau.compat")

WITHOUT_USE = frozenset(
    [
        "allow_auto_create_topics",
        "api_version",
        "bootstrap_timeout_ms",
        "client_dns_lookup",
        "default_offset_commit_callback",
        "enable_incremental_fetch_sessions",
        "kafka_client",
        "max_in_flight_requests_per_connection",
        "metric_group_prefix",
        "metric_reporters",
        "metrics_enabled",
        "metrics_num_samples",
        "metrics_sample_window_ms",
        "proxy_url",
        "receive_message_max_bytes",
        "selector",
        "socket_options",
        "socks5_proxy",
    ]
)
SILENT = frozenset({"bootstrap_timeout_ms", "api_version", "metrics_enabled"})
"""Nobody misses anything without these."""
BOOTSTRAP_TIMEOUT_MS = 30_000
PORT = 9092


def translated(
    table: type[ClientSettings],
    configs: Mapping[str, Any],
    own: frozenset[str],
    refusal: type[Exception] = KafkaConfigurationError,
) -> dict[str, Any]:
    """The settings for Moldau's client; `own` are those that the caller takes care of."""
    settings: dict[str, Any] = {"bootstrap.servers": servers(configs.get("bootstrap_servers"))}
    unknown = set()
    for name, value in configs.items():
        key = name.replace("_", ".")
        if name in own or name in kafka_security.OWN or name == "bootstrap_servers":
            continue
        if key in table.rows and name not in SILENT:
            if value is not None and value != float("inf"):
                settings[key] = value
        elif name in WITHOUT_USE:
            if name not in SILENT:
                log.warning("%s has no effect on Moldau's client", name)
        else:
            unknown.add(name)
    if unknown:
        raise refusal(f"Unrecognized configs: {unknown}")
    try:
        return settings | kafka_security.security_settings(configs)
    except ConfigError as error:
        raise KafkaConfigurationError(str(error)) from None


def servers(given: Any) -> list[str]:
    texts = given.split(",") if isinstance(given, str) else list(given or ["localhost"])
    return [text if ":" in text else f"{text}:{PORT}" for text in map(str.strip, texts)]


def checked(make: Any, settings: Mapping[str, Any]) -> Any:
    """A client, or kafka-python's exception for settings."""
    try:
        return make(settings)
    except ConfigError as error:
        raise KafkaConfigurationError(str(error)) from None
