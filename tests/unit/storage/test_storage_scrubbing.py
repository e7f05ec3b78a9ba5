"""The scrubber: whatever byte of a closed segment is changed, it is found and its range named."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.storage.scrubbing.segment_scrubbing import Damage, scrub_partition
from tests.support import seeds
from tests.support.logs import PARTITION, LogBench, SmallSettings, batch, read_all


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    bench = LogBench(tmp_path, SmallSettings(segment_bytes=1500, index_interval_bytes=100))
    for number in range(30):
        bench.append(batch(3, timestamp=1_700_000_000_000 + 10 * number))
    bench.append(batch(2, producer_id=7, epoch=0, sequence=0, transactional=True))
    bench.mark(7, 0, commit=False)
    bench.log.roll()
    bench.log.close()
    return bench


def damages(bench: LogBench, *, with_last: bool = True) -> list[Damage]:
    found: list[Damage] = []
    for scrubbed in scrub_partition(
        PARTITION, str(bench.directory), with_last=with_last, has_read=lambda count: None
    ):
        found += scrubbed.damages
    return found


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << (position % 8)
    path.write_bytes(content)


def test_nothing_is_found_where_nothing_is_damaged(bench: LogBench) -> None:
    assert damages(bench) == []


def test_a_flipped_byte_anywhere_in_a_log_is_found(bench: LogBench) -> None:
    path = bench.file(0, ".log")
    whole = path.read_bytes()
    headers_and_samples = [*range(70), *range(70, len(whole), 13)]
    for position in headers_and_samples:
        flip(path, position)
        found = damages(bench)
        path.write_bytes(whole)
        assert [each for each in found if each.path == str(path)], f"byte {position}"


def test_the_damaged_range_is_named_in_bytes_and_offsets(bench: LogBench) -> None:
    path = bench.file(0, ".log")
    third = read_all(bench.log)[2]
    flip(path, 2 * third.size_bytes + 100)
    (damage,) = damages(bench)
    assert damage.path == str(path)
    assert (damage.position, damage.position_end) == (2 * third.size_bytes, 3 * third.size_bytes)
    assert (damage.offset, damage.offset_end) == (third.base_offset, third.offset_end)
    assert damage.reason == "the checksum is wrong"


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_a_damaged_file_beside_a_log_is_found(bench: LogBench, suffix: str) -> None:
    path = bench.directory / bench.files(suffix)[-2 if suffix != ".txnindex" else 0]
    chance = seeds.chance(3)
    path.write_bytes(chance.randbytes(path.stat().st_size))
    assert [each.path for each in damages(bench)] == [str(path)]


def test_a_segment_cut_short_is_found(bench: LogBench) -> None:
    path = bench.file(0, ".log")
    path.write_bytes(path.read_bytes()[:-5])
    (damage, *_) = damages(bench)
    assert damage.path == str(path)
    assert damage.offset_end == bench.log.segments.as_list()[1].base_offset


def test_the_segment_being_written_can_be_left_out(bench: LogBench) -> None:
    last = bench.log.segments.active.base_offset
    bench.file(last, ".log").write_bytes(b"half a batch")
    assert damages(bench, with_last=False) == []
    assert damages(bench)
