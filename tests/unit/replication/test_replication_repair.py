"""Damaged segments are mended from another replica: to the byte where replicas are the same, and
never with what is not the same data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau.records.batch import whole_headers
from moldau.storage.rewriting.rewrite_claim import claim
from moldau.storage.scrubbing.scrub_repair import CannotRepair, EpochsAreWrong
from moldau.storage.scrubbing.scrub_swap import rewrite_epochs, swap_mended, swap_mended_offline
from moldau.storage.storage_faults import StorageFault
from tests.support.logs import LogBench, SmallSettings, batch, read_all
from tests.support.mending import (
    Replicas,
    closed_segments,
    contents,
    damages,
    filled,
    flip,
    mended,
    twin,
)


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return filled(tmp_path / "one")


@pytest.fixture
def other(bench: LogBench, tmp_path: Path) -> LogBench:
    return twin(bench, tmp_path / "other")


def repaired(
    bench: LogBench, others: Replicas, sources: Sequence[int] = (2,), **options: Any
) -> tuple[list[int], set[int | None]]:
    put_in_place = partial(swap_mended_offline, str(bench.directory))
    return mended(bench, others, sources, put_in_place, **options)


@pytest.mark.parametrize("at", [0, 8, 12, 16, 17, 23, 40, 60, 75, 200, 700])
def test_a_segment_is_as_it_was_whatever_byte_was_changed(
    bench: LogBench, other: LogBench, at: int
) -> None:
    whole = contents(bench)
    flip(bench.file(closed_segments(bench)[1].base_offset, ".log"), at)
    assert damages(bench)
    _, sources = repaired(bench, Replicas(broker_2=other.log))
    assert sources == {2}
    assert contents(bench) == whole
    assert damages(bench) == []


def test_damage_in_several_segments_is_mended_in_all_of_them(
    bench: LogBench, other: LogBench
) -> None:
    whole = contents(bench)
    for segment in closed_segments(bench)[::2]:
        flip(bench.file(segment.base_offset, ".log"), 30)
        flip(bench.file(segment.base_offset, ".log"), 500)
    bases, _ = repaired(bench, Replicas(broker_2=other.log))
    assert len(bases) > 1
    assert contents(bench) == whole


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_is_made_anew_from_its_log_without_asking_anybody(
    bench: LogBench, suffix: str
) -> None:
    whole = contents(bench)
    files = [path for path in bench.directory.glob(f"*{suffix}") if path.stat().st_size]
    flip(files[0], 5)
    _, sources = repaired(bench, Replicas(), [])
    assert sources == {None}
    assert contents(bench) == whole


def test_an_open_log_goes_on_with_the_mended_segment(bench: LogBench, other: LogBench) -> None:
    log = bench.open(clean=True)
    headers = read_all(other.log)
    damaged = log.segments.as_list()[1]
    flip(bench.file(damaged.base_offset, ".log"), 100)
    bases, _ = mended(
        bench, Replicas(broker_2=other.log), [2], lambda bases: swap_mended(log, damaged)
    )
    assert bases == [damaged.base_offset]
    assert damaged not in log.segments.as_list()
    assert read_all(log) == headers
    aborted = list(other.log.aborted_transactions(0, log.offset_end))
    assert log.aborted_transactions(0, log.offset_end) == aborted
    bench.append(batch(1), 2)
    assert bench.stop_and_open().offset_end == headers[-1].offset_end + 1


def test_a_segment_is_not_mended_while_a_process_of_an_earlier_broker_compacts(
    bench: LogBench, other: LogBench
) -> None:
    log = bench.open(clean=True)
    damaged = log.segments.as_list()[1]
    flip(bench.file(damaged.base_offset, ".log"), 100)
    before = contents(bench)
    replicas = Replicas(broker_2=other.log)
    left_behind = claim(str(bench.directory))
    its_own = bench.file(damaged.base_offset, ".log.cleaned")
    its_own.write_bytes(b"what it has compacted so far")
    with pytest.raises(StorageFault, match="another process is at it"):
        mended(bench, replicas, [2], lambda bases: swap_mended(log, damaged))
    assert its_own.read_bytes() == b"what it has compacted so far"
    assert {name: contents(bench)[name] for name in before} == before
    os.close(left_behind)
    mended(bench, replicas, [2], lambda bases: swap_mended(log, damaged))
    assert read_all(log) == read_all(other.log)


def test_a_replica_with_the_same_damage_is_no_help_and_the_next_is_asked(
    bench: LogBench, other: LogBench, tmp_path: Path
) -> None:
    whole = contents(bench)
    base = closed_segments(bench)[0].base_offset
    broken = twin(bench, tmp_path / "broken")
    flip(broken.file(base, ".log"), 150)
    flip(bench.file(base, ".log"), 155)
    replicas = Replicas(broker_2=broken.log, broker_3=other.log)
    _, sources = repaired(bench, replicas, [2, 3])
    assert (sources, replicas.asked) == ({3}, [2, 3])
    assert contents(bench) == whole


def refusal(bench: LogBench, other: LogBench) -> str:
    before = contents(bench)
    with pytest.raises(CannotRepair) as refused:
        repaired(bench, Replicas(broker_2=other.log))
    assert contents(bench) == before, "a refused repair leaves a trace"
    return str(refused.value)


def test_a_batch_of_another_leader_epoch_is_not_taken(bench: LogBench, tmp_path: Path) -> None:
    other = LogBench(tmp_path, SmallSettings())
    for header in read_all(bench.log):
        other.append(batch(header.last_offset_delta + 1), 5)
    flip(bench.file(0, ".log"), 100)
    assert refusal(bench, other) == (
        "broker 2: its batch for offset 0 is of leader epoch 5, the one that was here of 0"
    )


def test_where_batch_and_epoch_file_disagree_another_replica_tells_which_is_wrong(
    bench: LogBench, other: LogBench
) -> None:
    whole = contents(bench)
    path = bench.directory / "leader-epoch-checkpoint"
    headers = read_all(other.log)
    first = next(index for index, header in enumerate(headers) if header.leader_epoch == 1)
    assert f"\n1 {headers[first].base_offset}\n" in path.read_text()
    moved = f"\n1 {headers[first + 1].base_offset}\n"
    path.write_text(path.read_text().replace(f"\n1 {headers[first].base_offset}\n", moved))
    (damage,) = damages(bench)
    assert damage.offset == headers[first].base_offset
    with pytest.raises(EpochsAreWrong, match="leader-epoch-checkpoint that is wrong"):
        repaired(bench, Replicas(broker_2=other.log))
    rewrite_epochs(str(bench.directory))
    assert contents(bench) == whole


def test_what_the_other_replica_has_deleted_cannot_be_repaired(
    bench: LogBench, other: LogBench
) -> None:
    flip(bench.file(0, ".log"), 100)
    other.log.advance_log_start(other.log.offset_end)
    assert refusal(bench, other) == "broker 2: it answers OFFSET_OUT_OF_RANGE"


def test_batches_that_do_not_fit_are_not_taken(bench: LogBench, tmp_path: Path) -> None:
    other = LogBench(tmp_path, SmallSettings())
    for _ in range(50):
        other.append(batch(2))
    flip(bench.file(0, ".log"), 100)
    assert "does not fit" in refusal(bench, other)


def test_without_another_replica_damage_stays(bench: LogBench) -> None:
    flip(bench.file(0, ".log"), 100)
    with pytest.raises(CannotRepair, match="no other replica in sync"):
        repaired(bench, Replicas(), [])


def test_of_a_compacted_log_all_that_was_compacted_comes_from_the_other_replica(
    bench: LogBench, other: LogBench
) -> None:
    """Here the other has lost whole segments to compaction, and the one that is damaged."""
    segments = closed_segments(bench)
    for segment in segments[:2]:
        path = other.file(segment.base_offset, ".log")
        position, header = list(whole_headers(path.read_bytes()))[1]
        path.write_bytes(path.read_bytes()[position : position + header.size_bytes])
        for suffix in (".index", ".timeindex"):
            other.file(segment.base_offset, suffix).write_bytes(b"")
    log = other.open(clean=True)
    flip(bench.file(segments[1].base_offset, ".log"), 300)
    bases, _ = repaired(
        bench, Replicas(broker_2=log), may_have_gaps=True, cleaned_end=segments[2].next_base
    )
    assert bases == [segment.base_offset for segment in segments[:3]]
    assert damages(bench) == []
    assert read_all(bench.open(clean=True)) == read_all(log)
