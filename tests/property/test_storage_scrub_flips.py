"""Whatever byte of a log's closed files the disk changes, the scrubber finds it, and whoever copies
records refuses it as what it is not: a follower, compaction and recovery."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from moldau.model.errors import ApiError
from moldau.records.batch import HEADER_BYTES, BatchHeader, whole_headers
from moldau.records.compression import Codec
from moldau.storage.log.replicated_batches import checked_batches
from moldau.storage.rewriting.segment_rewriting import DamagedSegment, read_batches
from moldau.storage.scrubbing.segment_scrubbing import Damage, scrub_partition
from tests.support import seeds
from tests.support.logs import PARTITION, LogBench, SmallSettings, batch

STARTED_MS = 1_700_000_000_000
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
SEEDS = seeds.parameters(300)
FIRST_START = len("0\n3\n0 ")
"""Where the epoch file says at which offset its first epoch starts."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> LogBench:
    """Several closed segments: all codecs, three leader epochs, transactions of either end, one of
    them across two segments."""
    root = tmp_path_factory.mktemp("flips")
    bench = LogBench(root, SmallSettings(segment_bytes=2_000, index_interval_bytes=150))
    for number in range(40):
        epoch = number // 15
        codec = CODECS[number % len(CODECS)]
        at = STARTED_MS + 10 * number
        bench.append(batch(3, timestamp=at, codec=codec), epoch)
        if number % 4 == 1:
            sequence = number // 4
            for producer_id in (7, 8):
                data = batch(
                    1,
                    timestamp=at + 5,
                    producer_id=producer_id,
                    epoch=0,
                    sequence=sequence,
                    transactional=True,
                )
                bench.append(data, epoch)
        if number % 4 == 3:
            bench.mark(7, 0, commit=number % 8 == 3, leader_epoch=epoch)
            bench.mark(8, 0, commit=False, leader_epoch=epoch)
    bench.log.roll()
    bench.log.close()
    assert len(bench.files(".log")) > 4
    return bench


def damages(bench: LogBench) -> list[Damage]:
    return [
        damage
        for scrubbed in scrub_partition(
            PARTITION, str(bench.directory), with_last=False, has_read=lambda count: None
        )
        for damage in scrubbed.damages
    ]


def closed_files(bench: LogBench, suffix: str) -> list[Path]:
    last = bench.files(".log")[-1].removesuffix(".log")
    names = [name for name in bench.files(suffix) if not name.startswith(last)]
    return [path for name in names if (path := bench.directory / name).stat().st_size]


def found_after_flip(bench: LogBench, path: Path, position: int, bit: int) -> list[Damage]:
    whole = path.read_bytes()
    content = bytearray(whole)
    content[position] ^= 1 << bit
    path.write_bytes(content)
    try:
        return damages(bench)
    finally:
        path.write_bytes(whole)


def test_nothing_is_found_where_nothing_is_damaged(bench: LogBench) -> None:
    assert damages(bench) == []


