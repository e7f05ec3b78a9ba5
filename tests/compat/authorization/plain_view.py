"""An answer as plain data that two brokers can agree on: without times, ids and addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from moldau.wire.schema import Struct

LEFT_OUT = frozenset(
    {
        *("throttle_time_ms", "cluster_id", "features", "unknown_tagged_fields"),
        *("current_leader_epoch", "offset_metadata", "usable_bytes", "total_bytes", "nodes"),
        *("log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp"),
        *("partition_size", "diverging_epoch", "node_endpoints", "is_cordoned", "endpoints"),
    }
)
"""Of a broker's own, and no matter of rights."""
ABOUT_RIGHTS = (0, 29, 30, 31, 53, 65)
"""Errors whose sentences are compared too."""
ANY_VALUE = frozenset(
    {
        *(
            "host",
            "port",
            "member_id",
            "leader",
            "producer_id",
            "hmac",
            "token_id",
            "log_dir",
            "configs",
        ),
        *("records", "log_append_time_ms", "expiry_timestamp_ms", "issue_timestamp_ms"),
        *("max_timestamp_ms", "expiry_timestamp", "issue_timestamp", "max_timestamp"),
        *("transaction_start_time_ms", "base_offset", "log_start_offset", "low_watermark"),
        *("high_watermark", "last_stable_offset", "leader_id", "leader_epoch", "voters"),
        *("observers", "offset", "end_offset", "directory_id", "coordinator_epoch"),
    }
)
"""Only whether there is one counts."""


_NEEDS = re.compile(r"^.* (needs [A-Z_]+ permission\.)$", re.DOTALL)
"""Apache Kafka begins with its request as Java prints it."""


def plain(value: Any, names: Mapping[bytes, str], field: str = "") -> Any:
    if isinstance(value, Struct):
        is_about_rights = getattr(value, "error_code", 0) in ABOUT_RIGHTS
        return {
            each.name: plain(getattr(value, each.name), names, each.name)
            for each in value.__fields__
            if each.name not in LEFT_OUT and (is_about_rights or each.name != "error_message")
        }
    if field in ANY_VALUE:
        return _presence(value)
    if field == "error_message" and value:
        return _NEEDS.sub(r"\1", value)
    if isinstance(value, list):
        return [plain(row, names, "") for row in value]
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return names.get(data, "an unknown id") if len(data) == 16 else data.hex()
    return value


def _presence(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, int):
        return "a number" if value >= 0 else str(value)
    return "something" if len(value) else "empty"


def in_any_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: in_any_order(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((in_any_order(row) for row in value), key=repr)
    return value


def differences(ours: Any, theirs: Any, path: str = "answer") -> list[str]:
    """Where two answers part, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            line
            for key in ours
            for line in differences(ours[key], theirs.get(key), f"{path}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(in_any_order(ours), in_any_order(theirs), strict=True))
        return [
            line
            for index, (one, other) in pairs
            for line in differences(one, other, f"{path}[{index}]")
        ]
    return [] if ours == theirs else [f"{path}: {ours!r}, Apache Kafka {theirs!r}"]
