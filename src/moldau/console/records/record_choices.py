"""What the query of a page of records asks for: which partitions, from where, shown how.

The same words serve browsing, searching, following and downloading, and their links.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from moldau.console.page import Asked, PageFault
from moldau.console.records.batch_search import Query
from moldau.console.records.decoders import AUTO, DECODERS, Decoders, OpenedContents
from moldau.console.records.filter_grammar import (
    And,
    Anywhere,
    FilterError,
    Node,
    moment_ms,
    parse,
)
from moldau.console.records.filter_matching import Matcher, matcher_of
from moldau.console.records.paging import Place, Range
from moldau.console.records.topic_reading import TopicReading

COUNT, COUNT_MAX = 50, 500
PARTITIONS_MAX = 200
"""How many one page reads; a topic with more needs a choice."""
BEGINNINGS = ("newest", "oldest", "offset", "time")
LEVELS = ("committed", "all")
EVERYTHING = Matcher(lambda record: True, ())


class Choices(NamedTuple):
    topic: str
    partitions: str
    """As `0,3-5`; empty for all."""
    beginning: str
    offset: int
    time: str
    until: str
    size: int
    level: str
    key_decoder: str
    value_decoder: str
    text: str
    filter: str

    @property
    def is_committed(self) -> bool:
        return self.level == LEVELS[0]

    @property
    def is_search(self) -> bool:
        return bool(self.text or self.filter or self.until)

    def query(self, **more: Any) -> str:
        """For links: what differs from a page that was asked for nothing."""
        words = {
            "partitions": self.partitions,
            "from": "" if self.beginning == BEGINNINGS[0] else self.beginning,
            "offset": self.offset if self.beginning == "offset" else "",
            "time": self.time if self.beginning == "time" else "",
            "until": self.until,
            "count": "" if self.size == COUNT else self.size,
            "level": "" if self.is_committed else self.level,
            "key": "" if self.key_decoder == AUTO else self.key_decoder,
            "value": "" if self.value_decoder == AUTO else self.value_decoder,
            "text": self.text,
            "filter": self.filter,
            **more,
        }
        return urlencode({name: word for name, word in words.items() if word not in ("", None)})


def choices_of(asked: Asked) -> Choices:
    def one_of(name: str, known: Collection[str], default: str) -> str:
        word = asked.query.get(name, "") or default
        if word not in known:
            raise PageFault(400, f"'{name}' must be one of {', '.join(known)}, not '{word[:40]}'.")
        return word

    return Choices(
        topic=asked.path["topic"],
        partitions=asked.query.get("partitions", "").strip(),
        beginning=one_of("from", BEGINNINGS, BEGINNINGS[0]),
        offset=asked.number("offset", 0),
        time=asked.query.get("time", "").strip(),
        until=asked.query.get("until", "").strip(),
        size=asked.number("count", COUNT, least=1, most=COUNT_MAX),
        level=one_of("level", LEVELS, LEVELS[0]),
        key_decoder=one_of("key", DECODERS, AUTO),
        value_decoder=one_of("value", DECODERS, AUTO),
        text=asked.query.get("text", ""),
        filter=asked.query.get("filter", "").strip(),
    )


def partitions_of(text: str, known: Collection[int]) -> list[int]:
    """The partitions that `0,3-5` names; all without a word."""
    if not text:
        if len(known) > PARTITIONS_MAX:
            raise PageFault(
                400,
                f"The topic has {len(known)} partitions, and one page reads {PARTITIONS_MAX} at"
                " most: say which, as partitions=0-99.",
            )
        return sorted(known)
    chosen: set[int] = set()
    try:
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            chosen |= (
                set(range(int(first), min(int(last), max(known)) + 1)) if dash else {int(first)}
            )
    except ValueError:
        raise PageFault(
            400, f"The partitions cannot be '{text[:60]}': write numbers, as 0,3-5."
        ) from None
    missing = sorted(chosen - set(known))
    if missing or not chosen:
        named = missing[0] if missing else text[:60]
        raise PageFault(404, f"The topic has no partition {named}: it has 0 to {max(known)}.")
    if len(chosen) > PARTITIONS_MAX:
        raise PageFault(400, f"One page reads {PARTITIONS_MAX} partitions at most.")
    return sorted(chosen)


async def readable_of(reading: TopicReading, choices: Choices) -> tuple[list[int], list[str]]:
    """The partitions that are chosen and can be read, and a sentence for each that cannot."""
    chosen = partitions_of(choices.partitions, await reading.partitions())
    notes = [
        f"Partition {p} has no leader, so nothing of it is here"
        for p in chosen
        if p in reading.leaderless
    ]
    return [p for p in chosen if p not in reading.leaderless], notes


def time_of(text: str, name: str) -> int:
    """Milliseconds; the field may hold a time or the milliseconds themselves."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return moment_ms(text)
    except FilterError as fault:
        raise PageFault(400, f"The field '{name}': {fault}.") from None


async def beginning_of(
    reading: TopicReading, choices: Choices, bounds: Mapping[int, Range]
) -> tuple[Place, bool]:
    """Where the first page begins, and whether it goes forward from there."""
    match choices.beginning:
        case "newest":
            return {p: limits.end for p, limits in bounds.items()}, False
        case "oldest":
            return {p: limits.start for p, limits in bounds.items()}, True
        case "offset":
            return dict.fromkeys(bounds, choices.offset), True
    if not choices.time:
        raise PageFault(400, "The field 'time' is empty: write a time like 2026-01-31T12:30.")
    return await reading.at_time(bounds, time_of(choices.time, "time")), True


async def search_ranges(
    reading: TopicReading, choices: Choices, bounds: Mapping[int, Range]
) -> dict[int, Range]:
    """What a search or a download goes through; from the newest on means all."""
    if choices.beginning == "newest":
        return dict(bounds)
    at, _ = await beginning_of(reading, choices, bounds)
    return {p: Range(max(at[p], limits.start), limits.end) for p, limits in bounds.items()}


def query_of(choices: Choices, decoders: Decoders) -> tuple[Query, OpenedContents | None]:
    """What to look for, and who reads contents that are more than their bytes for it."""
    opened = decoders.opened_by(choices.topic, choices.key_decoder, choices.value_decoder)
    parts: list[Node] = [Anywhere(choices.text)] if choices.text else []
    try:
        if choices.filter:
            parts.append(parse(choices.filter))
    except FilterError as fault:
        raise PageFault(400, f"{fault}.") from None
    if parts:
        matcher = matcher_of(parts[0] if len(parts) == 1 else And(tuple(parts)), opened)
    else:
        matcher, opened = EVERYTHING, None
    since = time_of(choices.time, "time") if choices.beginning == "time" else None
    until = time_of(choices.until, "until") if choices.until else None
    return Query(matcher, since, until, choices.is_committed), opened


def place_text(place: Mapping[int, int]) -> str:
    return ".".join(f"{p}-{offset}" for p, offset in sorted(place.items()))


def place_of(text: str, partitions: Collection[int]) -> Place:
    """The place of a link; partitions that it does not name are left out."""
    try:
        named = [tuple(map(int, each.split("-"))) for each in text.split(".")]
        place = {partition: offset for partition, offset in named if offset >= 0}
    except ValueError:
        raise PageFault(400, "The link names no place in the topic: begin anew.") from None
    return {p: offset for p, offset in place.items() if p in partitions}