@pytest.mark.parametrize(
    "suffix", [".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint"]
)
@pytest.mark.parametrize("seed", seeds.parameters(3))
def test_any_flipped_byte_beside_a_log_is_found_in_its_file(
    bench: LogBench, suffix: str, seed: int
) -> None:
    chance = random.Random(seed)
    files = closed_files(bench, suffix)
    assert files
    for path in [files[0], files[len(files) // 2]]:
        for position in range(path.stat().st_size):
            bit = chance.randrange(8)
            found = found_after_flip(bench, path, position, bit)
            where = f"bit {bit} of byte {position} of {path.name}"
            if suffix == "leader-epoch-checkpoint" and position == FIRST_START:
                # It may lie inside the log's first batch: the log start has been there.
                continue
            assert found, where
            if suffix != "leader-epoch-checkpoint":
                # Where batch and epoch file disagree, either may be to blame.
                assert {damage.path for damage in found} == {str(path)}, where


def batches_of(path: Path) -> list[tuple[int, BatchHeader]]:
    return list(whole_headers(path.read_bytes()))


def test_any_flipped_byte_of_a_batchs_header_is_found_and_only_that_batch_blamed(
    bench: LogBench,
) -> None:
    chance = seeds.chance(1)
    path = closed_files(bench, ".log")[1]
    batches = batches_of(path)
    for position, header in (batches[0], batches[len(batches) // 2], batches[-1]):
        for at in range(HEADER_BYTES):
            bit = chance.randrange(8)
            found = found_after_flip(bench, path, position + at, bit)
            where = f"bit {bit} of byte {at} of the batch at {position}"
            blamed = [damage for damage in found if damage.path == str(path)]
            assert blamed, where
            first = blamed[0]
            assert first.position == position, where
            assert first.offset <= header.base_offset, where
            assert first.offset_end >= header.offset_end, where


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flipped_byte_anywhere_is_found(bench: LogBench, seed: int) -> None:
    chance = random.Random(seed)
    path = chance.choice(closed_files(bench, ".log"))
    position, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
    found = found_after_flip(bench, path, position, bit)
    assert [damage for damage in found if damage.path == str(path)]
    assert any(damage.position <= position < damage.position_end for damage in found)


def damaged_segments(bench: LogBench, seed: int) -> tuple[Path, bytes]:
    """One with a flipped byte among those that a checksum covers."""
    chance = random.Random(seed)
    path = chance.choice(closed_files(bench, ".log"))
    content = bytearray(path.read_bytes())
    at, header = chance.choice(batches_of(path))
    content[at + chance.randrange(17, header.size_bytes)] ^= 1 << chance.randrange(8)
    return path, bytes(content)


@pytest.mark.parametrize("seed", seeds.parameters(50))
def test_a_follower_refuses_a_damaged_batch_and_takes_those_before_it(
    bench: LogBench, seed: int
) -> None:
    path, content = damaged_segments(bench, seed)
    whole = path.read_bytes()
    taken = b""
    with pytest.raises(ApiError, match="is damaged") as refused:
        for good, _ in checked_batches(content, batches_of(path)[0][1].base_offset):
            taken += good
    assert whole.startswith(taken)
    assert refused.value.error.name == "CORRUPT_MESSAGE"


@pytest.mark.parametrize("seed", seeds.parameters(50))
def test_compaction_refuses_a_damaged_batch(bench: LogBench, seed: int, tmp_path: Path) -> None:
    _, content = damaged_segments(bench, seed)
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    with pytest.raises(DamagedSegment, match="is damaged at byte"):
        list(read_batches(str(path), 0, len(content), 1 << 16, lambda count: None))


@pytest.mark.parametrize("seed", seeds.parameters(20))
def test_recovery_cuts_a_damaged_batch_off(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    bench = LogBench(tmp_path, SmallSettings(segment_bytes=1_000))
    for number in range(12):
        bench.append(batch(2, timestamp=STARTED_MS + number))
    bench.log.segments.cool()
    path = bench.directory / chance.choice(bench.files(".log"))
    at, header = chance.choice(batches_of(path))
    content = bytearray(path.read_bytes())
    content[at + chance.randrange(17, header.size_bytes)] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    assert bench.crash_and_open().offset_end == header.base_offset


@pytest.mark.parametrize("bit", range(1, 40))
def test_an_offset_that_is_too_large_is_refused_by_all_though_no_checksum_covers_it(
    tmp_path: Path, bit: int
) -> None:
    bench = LogBench(tmp_path, SmallSettings())
    for number in range(9):
        bench.append(batch(2, timestamp=STARTED_MS + number))
    bench.log.close()
    path = bench.file(0, ".log")
    content = bytearray(path.read_bytes())
    at, header = batches_of(path)[3]
    base = header.base_offset | 1 << bit
    if base == header.base_offset:
        base += 1
    content[at : at + 8] = base.to_bytes(8, "big")
    path.write_bytes(content)

    taken = b""
    with pytest.raises(ApiError, match=f"the batch for offset {base} is damaged"):
        for good, _ in checked_batches(content, 0):
            taken += good
    assert taken == content[:at]
    with pytest.raises(DamagedSegment, match="comes after"):
        list(read_batches(str(path), 0, len(content), 1 << 16, lambda count: None))
    assert bench.crash_and_open().offset_end == header.base_offset
