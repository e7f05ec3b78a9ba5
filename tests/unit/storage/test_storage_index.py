"""The sparse indexes: look-ups in the file, in the tail and across both; truncation; damage."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from moldau.storage.log.segment_indexes import TAIL_ENTRIES_MAX, OffsetIndex, TimeIndex
from moldau.storage.storage_faults import CorruptFile, StorageFault
from tests.support.logs import full_disk

BASE = 1000


def offset_index(tmp_path: Path, entries: int) -> OffsetIndex:
    """Entry i is for offset BASE + 10 i at position 100 i."""
    index = OffsetIndex(str(tmp_path / "a.index"), BASE)
    index.create()
    for i in range(entries):
        index.append(BASE + 10 * i, 100 * i)
    return index


SIZES = [
    0,
    1,
    2,
    TAIL_ENTRIES_MAX - 1,
    TAIL_ENTRIES_MAX,
    TAIL_ENTRIES_MAX + 1,
    3 * TAIL_ENTRIES_MAX,
]


@pytest.mark.parametrize("entries", SIZES)
def test_an_offset_is_found_at_the_last_entry_that_is_not_beyond_it(
    tmp_path: Path, entries: int
) -> None:
    index = offset_index(tmp_path, entries)
    for offset in range(BASE, BASE + 10 * entries + 25, 7):
        slot = min((offset - BASE) // 10, entries - 1)
        expected = (BASE + 10 * slot, 100 * slot) if slot >= 0 else (BASE, 0)
        assert index.floor(offset) == expected


@pytest.mark.parametrize("entries", SIZES)
def test_a_position_is_found_at_the_last_indexed_batch_that_is_not_beyond_it(
    tmp_path: Path, entries: int
) -> None:
    index = offset_index(tmp_path, entries)
    for position in range(0, 100 * entries + 250, 61):
        assert index.floor_position(position) == 100 * max(0, min(position // 100, entries - 1))


def test_the_file_has_the_entries_of_apache_kafka(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 3)
    index.save()
    expected = struct.pack(">iiiiii", 0, 0, 10, 100, 20, 200)
    assert (tmp_path / "a.index").read_bytes() == expected


def test_an_index_opened_again_has_what_was_saved_and_goes_on(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 700)
    index.save()
    again = OffsetIndex(str(tmp_path / "a.index"), BASE)
    assert len(again) == 700
    again.append(BASE + 7000, 70000)
    assert again.last() == (BASE + 7000, 70000)
    assert again.floor(BASE + 6995) == (BASE + 6990, 69900)


def test_a_look_up_sees_entries_that_were_saved_after_the_file_was_mapped(tmp_path: Path) -> None:
    index = offset_index(tmp_path, TAIL_ENTRIES_MAX)
    assert index.floor(BASE + 15).position == 100
    for i in range(TAIL_ENTRIES_MAX, 2 * TAIL_ENTRIES_MAX):
        index.append(BASE + 10 * i, 100 * i)
    assert index.floor(BASE + 10 * (TAIL_ENTRIES_MAX + 5)).position == 100 * (TAIL_ENTRIES_MAX + 5)


@pytest.mark.parametrize("keep", [0, 1, 250, TAIL_ENTRIES_MAX, TAIL_ENTRIES_MAX + 40, 600])
def test_truncation_drops_the_offset_and_all_beyond_from_file_and_tail(
    tmp_path: Path, keep: int
) -> None:
    index = offset_index(tmp_path, 600)
    index.floor(BASE)
    index.truncate(BASE + 10 * keep)
    assert len(index) == keep
    index.append(BASE + 10 * keep + 3, 100 * keep + 1)
    index.save()
    assert os.path.getsize(index.path) == 8 * (keep + 1)
    assert OffsetIndex(index.path, BASE).last() == (BASE + 10 * keep + 3, 100 * keep + 1)


def test_entries_that_the_disk_refuses_wait_in_memory_until_it_takes_them(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 0)
    with full_disk(0):
        for i in range(TAIL_ENTRIES_MAX + 10):
            index.append(BASE + i, i)
        with pytest.raises(StorageFault):
            index.save()
    assert len(index) == TAIL_ENTRIES_MAX + 10
    index.save()
    assert os.path.getsize(index.path) == 8 * (TAIL_ENTRIES_MAX + 10)


def test_a_file_cut_behind_our_back_is_a_fault_and_not_a_crash(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 100)
    index.save()
    os.truncate(index.path, 8)
    with pytest.raises(StorageFault, match="shrunk"):
        index.floor(BASE + 500)


def test_damage_is_noticed(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 3)
    index.save()
    index.check()
    path = tmp_path / "a.index"
    with path.open("ab") as file:
        file.write(b"???")
    with pytest.raises(CorruptFile, match="multiple of 8"):
        OffsetIndex(str(path), BASE).check()
    path.write_bytes(struct.pack(">ii", -5, 0))
    with pytest.raises(CorruptFile, match="less than"):
        OffsetIndex(str(path), BASE).check()
    path.unlink()
    with pytest.raises(CorruptFile, match="missing"):
        OffsetIndex(str(path), BASE).check()


def time_index(tmp_path: Path, entries: int) -> TimeIndex:
    index = TimeIndex(str(tmp_path / "a.timeindex"), BASE)
    index.create()
    for i in range(entries):
        index.append_if_later(5000 + 10 * i, BASE + i)
    return index


@pytest.mark.parametrize("entries", SIZES)
def test_a_timestamp_is_found_at_the_last_entry_that_is_not_later(
    tmp_path: Path, entries: int
) -> None:
    index = time_index(tmp_path, entries)
    for timestamp in range(4990, 5000 + 10 * entries + 20, 7):
        slot = min((timestamp - 5000) // 10, entries - 1)
        expected = (5000 + 10 * slot, BASE + slot) if slot >= 0 else (-1, BASE)
        assert index.floor(timestamp) == expected


def test_only_later_timestamps_make_entries(tmp_path: Path) -> None:
    index = time_index(tmp_path, 2)
    index.append_if_later(5010, BASE + 9)
    index.append_if_later(5009, BASE + 10)
    assert len(index) == 2
    index.append_if_later(5011, BASE + 11)
    index.save()
    content = (tmp_path / "a.timeindex").read_bytes()
    assert content == struct.pack(">qiqiqi", 5000, 0, 5010, 1, 5011, 11)


def test_truncating_the_time_index_forgets_its_last_entry(tmp_path: Path) -> None:
    index = time_index(tmp_path, 600)
    index.truncate(BASE + 30)
    assert index.last() == (5290, BASE + 29)
    index.truncate(BASE)
    assert index.last() == (-1, BASE)


def test_a_time_index_that_goes_back_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.timeindex"
    path.write_bytes(struct.pack(">qiqi", 9000, 1, 8000, 2))
    with pytest.raises(CorruptFile, match="less than the first"):
        TimeIndex(str(path), BASE).check()
