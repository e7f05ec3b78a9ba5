"""A search over a gigabyte: it reads every byte once, finds what is there, and tells how fast."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from moldau.console.records.batch_search import Query
from moldau.console.records.filter_grammar import parse
from moldau.console.records.filter_matching import matcher_of
from moldau.console.records.topic_reading import TopicReading
from moldau.console.records.topic_search import Limits, News, Standing, TopicSearch
from moldau.console.views.records import SEARCH_FETCH_BYTES
from moldau.testing import broker

SIZE_BYTES = 1 << 30
RECORDS_AT_ONCE = 1_000


def file_seconds(paths: list[Path]) -> tuple[float, float]:
    """How long it takes to read files: by the clock, and of the processor."""
    begun, begun_cpu = time.perf_counter(), time.process_time()
    for path in paths:
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass
    return time.perf_counter() - begun, time.process_time() - begun_cpu


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_gigabyte_is_searched_once_and_wholly(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        json.dumps({"id": number, "status": "paid", "text": "lorem ipsum dolor " * 50}).encode()
        for number in range(RECORDS_AT_ONCE)
    ]
    with broker({"log.segment.bytes": str(256 << 20)}, with_faults=False) as made:
        made.create_topic("large")
        with made.producer(batch_size=256 << 10, linger_ms=20) as producer:
            for _ in range(SIZE_BYTES // (RECORDS_AT_ONCE * len(rows[0]))):
                producer.send_many("large", rows)
            producer.send("large", b'{"id": 7, "status": "wanted"}')
        paths = sorted((made.data / "large-0").glob("*.log"))
        size_bytes = sum(path.stat().st_size for path in paths)

        async def searched(text: str) -> list[News]:
            async with TopicReading({"bootstrap.servers": made.bootstrap}, "large") as reading:
                search = TopicSearch(
                    lambda p: reading.reader(p, fetch_bytes=SEARCH_FETCH_BYTES),
                    Query(matcher_of(parse(text))),
                    Limits(10),
                    Standing.at_start(await reading.bounds([0])),
                )
                return [news async for news in search.run()]

        file_seconds(paths)
        file, file_cpu = file_seconds(paths)
        for text in ('"wanted"', 'value.status = "wanted"'):
            begun, begun_cpu = time.perf_counter(), time.process_time()
            news = asyncio.run(searched(text))
            took, took_cpu = time.perf_counter() - begun, time.process_time() - begun_cpu
            last = news[-1].standing
            assert last.is_done and last.found == 1 and last.bytes_read == size_bytes
            assert len(news) > 100, "progress is told often"
            with capsys.disabled():
                print(
                    f"\n{text}: {size_bytes >> 20} MiB in {took:.2f} s ({took_cpu:.2f} s of the"
                    f" processor); the files alone {file:.2f} s ({file_cpu:.2f} s)"
                )
