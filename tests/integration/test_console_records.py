"""Pages and searches of the console on a real broker, against a plain list of what was written.

The topic has three partitions, packed and unpacked batches, transactions that were committed,
aborted and left open, and a beginning that was deleted.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from moldau import Producer, TopicPartition
from moldau.console.records.batch_search import Query
from moldau.console.records.filter_grammar import parse
from moldau.console.records.filter_matching import matcher_of
from moldau.console.records.paging import Page, Range, read_page
from moldau.console.records.record_reading import ABORTED, COMMITTED, CONTROL, UNDECIDED, Seen
from moldau.console.records.topic_reading import TopicReading
from moldau.console.records.topic_search import Limits, News, Standing, TopicSearch
from moldau.testing import LocalBroker, broker
from tests.support import seeds

TOPIC = "orders"
PARTITIONS = 3
WORDS = ("apple", "äpfel", "pear", "plum", 'quo"te', "back\\slash")


class Written(NamedTuple):
    partition: int
    offset: int
    timestamp: int
    value: bytes
    mark: str


class World(NamedTuple):
    broker: LocalBroker
    written: list[Written]
    """Everything after the deleted beginning, but for control records."""

    @property
    def committed(self) -> list[Written]:
        """What is before the first open transaction of its partition, and was not aborted."""
        return [each for each in self.written if each.mark == COMMITTED]

    def reading(self, *, is_committed: bool = True) -> TopicReading:
        settings = {"bootstrap.servers": self.broker.bootstrap}
        return TopicReading(settings, TOPIC, is_committed=is_committed)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    # The records are older than anything that a broker keeps by default.
    with broker({"log.retention.ms": "-1"}) as made:
        made.create_topic(TOPIC, partitions=PARTITIONS)
        yield World(made, list(_written(made, random.Random(7))))


def _written(made: LocalBroker, rng: random.Random) -> Iterator[Written]:
    clock = itertools.count(1_700_000_000_000, 500)

    def send(producer: Producer, mark: str) -> list[Written]:
        rows = []
        for _ in range(rng.randint(1, 40)):
            document = {"fruit": rng.choice(WORDS), "n": rng.randint(0, 20), "tags": ["a", "b"]}
            value = json.dumps(document, ensure_ascii=rng.random() < 0.5).encode()
            partition, at = rng.randrange(PARTITIONS), next(clock) + rng.randint(-5000, 0)
            future = producer.send(
                TOPIC,
                value,
                key=rng.choice(WORDS).encode(),
                partition=partition,
                timestamp_ms=at,
                headers=[("source", rng.choice(WORDS).encode())],
            )
            rows.append((future, partition, at, value))
        producer.flush()
        return [
            Written(partition, future.result(10).offset, at, value, mark)
            for future, partition, at, value in rows
        ]

    rows: list[Written] = []
    for codec in ("none", "lz4", "zstd", "none", "gzip", "snappy"):
        with made.producer(compression_type=codec, batch_size=2_000) as plain:
            rows += send(plain, COMMITTED)
        with made.producer(compression_type=codec, transactional_id=f"t-{codec}") as writer:
            writer.init_transactions()
            for mark in (COMMITTED, ABORTED, COMMITTED):
                writer.begin_transaction()
                rows += send(writer, mark)
                writer.commit_transaction() if mark == COMMITTED else writer.abort_transaction()
    admin = made.admin()
    admin.delete_records({TopicPartition(TOPIC, 0): 10}).check()
    opened = made.producer(transactional_id="open", transaction_timeout_ms=900_000)
    opened.init_transactions()
    opened.begin_transaction()
    last = send(opened, UNDECIDED)
    first_open = dict.fromkeys(range(PARTITIONS), 1 << 60)
    for row in last:
        first_open[row.partition] = min(first_open[row.partition], row.offset)
    with made.producer() as plain:
        for row in send(plain, COMMITTED):
            is_after = row.offset > first_open[row.partition]
            last.append(row._replace(mark="after") if is_after else row)
    return iter(sorted(row for row in rows + last if row.partition != 0 or row.offset >= 10))


def places(rows: list[Seen]) -> list[tuple[int, int]]:
    return [(each.record.partition, each.record.offset) for each in rows]


async def walk(
    reading: TopicReading, bounds: Mapping[int, Range], count: int, *, is_forward: bool
) -> AsyncIterator[Page]:
    readers = {p: reading.reader(p, fetch_bytes=3_000) for p in bounds}
    at = {p: each.start if is_forward else each.end for p, each in bounds.items()}
    while True:
        page = await read_page(
            readers, bounds, at, count, is_forward=is_forward, is_committed=reading.is_committed
        )
        yield page
        after = page.high if is_forward else page.low
        if all(after[p] == (each.end if is_forward else each.start) for p, each in bounds.items()):
            return
        assert after != at, f"a page that leads nowhere: {page.notes}"
        at = after


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("count", [9, 5_000])
def test_pages_show_every_record_once_in_both_directions(
    world: World, count: int, is_committed: bool
) -> None:
    async def check() -> None:
        async with world.reading(is_committed=is_committed) as reading:
            bounds = await reading.bounds(await reading.partitions())
            forward = [page async for page in walk(reading, bounds, count, is_forward=True)]
            backward = [page async for page in walk(reading, bounds, count, is_forward=False)]
        seen = [each for page in forward for each in page.rows]
        plain = [each for each in seen if each.mark != CONTROL]
        wanted = world.committed if is_committed else world.written
        assert sorted(places(plain)) == [(w.partition, w.offset) for w in wanted]
        assert all(len(page.rows) <= count for page in forward + backward)
        back = [each for page in backward for each in page.rows]
        assert sorted(places(back)) == sorted(places(seen))
        for before, after in itertools.pairwise(forward):
            assert before.high == after.low
        for after, before in itertools.pairwise(backward):
            assert before.high == after.low

    asyncio.run(check())


def test_what_was_aborted_and_what_is_undecided_is_marked(world: World) -> None:
    async def check() -> None:
        async with world.reading(is_committed=False) as reading:
            bounds = await reading.bounds(await reading.partitions())
            pages = [page async for page in walk(reading, bounds, 500, is_forward=True)]
        marks = {(e.record.partition, e.record.offset): e.mark for p in pages for e in p.rows}
        for row in world.written:
            expected = COMMITTED if row.mark == "after" else row.mark
            assert marks[row.partition, row.offset] == expected, row
        assert CONTROL in marks.values()

    asyncio.run(check())


FILTERS: tuple[tuple[str, Any], ...] = (
    ('"apple"', None),
    ('value.fruit = "äpfel"', lambda row: row["fruit"] == "äpfel"),
    ("value.fruit = 'quo\"te'", lambda row: row["fruit"] == 'quo"te'),
    ('value.fruit contains "k\\\\s"', lambda row: "k\\s" in row["fruit"]),
    ("value.n >= 10 and value.n < 12.5", lambda row: 10 <= row["n"] < 12.5),
    ('not value.fruit starts with "p"', lambda row: not row["fruit"].startswith("p")),
    ('value.tags contains "b" and value.tags[0] = "a"', lambda row: True),
    ('value.fruit = "pear" or value.n = 3', lambda row: row["fruit"] == "pear" or row["n"] == 3),
    ("value.missing exists", lambda row: False),
    ('value.fruit = "no such"', lambda row: False),
)


def searches(
    reading: TopicReading, text: str, standing: Standing, limit: int = 10_000, **more: Any
) -> TopicSearch:
    query = Query(matcher_of(parse(text)), is_committed=reading.is_committed, **more)
    return TopicSearch(
        lambda p: reading.reader(p, fetch_bytes=3_000), query, Limits(limit), standing
    )


async def collected(search: TopicSearch) -> list[News]:
    return [news async for news in search.run()]


@pytest.mark.parametrize(("text", "holds"), FILTERS)
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_search_finds_every_match_once(
    world: World, text: str, holds: Any, is_committed: bool
) -> None:
    async def check() -> None:
        async with world.reading(is_committed=is_committed) as reading:
            bounds = await reading.bounds(await reading.partitions())
            news = await collected(searches(reading, text, Standing.at_start(bounds)))
        found = places([each for step in news for each in step.found])
        rows = world.committed if is_committed else world.written
        if holds is not None:
            expected = [r for r in rows if holds(json.loads(r.value))]
            assert sorted(found) == [(r.partition, r.offset) for r in expected]
        assert len(found) == len(set(found))
        last = news[-1].standing
        assert last.is_done and last.records == len(rows) and last.found == len(found)
        assert not any(step.notes for step in news)

    asyncio.run(check())


def test_progress_only_grows_and_any_step_can_be_gone_on_from(world: World) -> None:
    rng = random.Random(seeds.one())

    async def check() -> None:
        async with world.reading() as reading:
            bounds = await reading.bounds(await reading.partitions())
            whole = await collected(searches(reading, '"pear"', Standing.at_start(bounds)))
            shares = [step.standing.share for step in whole]
            assert shares == sorted(shares) and shares[-1] == 1
            expected = places([each for step in whole for each in step.found])
            found: list[tuple[int, int]] = []
            standing = Standing.at_start(bounds)
            while not standing.is_done:
                limit = standing.found + rng.randint(1, 20)
                async for news in searches(reading, '"pear"', standing, limit).run():
                    found += places(news.found)
                    standing = Standing.from_text(news.standing.text())
                    if rng.random() < 0.3:
                        break
            assert found == expected

    asyncio.run(check())


def test_a_search_in_a_time_range_misses_no_late_record(world: World) -> None:
    times = sorted(each.timestamp for each in world.committed)
    since, until = times[len(times) // 3], times[2 * len(times) // 3]

    async def check() -> None:
        async with world.reading() as reading:
            bounds = await reading.bounds(await reading.partitions())
            starts = await reading.at_time(bounds, since)
            ranges = {p: Range(starts[p], each.end) for p, each in bounds.items()}
            search = searches(
                reading, '""', Standing.at_start(ranges), since_ms=since, until_ms=until
            )
            found = places([each for step in await collected(search) for each in step.found])
        expected = [r for r in world.committed if since <= r.timestamp < until]
        assert sorted(found) == [(r.partition, r.offset) for r in expected]

    asyncio.run(check())


def test_offsets_that_are_deleted_under_a_search_are_said(world: World) -> None:
    async def check() -> None:
        async with world.reading() as reading:
            bounds = await reading.bounds([0])
            ranges = {0: Range(0, bounds[0].end)}
            news = await collected(searches(reading, '"pear"', Standing.at_start(ranges)))
        notes = [note for step in news for note in step.notes]
        assert notes == ["Not searched: offsets 0 to 9 of partition 0 are not in the log any more"]
        assert news[-1].standing.is_done

    asyncio.run(check())
