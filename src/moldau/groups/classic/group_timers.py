"""The timers of a group: one for each session, one for a join, one for a sync."""

from __future__ import annotations

TimerKey = tuple[str, ...]


def session_key(group_id: str, member_id: str) -> TimerKey:
    return "session", group_id, member_id


def join_key(group_id: str) -> TimerKey:
    return "join", group_id


def sync_key(group_id: str) -> TimerKey:
    return "sync", group_id
