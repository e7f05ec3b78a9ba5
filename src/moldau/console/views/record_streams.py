"""Streams of records: a search as it goes on, new records as they come, a download.

Searches and live views are Server-Sent Events. The id of a search's event says where it stands, so
a browser whose connection broke goes on from there.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import StreamingResponse

from moldau.client.consumer.consumer_records import ConsumerRecord
from moldau.client.shared.client_errors import KafkaError
from moldau.console.faults import sentence_of
from moldau.console.page import Asked, PageFault, Shown
from moldau.console.records.live_tail import follow
from moldau.console.records.record_choices import (
    Choices,
    choices_of,
    query_of,
    readable_of,
    search_ranges,
)
from moldau.console.records.record_rows import rows_of
from moldau.console.records.stream_limits import LIMITS
from moldau.console.records.topic_search import Limits, Standing, TopicSearch
from moldau.console.rendering import attachment, plain
from moldau.console.views.records import (
    FOUND_MAX,
    SEARCH_FETCH_BYTES,
    decoders_of,
    progress_of,
    reading_of,
    standing_of,
    unreadable_note,
)

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Proxies must pass on what comes at once."""
DOWNLOAD_RECORDS, DOWNLOAD_RECORDS_MAX = 10_000, 1_000_000
DOWNLOAD_BYTES_MAX = 1 << 30
SIGNED_OUT = "Whoever opened this has signed out."
FORMULA_BEGINNINGS = "=+-@\t\r\n＝＋－＠"
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers", "key_base64",
           "value_base64")  # fmt: skip


def _event(kind: str, data: Any, id: str = "") -> bytes:
    head = f"id: {id}\n" if id else ""
    text = json.dumps(plain(data), ensure_ascii=False, separators=(",", ":"))
    return f"{head}event: {kind}\ndata: {text}\n\n".encode()


def _stream(asked: Asked, events: AsyncIterator[bytes]) -> StreamingResponse:
    """What goes wrong on the way is the last event."""

    async def told() -> AsyncIterator[bytes]:
        with LIMITS.place(asked.link):
            try:
                async for event in events:
                    if asked.link.is_closed:
                        yield _event("fault", {"fault": SIGNED_OUT})
                        return
                    yield event
            except KafkaError as fault:
                yield _event("fault", {"fault": sentence_of(fault)})
            except PageFault as fault:
                yield _event("fault", {"fault": fault.sentence})

    LIMITS.check(asked.link)
    return StreamingResponse(told(), media_type="text/event-stream", headers=HEADERS)


async def search(asked: Asked) -> Shown:
    choices = choices_of(asked)
    query_of(choices, decoders_of(asked))
    return _stream(asked, _search_events(asked, choices))


async def _search_events(asked: Asked, choices: Choices) -> AsyncIterator[bytes]:
    query, opened = query_of(choices, decoders_of(asked))
    async with reading_of(asked, choices) as reading:
        partitions, _ = await readable_of(reading, choices)
        bounds = await reading.bounds(partitions)
        standing = await standing_of(asked, choices, reading, bounds)
        limits = Limits(standing.found + FOUND_MAX)
        going = TopicSearch(
            lambda p: reading.reader(p, fetch_bytes=SEARCH_FETCH_BYTES), query, limits, standing
        )
        yield _event("progress", _told(standing))
        if not standing.is_done:
            async for news in going.run():
                rows = await rows_of(news.found, choices, decoders_of(asked))
                data = {**_told(news.standing), "rows": rows, "notes": news.notes}
                yield _event("progress", data, news.standing.text())
        if opened is not None and opened.unreadable:
            note = unreadable_note(opened.unreadable, opened.fault)
            yield _event("progress", {**_told(going.standing), "notes": [note]})
        go_on = "" if going.standing.is_done else choices.query(standing=going.standing.text())
        yield _event("end", {**_told(going.standing), "go_on": go_on})


def _told(standing: Standing) -> dict[str, Any]:
    return {**progress_of(standing), "rows": [], "notes": []}


async def tail_page(asked: Asked) -> Shown:
    choices = choices_of(asked)
    query_of(choices, decoders_of(asked))
    async with reading_of(asked, choices) as reading:
        await readable_of(reading, choices)
    return {"topic": choices.topic, "choices": choices._asdict(), "query": choices.query()}


async def tail(asked: Asked) -> Shown:
    choices = choices_of(asked)
    query_of(choices, decoders_of(asked))
    return _stream(asked, _tail_events(asked, choices))


