"""A repair that is killed, or whose power fails, at any change of the disk leaves the segment as it
was before or as it should be, and no file too many."""

from __future__ import annotations

import contextlib
import errno
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from moldau.storage.scrubbing.scrub_swap import swap_mended, swap_mended_offline
from moldau.storage.storage_faults import StorageFault
from tests.support import seeds
from tests.support.faulty_disk import Crash, DirectoryNode, FaultyDisk, FileNode, storage_on
from tests.support.logs import LogBench
from tests.support.mending import Replicas, contents, filled, flip, mended, twin

CHANGES_MAX = 200


def disk_with(bench: LogBench, chance: random.Random) -> FaultyDisk:
    """All that is there now has long been on the disk."""
    disk = FaultyDisk(str(bench.directory), chance)
    files = {name: FileNode(content) for name, content in contents(bench).items()}
    disk._tree = DirectoryNode(dict(files), dict(files))
    return disk


def repair_offline(bench: LogBench, others: Replicas) -> None:
    mended(bench, others, [2], partial(swap_mended_offline, str(bench.directory)))


def repair_whole_range(bench: LogBench, others: Replicas) -> None:
    put_in_place = partial(swap_mended_offline, str(bench.directory))
    bases, _ = mended(bench, others, [2], put_in_place, may_have_gaps=True)
    assert len(bases) > 1


def repair_open_log(bench: LogBench, others: Replicas) -> None:
    segments = {segment.base_offset: segment for segment in bench.log.segments}
    mended(bench, others, [2], lambda bases: swap_mended(bench.log, segments[bases[0]]))


REPAIRS = [repair_offline, repair_whole_range, repair_open_log]


@pytest.mark.parametrize("repair", REPAIRS)
def test_a_disk_that_fails_during_a_repair_leaves_the_old_segment_or_the_new_one(
    tmp_path: Path, repair: Callable[[LogBench, Replicas], None]
) -> None:
    whole = filled(tmp_path / "whole")
    others = Replicas(broker_2=whole.log)
    damaged = twin(whole, tmp_path / "damaged")
    flip(damaged.file(list(damaged.log.segments)[1].base_offset, ".log"), 300)
    wanted = [contents(each) for each in (whole, damaged)]
    outcomes = set()
    for change in range(1, CHANGES_MAX):
        root = tmp_path / f"run-{change}"
        bench = twin(damaged, root)
        disk = disk_with(bench, seeds.chance(change))
        disk.fail_at = {change: errno.EIO}
        with storage_on(disk), contextlib.suppress(StorageFault, OSError):
            repair(bench, others)
        for path in bench.discarded:
            Path(path).unlink()
        bench.log.cool()
        bench.open(clean=True)
        outcomes.add(wanted.index(contents(bench)))
        shutil.rmtree(root)
        if not disk.failures:
            break
    assert not disk.failures
    assert outcomes == {0, 1}


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("repair", REPAIRS)
def test_a_repair_that_is_cut_short_anywhere_loses_nothing(
    tmp_path: Path, repair: Callable[[LogBench, Replicas], None], power_cut: bool
) -> None:
    whole = filled(tmp_path / "whole")
    others = Replicas(broker_2=whole.log)
    damaged = twin(whole, tmp_path / "damaged")
    damaged_base = list(damaged.log.segments)[1].base_offset
    flip(damaged.file(damaged_base, ".log"), 300)
    wanted = [contents(each) for each in (whole, damaged)]
    outcomes = set()
    for change in range(1, CHANGES_MAX):
        root = tmp_path / f"run-{change}"
        bench = twin(damaged, root)
        disk = disk_with(bench, seeds.chance(change))
        disk.crash_at = change
        finished = False
        try:
            with storage_on(disk):
                repair(bench, others)
            finished = True
        except Crash:
            disk.restart(power_cut=power_cut)
        for path in bench.discarded:
            Path(path).unlink()
        bench.log.cool()
        bench.open(clean=True)
        outcomes.add(wanted.index(contents(bench)))
        shutil.rmtree(root)
        if finished:
            break
    assert finished
    assert outcomes == {0, 1}
