"""What a start removes of snapshots, and what it must not: parts in several directories, parts that
are half made or half removed, directories that cannot be used or come in another order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.storage.snapshots.snapshot_files import names_in, remove_snapshot, remove_unfinished
from moldau.storage.snapshots.snapshot_making import Moment, begin, finish


@pytest.fixture
def directories(tmp_path: Path) -> tuple[str, ...]:
    made = [tmp_path / name for name in ("one", "two", "three")]
    for directory in made:
        directory.mkdir()
    return tuple(str(directory) for directory in made)


def make(directories: tuple[str, ...], name: str) -> None:
    logs = dict.fromkeys(directories, ())
    metadata = ("metadata", lambda: b"")
    moment = Moment(name, 0, "cluster", 0, "0", directories, {}, False, logs, metadata)
    begin(moment)
    finish(moment)


def parts(directories: tuple[str, ...]) -> list[list[str]]:
    roots = [Path(f"{directory}-snapshots") for directory in directories]
    return [sorted(os.listdir(root)) if root.exists() else [] for root in roots]


def test_a_whole_snapshot_stays(directories: tuple[str, ...]) -> None:
    make(directories, "kept")
    assert remove_unfinished(directories) == []
    assert parts(directories) == [["kept"]] * 3


def test_a_snapshot_stays_whatever_order_the_directories_have(directories: tuple[str, ...]) -> None:
    make(directories, "kept")
    assert remove_unfinished(directories[::-1]) == []
    assert parts(directories) == [["kept"]] * 3


def test_a_snapshot_stays_while_its_first_directory_cannot_be_used(
    directories: tuple[str, ...],
) -> None:
    make(directories, "kept")
    root = Path(f"{directories[0]}-snapshots")
    root.rename(f"{root}.away")
    assert remove_unfinished(directories[1:]) == []
    assert parts(directories) == [[], ["kept"], ["kept"]]


@pytest.mark.parametrize("renames", range(6))
def test_a_crash_at_any_rename_of_a_snapshot_leaves_all_or_nothing_of_it(
    directories: tuple[str, ...], renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three renames make it, three remove it."""
    rename, left = os.rename, iter(range(renames))

    def rename_or_die(source: str, target: str) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename_or_die)
        with pytest.raises(KeyboardInterrupt):
            make(directories, "doomed")
            remove_snapshot(directories, "doomed")
    is_there = renames == 3
    assert names_in(directories[0]) == ["doomed"] * is_there
    remove_unfinished(directories)
    assert parts(directories) == [["doomed"] * is_there] * 3
    if not is_there:
        make(directories, "doomed")
        assert names_in(directories[0]) == ["doomed"]


def test_a_snapshot_that_was_removed_leaves_nothing(directories: tuple[str, ...]) -> None:
    make(directories, "gone")
    remove_snapshot(directories, "gone")
    assert parts(directories) == [[]] * 3