async def _tail_events(asked: Asked, choices: Choices) -> AsyncIterator[bytes]:
    query, _ = query_of(choices, decoders_of(asked))
    async with reading_of(asked, choices) as reading:
        partitions, _ = await readable_of(reading, choices)
        async for step in follow(reading, partitions, query, is_filtered=choices.is_search):
            rows = await rows_of(step.found, choices, decoders_of(asked))
            yield _event("records", {"rows": rows, "skipped": step.skipped})
    yield _event("end", {})


async def download(asked: Asked) -> Shown:
    choices = choices_of(asked)
    kind = asked.query.get("format", "jsonl")
    if kind not in FORMATS:
        raise PageFault(400, f"'format' must be one of {', '.join(FORMATS)}, not '{kind[:20]}'.")
    most = asked.number("most", DOWNLOAD_RECORDS, least=1, most=DOWNLOAD_RECORDS_MAX)
    query_of(choices, decoders_of(asked))
    LIMITS.check(asked.link)
    # What the user may not see has to be an answer of its own, not a file.
    async with reading_of(asked, choices) as reading:
        await reading.bounds((await readable_of(reading, choices))[0])
    headers = {**HEADERS, **attachment(f"{choices.topic}.{kind}")}
    lines = _lines(asked, choices, kind, most)
    return StreamingResponse(lines, media_type=FORMATS[kind], headers=headers)


async def _lines(asked: Asked, choices: Choices, kind: str, most: int) -> AsyncIterator[bytes]:
    """The records, and at the end why there are no more if that is not for want of any."""
    line, last_line = (_csv_line, _csv_note) if kind == "csv" else (_json_line, _json_note)
    if kind == "csv":
        yield _csv(COLUMNS)
    written, last = 0, None
    with LIMITS.place(asked.link):
        try:
            async for lines, standing, notes in _found(asked, choices, line, most):
                written, last = written + len(lines), standing
                if asked.link.is_closed:
                    yield last_line(SIGNED_OUT)
                    return
                yield lines
                for note in notes:
                    yield last_line(note)
                if written >= DOWNLOAD_BYTES_MAX:
                    break
        except KafkaError as fault:
            yield last_line(f"Ended early: {sentence_of(fault)}")
            return
    if last is not None and not last.is_done:
        done, total = last.offsets_done, last.offsets_total
        yield last_line(
            f"Cut after {last.found} records ({done} of {total} offsets): raise 'most', or"
            " choose a shorter range"
        )


async def _found(
    asked: Asked, choices: Choices, line: Callable[[ConsumerRecord], bytes], most: int
) -> AsyncIterator[tuple[bytes, Standing, list[str]]]:
    query, _ = query_of(choices, decoders_of(asked))
    async with reading_of(asked, choices) as reading:
        partitions, unread = await readable_of(reading, choices)
        ranges = await search_ranges(reading, choices, await reading.bounds(partitions))
        start = Standing.at_start(ranges)
        yield b"", start, unread
        going = TopicSearch(
            lambda p: reading.reader(p, fetch_bytes=SEARCH_FETCH_BYTES), query, Limits(most), start
        )
        async for news in going.run():
            lines = b"".join(line(each.record) for each in news.found)
            yield lines, news.standing, news.notes


def _json_line(record: ConsumerRecord) -> bytes:
    row: dict[str, Any] = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_words("key", record.key),
        **_words("value", record.value),
        "headers": [[_name(name), _text(value)] for name, value in record.headers],
    }
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _words(name: str, content: bytes | None) -> dict[str, str | None]:
    """A text under its name; what is none in base64, under a name that says so."""
    try:
        return {name: None if content is None else content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content or b"").decode()}


def _name(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="backslashreplace")


def _json_note(note: str) -> bytes:
    return json.dumps({"note": note}, ensure_ascii=False).encode() + b"\n"


def _csv_line(record: ConsumerRecord) -> bytes:
    words = {**_words("key", record.key), **_words("value", record.value)}
    headers = [[_name(name), _text(value)] for name, value in record.headers]
    return _csv(
        (
            record.partition,
            record.offset,
            record.timestamp,
            _cell(words.get("key")),
            _cell(words.get("value")),
            json.dumps(headers, ensure_ascii=False) if headers else "",
            words.get("key_base64"),
            words.get("value_base64"),
        )
    )


def _cell(text: str | None) -> str | None:
    """A spreadsheet would take the text of a stranger for a formula and carry it out: an apostrophe
    before it says that it is text. JSON lines have every text as it is."""
    is_formula = text and text[0] in FORMULA_BEGINNINGS and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _csv_note(note: str) -> bytes:
    return _csv((f"# {note}",))


def _csv(cells: tuple[object, ...]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue().encode()
