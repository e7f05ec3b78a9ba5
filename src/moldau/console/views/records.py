"""The records of a topic: browse them page by page, search them, look at one."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from moldau.client.consumer.partition_fetch import OutOfRangeError
from moldau.console.page import Asked, PageFault, Shown
from moldau.console.records.decoders import DECODERS, NAMES, REGISTRY, Decoders
from moldau.console.records.paging import Page, Range, read_page
from moldau.console.records.record_choices import (
    BEGINNINGS,
    Choices,
    beginning_of,
    choices_of,
    partitions_of,
    place_of,
    place_text,
    query_of,
    readable_of,
    search_ranges,
)
from moldau.console.records.record_reading import Seen, records_of
from moldau.console.records.record_rows import WHOLE_TEXT_MAX, row_of, rows_of
from moldau.console.records.stream_limits import LIMITS
from moldau.console.records.topic_reading import TopicReading
from moldau.console.records.topic_search import (
    Limits,
    Standing,
    StandingError,
    TopicSearch,
)
from moldau.console.rendering import attachment, path_word

SEARCH_FETCH_BYTES = 4 << 20
SLICE_SECONDS = 2.0
"""How long a page without a stream searches before it shows what it has."""
FOUND_MAX = 100
"""Matches after which a search stops and offers to go on."""
NOTES_MAX = 50
BEGINNING_NAMES = dict(
    zip(BEGINNINGS, ("newest first", "oldest first", "from an offset", "from a time"), strict=True)
)


@lru_cache(maxsize=4)
def decoders_at(registry: str) -> Decoders:
    return Decoders(registry)


def decoders_of(asked: Asked) -> Decoders:
    return decoders_at(asked.settings.schema_registry)


def reading_of(asked: Asked, choices: Choices) -> TopicReading:
    return TopicReading(asked.link.settings, choices.topic, is_committed=choices.is_committed)


def topic_path(topic: str, *more: object) -> str:
    return "/".join(["/topics", path_word(topic), *map(path_word, more)])


async def records(asked: Asked) -> Shown:
    choices = choices_of(asked)
    async with reading_of(asked, choices) as reading:
        partitions, unread = await readable_of(reading, choices)
        bounds = await reading.bounds(partitions)
        unread += [
            f"Partition {p}: offsets {waiting.start} to {waiting.end - 1} wait behind an open"
            " transaction and are not here; 'all, with markers' shows them"
            for p, waiting in (await reading.held_back(bounds)).items()
        ]
        shown = {
            "topic": choices.topic,
            "choices": choices._asdict(),
            "query": choices.query(),
            "bounds": {p: limits._asdict() for p, limits in bounds.items()},
            "form": _form(decoders_of(asked)),
            "unread": unread,
            "search": None,
            "page": None,
        }
        if choices.is_search:
            with LIMITS.place(asked.link):
                shown["search"] = await _search(asked, choices, reading, bounds)
        else:
            shown["page"] = await _page(asked, choices, reading, bounds)
    return shown


def _form(decoders: Decoders) -> dict[str, Any]:
    offered = [each for each in DECODERS if each != REGISTRY or decoders.has_registry]
    return {
        "beginnings": BEGINNING_NAMES,
        "decoders": {each: NAMES[each] for each in offered},
        "counts": (20, 50, 100, 500),
    }


async def _page(
    asked: Asked, choices: Choices, reading: TopicReading, bounds: dict[int, Range]
) -> dict[str, Any]:
    if asked.query.get("at"):
        at = place_of(asked.query["at"], list(bounds))
        is_forward = asked.query.get("to") == "newer"
        bounds = {p: bounds[p] for p in at}
    else:
        at, is_forward = await beginning_of(reading, choices, bounds)
    page = await read_page(
        {p: reading.reader(p) for p in bounds},
        bounds,
        at,
        choices.size,
        is_forward=is_forward,
        is_committed=choices.is_committed,
    )
    rows = page.rows if choices.beginning != "newest" else page.rows[::-1]
    return {
        "rows": await rows_of(rows, choices, decoders_of(asked)),
        "notes": page.notes,
        "older": _link(choices, page, bounds, is_newer=False),
        "newer": _link(choices, page, bounds, is_newer=True),
        "is_newest_first": choices.beginning == "newest",
    }


def _link(choices: Choices, page: Page, bounds: dict[int, Range], *, is_newer: bool) -> str:
    """Empty where there is nothing more."""
    if is_newer and all(page.high[p] >= limits.end for p, limits in bounds.items()):
        return ""
    if not is_newer and all(page.low[p] <= limits.start for p, limits in bounds.items()):
        return ""
    place = place_text(page.high if is_newer else page.low)
    return choices.query(at=place, to="newer" if is_newer else "older")


async def standing_of(
    asked: Asked, choices: Choices, reading: TopicReading, bounds: dict[int, Range]
) -> Standing:
    """Where the search is to go on, or its beginning."""
    text = asked.query.get("standing", "")
    if not text:
        return Standing.at_start(await search_ranges(reading, choices, bounds))
    try:
        standing = Standing.from_text(text)
    except StandingError as fault:
        raise PageFault(400, f"{fault}.") from None
    strange = set(standing.left) - set(bounds)
    if strange:
        raise PageFault(400, f"The search was in partition {min(strange)}, which is not chosen.")
    return standing


async def _search(
    asked: Asked, choices: Choices, reading: TopicReading, bounds: dict[int, Range]
) -> dict[str, Any]:
    """One slice: what a page without a stream shows, and its JSON."""
    query, opened = query_of(choices, decoders_of(asked))
    standing = await standing_of(asked, choices, reading, bounds)
    search = TopicSearch(
        lambda p: reading.reader(p, fetch_bytes=SEARCH_FETCH_BYTES),
        query,
        Limits(standing.found + FOUND_MAX, SLICE_SECONDS),
        standing,
    )
    found: list[Seen] = []
    notes: list[str] = []
    if not standing.is_done:
        async for news in search.run():
            found += news.found
            notes += news.notes[: NOTES_MAX - len(notes)]
    if opened is not None and opened.unreadable:
        notes.append(unreadable_note(opened.unreadable, opened.fault))
    return {
        "rows": await rows_of(found, choices, decoders_of(asked)),
        "notes": notes,
        **progress_of(search.standing),
        "go_on": "" if search.standing.is_done else choices.query(standing=search.standing.text()),
    }


def unreadable_note(count: int, fault: str) -> str:
    return (
        f"{count} keys or values could not be decoded and were searched as stored bytes only, the"
        f" first because {fault}"
    )


def progress_of(standing: Standing) -> dict[str, Any]:
    return {
        "offsets_done": standing.offsets_done,
        "offsets_total": standing.offsets_total,
        "records": standing.records,
        "bytes_read": standing.bytes_read,
        "found": standing.found,
        "is_done": standing.is_done,
    }


async def one(asked: Asked) -> Shown:
    choices = choices_of(asked)._replace(level="all")
    seen, limits = await _one(asked, choices)
    decoders = decoders_of(asked)
    row = await asyncio.to_thread(row_of, seen, choices, decoders, text_max=WHOLE_TEXT_MAX)
    partition, offset = seen.record.partition, seen.record.offset
    words = {"key": choices.key_decoder, "value": choices.value_decoder}
    return {
        "topic": choices.topic,
        "record": row,
        "choices": choices._asdict(),
        "form": _form(decoders),
        "query": urlencode(words),
        "raw": topic_path(choices.topic, "records", partition, offset, "raw"),
        "before": offset - 1 if offset > limits.start else None,
        "after": offset + 1 if offset + 1 < limits.end else None,
    }


async def _one(asked: Asked, choices: Choices) -> tuple[Seen, Range]:
    try:
        partition, offset = int(asked.path["partition"]), int(asked.path["offset"])
    except ValueError:
        raise PageFault(404, "A record's address ends with its partition and offset.") from None
    place = f"offset {offset} of partition {partition} of {choices.topic}"
    async with reading_of(asked, choices) as reading:
        partitions_of(str(partition), await reading.partitions())
        limits = (await reading.bounds([partition]))[partition]
        try:
            chunk = await reading.reader(partition).read(offset)
        except OutOfRangeError:
            raise PageFault(
                404, f"There is no {place}: it holds {limits.start} to {limits.end - 1}."
            ) from None
        for batch, mark in chunk.batches:
            if batch[2] <= offset <= batch[3]:
                for record in records_of(chunk, batch):
                    if record.offset == offset:
                        return Seen(record, mark), limits
    raise PageFault(
        404,
        f"There is no record at {place}: it was compacted away, or never was one.",
    )


async def raw(asked: Asked) -> Response:
    choices = choices_of(asked)._replace(level="all")
    seen, _ = await _one(asked, choices)
    record = seen.record
    part = asked.query.get("part", "value")
    if part not in ("key", "value"):
        raise PageFault(400, "'part' must be key or value.")
    content = record.key if part == "key" else record.value
    if content is None:
        raise PageFault(404, f"The {part} of this record is null.")
    name = f"{choices.topic}-{record.partition}-{record.offset}-{part}.bin"
    return Response(
        content,
        media_type="application/octet-stream",
        headers=attachment(name),
    )
