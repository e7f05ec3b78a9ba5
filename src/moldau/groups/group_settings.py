"""The settings that groups obey, as plain values."""

from __future__ import annotations

from typing import NamedTuple

from moldau.model.names import Millis

MINUTE_MS = 60_000


class GroupSettings(NamedTuple):
    session_timeout_min_ms: Millis = 6_000
    session_timeout_max_ms: Millis = 30 * MINUTE_MS
    initial_rebalance_delay_ms: Millis = 3_000
    members_max: int = 2**31 - 1
    new_member_join_timeout_ms: Millis = 5 * MINUTE_MS
    """A new member does not know its id yet and cannot heartbeat: if it went away while it waits,
    only this ends it. A member that is still there joins again."""
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: Millis = 7 * 24 * 60 * MINUTE_MS
