"""Requests to the coordinators of groups and transactions, as bytes, encoded here by hand.

The versions are the last ones before each request became flexible, except for EndTxn: only from
version 5 on does it give every transaction an epoch of its own (KIP-890).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from benchmarks.requests import NO_TAGS, compact, framed, string

JOIN_GROUP, SYNC_GROUP, HEARTBEAT, FIND_COORDINATOR = 11, 14, 12, 10
INIT_PRODUCER_ID, END_TXN = 22, 26
GROUP, TRANSACTION = 0, 1
COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS = 15, 16, 51
COORDINATOR_LOAD_IN_PROGRESS, REBALANCE_IN_PROGRESS = 14, 27
LATER = {
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    CONCURRENT_TRANSACTIONS,
}
"""Errors that say: ask again in a moment."""


def data(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


TOPIC = "bench"
NO_USER_DATA = struct.pack(">i", -1)
SUBSCRIPTION = struct.pack(">hi", 0, 1) + string(TOPIC) + NO_USER_DATA
ASSIGNMENT = struct.pack(">hi", 0, 1) + string(TOPIC) + struct.pack(">ii", 1, 0) + NO_USER_DATA


def find_coordinator(key: str, kind: int) -> bytes:
    body = string(key) + struct.pack(">b", kind)
    return framed(FIND_COORDINATOR, 2, body, flexible=False)


def join_group(group: str, member_id: str, session_ms: int, rebalance_ms: int) -> bytes:
    """A consumer with one assignor and one topic."""
    body = string(group) + struct.pack(">ii", session_ms, rebalance_ms) + string(member_id)
    body += string("consumer") + struct.pack(">i", 1) + string("range") + data(SUBSCRIPTION)
    return framed(JOIN_GROUP, 3, body, flexible=False)


def sync_group(group: str, generation: int, member_id: str, everyone: Sequence[str]) -> bytes:
    """`everyone` is empty unless this member leads its group."""
    body = string(group) + struct.pack(">i", generation) + string(member_id)
    body += struct.pack(">i", len(everyone))
    body += b"".join(string(one) + data(ASSIGNMENT) for one in everyone)
    return framed(SYNC_GROUP, 1, body, flexible=False)


def heartbeat(group: str, generation: int, member_id: str) -> bytes:
    body = string(group) + struct.pack(">i", generation) + string(member_id)
    return framed(HEARTBEAT, 1, body, flexible=False)


def init_producer_id(transactional_id: str | None, timeout_ms: int) -> bytes:
    told = struct.pack(">h", -1) if transactional_id is None else string(transactional_id)
    return framed(INIT_PRODUCER_ID, 1, told + struct.pack(">i", timeout_ms), flexible=False)


def end_transaction(transactional_id: str, producer_id: int, epoch: int) -> bytes:
    """Commit."""
    ids = struct.pack(">qh?", producer_id, epoch, True)
    body = compact(transactional_id.encode()) + ids + NO_TAGS
    return framed(END_TXN, 5, body, flexible=True)
