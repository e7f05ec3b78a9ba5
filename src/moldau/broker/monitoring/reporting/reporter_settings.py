"""Which reporters the settings ask for; known before anything of them is imported."""

from __future__ import annotations

import re

from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import HIDDEN, ConfigError
from moldau.config.value_checks import JMX_REPORTER

CSV = "csv"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


def wants_reporters(config: BrokerConfig) -> bool:
    return bool(
        is_csv_on(config)
        or config.metrics_json_file is not None
        or config.metrics_otlp_endpoint is not None
        or own_reporters(config)
    )


def is_csv_on(config: BrokerConfig) -> bool:
    """As in Apache Kafka: the class is named, and it is switched on."""
    return bool(config.kafka_metrics_reporters) and config.kafka_csv_metrics_reporter_enabled


def own_reporters(config: BrokerConfig) -> list[str]:
    return [path for path in config.metric_reporters if path != JMX_REPORTER]


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
