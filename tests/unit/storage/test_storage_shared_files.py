"""Files that a snapshot has too: whatever the log does, they stay as they were."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log_files import SEGMENT_SUFFIXES
from tests.support.logs import LogBench, SmallSettings, batch, read_all, spans


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    (tmp_path / "logs").mkdir()
    return LogBench(tmp_path / "logs", SmallSettings(segment_bytes=400, index_interval_bytes=0))


def link_all(bench: LogBench, target: Path) -> dict[str, bytes]:
    """Every segment file gets a second name; what each holds."""
    target.mkdir()
    content = {}
    for name in bench.files():
        if name.endswith(SEGMENT_SUFFIXES):
            os.link(bench.directory / name, target / name)
            content[name] = (target / name).read_bytes()
    return content


def content_of(target: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in target.iterdir()}


def fill(log: PartitionLog, bench: LogBench, count: int) -> None:
    for _ in range(count):
        bench.append(batch(1))


@pytest.fixture(params=[0, 3, 7, 10, 14])
def cut_at(request: pytest.FixtureRequest) -> Iterator[int]:
    yield request.param


def test_a_truncation_and_what_is_written_after_it_leave_the_linked_files_alone(
    bench: LogBench, tmp_path: Path, cut_at: int
) -> None:
    fill(bench.log, bench, 15)
    bench.log.close_active()
    before = link_all(bench, tmp_path / "linked")
    assert len(before) > 6
    bench.log.truncate_to(cut_at)
    fill(bench.log, bench, 15)
    assert content_of(tmp_path / "linked") == before
    assert spans(read_all(bench.log))[-1] == (cut_at + 14, cut_at + 14)


def test_a_log_whose_last_segment_is_linked_goes_on_in_a_new_one(
    bench: LogBench, tmp_path: Path
) -> None:
    fill(bench.log, bench, 5)
    bench.log.close_active()
    before = link_all(bench, tmp_path / "linked")
    count = bench.log.segment_count
    log = bench.stop_and_open()
    assert log.offset_end == 5
    fill(log, bench, 5)
    assert content_of(tmp_path / "linked") == before
    assert bench.log.segment_count > count
    assert [end for _, end in spans(read_all(bench.log))] == list(range(10))


def test_a_recovery_after_a_crash_leaves_the_linked_files_alone(
    bench: LogBench, tmp_path: Path
) -> None:
    fill(bench.log, bench, 12)
    bench.log.close_active()
    before = link_all(bench, tmp_path / "linked")
    log = bench.crash_and_open()
    assert log.offset_end == 12
    fill(log, bench, 8)
    assert content_of(tmp_path / "linked") == before
    log = bench.crash_and_open()
    assert [end for _, end in spans(read_all(log))] == list(range(20))
    assert content_of(tmp_path / "linked") == before


def test_what_is_appended_after_a_segment_was_closed_goes_to_a_new_one(bench: LogBench) -> None:
    fill(bench.log, bench, 1)
    bench.log.close_active()
    assert bench.log.segment_count == 1
    fill(bench.log, bench, 1)
    assert bench.log.segment_count == 2


def test_an_empty_log_that_is_linked_is_written_under_its_own_name(
    bench: LogBench, tmp_path: Path
) -> None:
    before = link_all(bench, tmp_path / "linked")
    log = bench.stop_and_open()
    fill(log, bench, 3)
    assert content_of(tmp_path / "linked") == before
    assert [end for _, end in spans(read_all(bench.log))] == [0, 1, 2]
