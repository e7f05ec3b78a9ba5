"""Files of batches: what is written is read, and every flipped bit is noticed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from moldau.backup.backup_faults import Damaged
from moldau.backup.batch_files import BatchFile, Reading, file_name, parse_file_name
from moldau.backup.batch_scan import BatchScan, whole_batches
from moldau.backup.moments import FileRow
from moldau.backup.verification import checked_chunks
from moldau.records.batch_codec import Record, encode_batch
from moldau.records.compression import Codec
from tests.support import seeds


def batch(base: int, count: int, codec: Codec = Codec.NONE) -> bytes:
    rows = [Record(timestamp=1000 + n, key=b"k", value=b"v" * 50) for n in range(count)]
    return encode_batch(rows, base_offset=base, codec=codec)


def written(directory: Path, *chunks: bytes) -> tuple[Path, FileRow]:
    file, scan = BatchFile(str(directory), 0), BatchScan()
    for chunk in chunks:
        file.add(chunk)
        scan.take(chunk)
    end = 10 * len(chunks)
    name = file_name(0, end)
    row = FileRow(name, 0, end, scan.counts, *file.finish(end))
    return directory / name, row


def test_what_is_written_is_read(tmp_path: Path) -> None:
    chunks = (batch(0, 10), batch(10, 10, Codec.LZ4), batch(20, 5) + batch(25, 5))
    path, row = written(tmp_path, *chunks)
    assert [bytes(chunk) for chunk in checked_chunks(str(path), row)] == list(chunks)
    assert row.counts.records == 30
    assert row.stored_bytes == path.stat().st_size < sum(map(len, chunks))


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    chance = random.Random(seeds.fresh())
    path, row = written(tmp_path, batch(0, 10), batch(10, 10, Codec.LZ4))
    content = path.read_bytes()
    places = range(len(content)) if len(content) < 400 else chance.sample(range(len(content)), 400)
    for at in places:
        changed = bytearray(content)
        changed[at] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(Damaged, match=path.name):
            list(checked_chunks(str(path), row))


def test_a_file_that_ends_early_or_is_gone_is_named(tmp_path: Path) -> None:
    path, row = written(tmp_path, batch(0, 10))
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(Damaged, match=path.name):
            list(checked_chunks(str(path), row))
        if length > 8:
            with pytest.raises(Damaged, match="ends in the middle"):
                list(Reading(str(path)).chunks())
    path.unlink()
    with pytest.raises(Damaged, match="is missing"):
        list(checked_chunks(str(path), row))


def test_a_name_says_what_is_in_it() -> None:
    assert parse_file_name(file_name(5, 17)) == (5, 17)
    for name in ("x", "5.partial", "00-.batches", "a-b.batches"):
        assert parse_file_name(name) is None


def test_of_a_fetch_only_whole_batches_before_the_end_are_taken() -> None:
    fetched = batch(0, 10) + batch(10, 10) + batch(20, 10)
    assert whole_batches(fetched, 10, 20) == (memoryview(batch(10, 10)), 20)
    # An offset in the middle of a batch: batches are whole.
    assert whole_batches(fetched, 15, 30)[0] == batch(10, 10) + batch(20, 10)
    assert whole_batches(fetched[:-1], 0, 99) == (memoryview(fetched)[: len(batch(0, 10)) * 2], 20)
