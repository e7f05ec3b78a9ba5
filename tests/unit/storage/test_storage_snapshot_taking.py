"""What logs may do while a snapshot of them is made."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from moldau.model.names import TopicPartition
from moldau.net.connection_muting import MutingWait
from moldau.storage.directories.log_store import LogStore
from moldau.storage.snapshots import snapshot_making
from moldau.storage.snapshots.snapshot_taking import Snapshots
from tests.support.logs import batch
from tests.unit.storage.test_storage_log_store import StoreBench

T = TopicPartition("t", 0)


def snapshots_of(store: LogStore) -> Snapshots:
    return Snapshots(
        store,
        high_watermarks=lambda: {each: log.offset_end for each, log in store.logs.items()},
        metadata=lambda: ("metadata", lambda: b""),
        settings=lambda: ({}, False),
        node_id=1,
        software="0",
    )


def append(bench: StoreBench, count: int) -> None:
    log = bench.opened[-1].logs[T]
    for _ in range(count):
        records = bytearray(batch(1))
        from moldau.records.batch import read_header

        log.append_as_leader(records, read_header(records), 0)  # type: ignore[union-attr]


@pytest.fixture
def first_linked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something happen when all has been linked for the first time."""

    def arrange(happen: Callable[[], None]) -> None:
        begin, left = snapshot_making.begin, [happen]

        def begin_and_go_on(moment: snapshot_making.Moment) -> None:
            begin(moment)
            while left:
                left.pop()()

        monkeypatch.setattr(snapshot_making, "begin", begin_and_go_on)

    return arrange


def test_a_log_that_is_cut_back_while_it_is_linked_is_linked_again(
    tmp_path: Path,
    first_linked: Callable[[Callable[[], None]], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whether the cut came before the link or after it cannot be told from the file."""
    bench = StoreBench(tmp_path)
    store = bench.open()
    log = bench.create()
    append(bench, 5)
    first_linked(lambda: log.truncate_to(2))
    with caplog.at_level(logging.INFO, "moldau.snapshots"):
        manifest = asyncio.run(snapshots_of(store).create("s"))
    assert "The snapshot s begins anew" in caplog.text
    assert manifest.partitions[0].offset_end == 2
    bench.close()


@pytest.mark.parametrize("work", [Snapshots.delete, Snapshots.prepare, Snapshots.create])
def test_a_client_that_leaves_interrupts_no_thread_that_works_on_a_snapshot(
    tmp_path: Path, work: Callable[[Snapshots, str], Coroutine[Any, Any, object]]
) -> None:
    """Or the next snapshot would begin while the files of this one are still being deleted."""

    async def scenario() -> None:
        working = work(snapshots_of(bench.open()), "s")
        assert isinstance(working.send(None), MutingWait)
        working.close()

    bench = StoreBench(tmp_path)
    asyncio.run(scenario())
    bench.close()
