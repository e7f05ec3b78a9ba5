"""What the settings say about single reporters."""

from __future__ import annotations

import re

from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import HIDDEN, ConfigError

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


def otlp_headers(config: BrokerConfig) -> dict[str, str]:
    """Raises ConfigError, which does not quote them: they hold keys."""
    headers: dict[str, str] = {}
    for pair in filter(None, (config.metrics_otlp_headers or "").split(",")):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            limit = "must be name=value,name=value, of visible ASCII characters"
            raise ConfigError("metrics.otlp.headers", HIDDEN, limit)
        headers[name] = value
    return headers
