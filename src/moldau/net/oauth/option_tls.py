"""TLS to a token server: the options `ssl.*` of the log-in module, as in Kafka. What secures the
listener or the client's own connections does not count here."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from moldau.config.client_settings.security_settings import SecuritySettings
from moldau.config.setting_definition import HIDDEN, ConfigError
from moldau.net.tls.contexts import client_context
from moldau.net.tls.pem_blocks import StoreFault

PREFIX = "ssl."


def context_by(key: str, options: Mapping[str, str]) -> ssl.SSLContext:
    """Raises ConfigError."""
    values = dict(SecuritySettings.defaults)
    for name, text in options.items():
        if not name.startswith(PREFIX):
            continue
        row = SecuritySettings.rows.get(name)
        if row is None:
            raise ConfigError(key, HIDDEN, f"the log-in module's option {name} is not known")
        values[row.name] = row.parse(text)
    try:
        return client_context(SecuritySettings(values))
    except StoreFault as fault:
        raise ConfigError(key, HIDDEN, f"TLS to the token server: {fault}") from None


def tls_options(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, v) for k, v in options.items() if k.startswith(PREFIX)))
