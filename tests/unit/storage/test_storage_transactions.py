"""Transactions in a log: the last stable offset, the index of aborted ones, restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.errors import ApiError, Error
from tests.support.logs import LogBench, SmallSettings, batch


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path, SmallSettings(segment_bytes=600, index_interval_bytes=200))


def send(bench: LogBench, producer_id: int, sequence: int, count: int = 1) -> int:
    sent = batch(
        count, producer_id=producer_id, epoch=0, sequence=sequence, transactional=True, size=20
    )
    return bench.append(sent).base_offset


def aborted(bench: LogBench, start: int, end: int) -> list[tuple[int, int]]:
    found = bench.log.aborted_transactions(start, end)
    return [(each.producer_id, each.first_offset) for each in found]


def test_read_committed_stops_at_the_first_undecided_record(bench: LogBench) -> None:
    bench.append(batch(2))
    assert bench.log.last_stable_offset(2) == 2
    send(bench, 1, 0, 3)
    bench.append(batch(2))
    assert bench.log.last_stable_offset(7) == 2
    assert bench.log.last_stable_offset(1) == 1
    bench.mark(1, 0, commit=True)
    assert bench.log.last_stable_offset(7) == 2
    assert bench.log.last_stable_offset(8) == 8


def test_aborted_transactions_are_found_by_the_range_they_touch(bench: LogBench) -> None:
    send(bench, 1, 0)  # 0
    send(bench, 2, 0)  # 1
    send(bench, 1, 1)  # 2
    bench.mark(1, 0, commit=False)  # 3
    send(bench, 3, 0)  # 4
    bench.mark(2, 0, commit=False)  # 5
    bench.mark(3, 0, commit=True)  # 6
    assert aborted(bench, 0, 7) == [(1, 0), (2, 1)]
    assert aborted(bench, 0, 1) == [(1, 0)]
    assert aborted(bench, 4, 5) == [(2, 1)]
    assert aborted(bench, 6, 7) == []


def test_an_abort_is_found_from_segments_before_its_marker(bench: LogBench) -> None:
    send(bench, 1, 0)
    for _ in range(30):
        bench.append(batch(1))
    bench.mark(1, 0, commit=False)
    assert len(bench.log.segments) > 5
    assert aborted(bench, 0, 1) == [(1, 0)]
    assert aborted(bench, 15, 16) == [(1, 0)]
    assert len(bench.files(".txnindex")) == 1


@pytest.mark.parametrize("crash", [False, True])
def test_open_and_aborted_transactions_survive_a_restart(bench: LogBench, crash: bool) -> None:
    for turn in range(10):
        send(bench, 1, 2 * turn, 2)
        send(bench, 2, turn)
        bench.mark(1, 0, commit=turn % 3 == 0, coordinator_epoch=4)
        if turn < 8:
            bench.mark(2, 0, commit=False)
    end = bench.log.offset_end
    before = bench.log.aborted_transactions(0, end)
    assert len(before) == 6 + 8
    log = bench.crash_and_open() if crash else bench.stop_and_open()
    assert log.aborted_transactions(0, end) == before
    assert log.last_stable_offset(end) == bench.log.producers.entry(2).txn_first_offset  # type: ignore[union-attr]
    with pytest.raises(ApiError) as refused:
        bench.mark(1, 0, commit=True, coordinator_epoch=3)
    assert refused.value.error == Error.TRANSACTION_COORDINATOR_FENCED
    bench.mark(2, 0, commit=True)
    assert log.last_stable_offset(end + 1) == end + 1
    send(bench, 1, 20)


def test_truncation_reopens_a_transaction_whose_marker_it_cut(bench: LogBench) -> None:
    send(bench, 1, 0)
    send(bench, 2, 0)
    bench.mark(1, 0, commit=False)
    bench.mark(2, 0, commit=False)
    bench.log.truncate_to(3)
    assert aborted(bench, 0, 3) == [(1, 0)]
    assert bench.log.last_stable_offset(3) == 1
    bench.mark(2, 0, commit=True)
    assert aborted(bench, 0, 4) == [(1, 0)]


def test_an_unstable_offset_is_never_before_the_log_start(bench: LogBench) -> None:
    send(bench, 1, 0, 3)
    bench.log.advance_log_start(2)
    assert bench.log.last_stable_offset(3) == 2


def test_a_control_batch_from_a_stale_epoch_stores_nothing(bench: LogBench) -> None:
    bench.append(batch(1, producer_id=1, epoch=5, sequence=0, transactional=True))
    with pytest.raises(ApiError) as refused:
        bench.mark(1, 4, commit=True)
    assert refused.value.error == Error.INVALID_PRODUCER_EPOCH
    assert bench.log.offset_end == 1
