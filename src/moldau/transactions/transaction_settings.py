"""The settings that transactions obey, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from moldau.model.names import Millis

if TYPE_CHECKING:
    from moldau.config.broker_config import BrokerConfig

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


class TransactionSettings(NamedTuple):
    timeout_max_ms: Millis = 15 * MINUTE_MS
    id_expiration_ms: Millis = 7 * DAY_MS
    markers_timeout_ms: Millis = 30_000
    """Silence for this long, and markers are sent again."""
    markers_retry_ms: Millis = 100
    """Pause before a marker that failed is sent again."""
    introduced_ms: Millis = 10_000
    """So long after it was loaded a coordinator may not have heard of every partition yet."""
    decision_bytes_max: int = 256 * 1024
    """About how much one run of a periodic job may write at once: one batch has to hold it."""

    @classmethod
    def of(cls, config: BrokerConfig) -> TransactionSettings:
        return cls(
            timeout_max_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            markers_timeout_ms=config.request_timeout_ms,
        )
