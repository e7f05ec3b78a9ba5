"""A record as the pages, their JSON and the streams show it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from moldau.client.consumer.consumer_records import ConsumerRecord, TimestampType
from moldau.console.records.decoders import Decoders, hex_text
from moldau.console.records.record_choices import Choices
from moldau.console.records.record_reading import COMMITTED, CONTROL, Seen, marker_text

TEXT_MAX = 4_000
KEY_TEXT_MAX = 300
HEADERS_MAX = 50
HEADER_TEXT_MAX = 300
WHOLE_TEXT_MAX = 2_000_000
MARKS = {
    "aborted": "aborted",
    "undecided": "not decided: a transaction is open before it",
    "control": "control",
}


async def rows_of(seen: Sequence[Seen], choices: Choices, decoders: Decoders) -> list[Any]:
    """In a thread, for a decoder may ask the registry."""
    return await asyncio.to_thread(lambda: [row_of(each, choices, decoders) for each in seen])


def row_of(
    seen: Seen, choices: Choices, decoders: Decoders, *, text_max: int = TEXT_MAX
) -> dict[str, Any]:
    record = seen.record
    row: dict[str, Any] = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "time_kind": (
            "set by the broker"
            if record.timestamp_type is TimestampType.LOG_APPEND_TIME
            else "set by the producer"
        ),
        "mark": "" if seen.mark == COMMITTED else MARKS[seen.mark],
        "leader_epoch": record.leader_epoch,
        "size_bytes": len(record.key or b"") + len(record.value or b""),
        "headers": _headers(record, text_max),
        "headers_left_out": max(len(record.headers) - HEADERS_MAX, 0),
    }
    if seen.mark == CONTROL:
        note = marker_text(record)
        row["key"] = _plain("control", "")
        row["value"] = _plain("control", note)
        return row
    is_listed = text_max == TEXT_MAX
    key_max = min(KEY_TEXT_MAX, text_max) if is_listed else text_max
    key = decoders.show(record, choices.key_decoder, True, key_max, is_listed=is_listed)
    value = decoders.show(record, choices.value_decoder, False, text_max, is_listed=is_listed)
    row["key"] = key._asdict()
    row["value"] = value._asdict()
    return row


def _plain(kind: str, text: str) -> dict[str, Any]:
    return {"kind": kind, "text": text, "size_bytes": 0, "is_cut": False, "fault": ""}


def _headers(record: ConsumerRecord, text_max: int) -> list[dict[str, str]]:
    limit = HEADER_TEXT_MAX if text_max == TEXT_MAX else text_max
    shown = []
    for name, value in record.headers[:HEADERS_MAX]:
        if value is None:
            text = ""
        else:
            try:
                text = value[: 4 * limit].decode()
            except UnicodeDecodeError:
                text = hex_text(value[:limit])
        clean_name = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
        shown.append({"name": clean_name, "text": text[:limit]})
    return shown
