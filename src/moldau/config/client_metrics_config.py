"""Settings of a subscription to the metrics of clients (KIP-714), and what may be set."""

from __future__ import annotations

import re
from collections.abc import Mapping

from moldau.config.setting_definition import HOUR, MINUTE, ConfigError, Names, Settings, setting
from moldau.model.errors import ApiError, Error

MATCH_KEYS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a client can be picked by."""


def client_patterns(patterns: tuple[str, ...]) -> str | None:
    for pattern in patterns:
        key, *expressions = (part.strip() for part in pattern.split("="))
        if key not in MATCH_KEYS or len(expressions) != 1 or not _is_expression(expressions[0]):
            keys = ", ".join(MATCH_KEYS)
            return f"{pattern} is not key=regular expression with one of the keys {keys}"
    return None


def _is_expression(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return bool(text)


# fmt: off


class ClientMetricsConfig(Settings):
    interval_ms: int = setting(
        "interval.ms", 5 * MINUTE, at_least=100, at_most=1 * HOUR,
        doc="How often a client sends its metrics.")
    metrics: Names = setting(
        "metrics", (),
        doc="Beginnings of the names of metrics that clients send; * stands for all of them.")
    match: Names = setting(
        "match", (), check=client_patterns,
        doc="Which clients are meant, as key=regular expression; all that are named must match.")

    # fmt: on

    @classmethod
    def of(cls, overrides: Mapping[str, str]) -> ClientMetricsConfig:
        """Of a subscription that was checked when it was stored."""
        rows = cls.rows.values()
        given = {
            row.name: row.parse(overrides[row.key]) if row.key in overrides else row.default
            for row in rows
        }
        return cls(given)


def check_client_metrics(overrides: Mapping[str, str]) -> None:
    """Raises ApiError, with Kafka's code, if a subscription cannot have these overrides."""
    for key, text in overrides.items():
        row = ClientMetricsConfig.rows.get(key)
        if row is None:
            raise ApiError(Error.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
        try:
            row.parse(text)
        except ConfigError as fault:
            is_out_of_range = row.at_least is not None and fault.limit == f"must be {row.limits}"
            error = Error.INVALID_REQUEST if is_out_of_range else Error.INVALID_CONFIG
            raise ApiError(error, str(fault)) from fault
