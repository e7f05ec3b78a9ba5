"""Logs with messages of magic 0 and 1: opened, recovered, indexed, searched, cut and compacted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.model.errors import ApiError, Error
from moldau.records.batch import whole_headers
from moldau.records.batch_codec import Record, decode_batch, encode_batch
from moldau.records.compression import Codec
from moldau.records.old_formats.up_conversion import to_batches
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.replicated_batches import checked_batches
from moldau.storage.rewriting.segment_rewriting import DamagedSegment, read_batches
from tests.support.logs import LogBench, SmallSettings, first_from, latest_of
from tests.support.old_messages import Old, compressed, message, plain

START_MS = 1_700_000_000_000
SETTINGS = SmallSettings(index_interval_bytes=100)


def olds(first: int, count: int) -> list[Old]:
    return [Old(b"k%d" % (n % 3), b"v%d" % n, START_MS + n) for n in range(first, first + count)]


def written(root: Path, content: bytes) -> LogBench:
    """A log whose only segment an old broker has left, without indexes."""
    bench = LogBench(root, SETTINGS)
    for path in bench.directory.iterdir():
        path.unlink()
    (bench.directory / f"{0:020}.log").write_bytes(content)
    return bench


def mixed() -> bytes:
    """Offsets 0 to 79 in every shape."""
    parts = [plain(olds(0, 10), 0, 0), plain(olds(10, 10), 1, 10)]
    for at, codec in enumerate((Codec.GZIP, Codec.SNAPPY, Codec.LZ4)):
        for magic in (0, 1):
            first = 20 + 20 * at + 10 * magic
            parts.append(compressed(olds(first, 10), magic, codec, first))
    return b"".join(parts)


def read_all(log: PartitionLog, offset: int = 0, max_bytes: int = 300) -> list[Record]:
    found: list[Record] = []
    while offset < log.offset_end:
        region, offset_end = log.read(offset, max_bytes, log.offset_end)
        assert region is not None
        content = os.pread(region.file.fileno(), region.size_bytes, region.position)
        batches = to_batches(content)
        for position, _ in whole_headers(batches):
            found += [r for r in decode_batch(batches, position) if r.offset >= offset]
        assert offset_end > offset
        offset = offset_end
    return found


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_of_old_messages_opens_with_every_record_and_goes_on_in_batches(
    clean: bool, tmp_path: Path
) -> None:
    bench = written(tmp_path, mixed())
    log = bench.open(clean=clean)
    assert log.offset_end == 80
    assert len(log.segments.active.offset_index) > 5
    bench.log = log
    bench.append(encode_batch([Record(value=b"new"), Record(value=b"newer")]))
    for opened in (log, bench.open(clean=True), bench.open(clean=False)):
        for offset in (0, 5, 25, 37, 79, 80, 81):
            records = read_all(opened, offset)
            assert [record.offset for record in records] == list(range(offset, 82))
        values = [record.value for record in read_all(opened)]
        assert values == [*(b"v%d" % n for n in range(80)), b"new", b"newer"]


def test_what_is_damaged_or_torn_at_the_end_is_cut_off(tmp_path: Path) -> None:
    whole = plain(olds(0, 10), 1)
    torn = written(tmp_path, whole + compressed(olds(10, 5), 1, Codec.GZIP, 10)[:-3])
    assert torn.open(clean=False).offset_end == 10
    assert os.path.getsize(torn.directory / f"{0:020}.log") == len(whole)
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    (torn.directory / f"{0:020}.log").write_bytes(damaged)
    assert torn.open(clean=False).offset_end == 9


def test_times_are_found_among_messages_that_have_one(tmp_path: Path) -> None:
    log = written(tmp_path, mixed()).open(clean=False)
    for number in (10, 15, 33, 79):
        found = first_from(log, START_MS + number)
        assert found is not None
        assert (found.timestamp, found.offset) == (START_MS + number, number)
    between = first_from(log, START_MS + 25)
    assert between is not None
    assert between.offset == 30, "messages of magic 0 have no time"
    latest = latest_of(log)
    assert latest is not None
    assert latest.offset == 79
    assert log.max_timestamp == START_MS + 79


def test_a_cut_within_a_compressed_message_takes_all_of_it(tmp_path: Path) -> None:
    for offset, end in ((75, 70), (15, 15), (44, 40)):
        log = written(tmp_path, mixed()).open(clean=False)
        log.truncate_to(offset)
        assert log.offset_end == end
        assert [record.offset for record in read_all(log)] == list(range(end))


def test_a_single_short_message_is_a_log(tmp_path: Path) -> None:
    bench = written(tmp_path, message(Old(None, b"x", START_MS), 1))
    for clean in (True, False):
        log = bench.open(clean=clean)
        assert [record.value for record in read_all(log)] == [b"x"]
        assert log.segments.active.first_timestamp == START_MS


def test_an_index_as_kafka_made_it_for_messages_that_came_together_is_kept(tmp_path: Path) -> None:
    bench = written(tmp_path, plain(olds(0, 20), 1))
    size = len(plain(olds(0, 10), 1))
    entry = (19).to_bytes(4, "big") + size.to_bytes(4, "big")
    (bench.directory / f"{0:020}.index").write_bytes(entry)
    times = (START_MS + 19).to_bytes(8, "big") + (19).to_bytes(4, "big")
    (bench.directory / f"{0:020}.timeindex").write_bytes(times)
    log = bench.open(clean=True)
    assert list(log.segments.active.offset_index.entry(0)) == [19, size]
    assert [record.offset for record in read_all(log)] == list(range(20))


def test_retention_goes_by_the_times_of_messages(tmp_path: Path) -> None:
    bench = written(tmp_path, plain(olds(0, 10), 1))
    bench.settings = replace(SETTINGS, retention_ms=1000)
    log = bench.open(clean=False)
    assert log.delete_old_segments(START_MS + 500, 10) == 0
    assert log.delete_old_segments(START_MS + 5000, 10) == 1
    assert log.log_start_offset == 10


def test_a_follower_stores_old_messages_as_they_are_and_refuses_damaged_ones(
    tmp_path: Path,
) -> None:
    leader = written(tmp_path, mixed()).open(clean=False)
    (tmp_path / "follower").mkdir()
    bench = LogBench(tmp_path / "follower", SETTINGS)
    content = mixed() + encode_batch([Record(0, START_MS, b"k", b"v")], base_offset=80)
    assert bench.log.append_as_follower(content) == 81
    assert read_all(bench.log)[:80] == read_all(leader)
    damaged = bytearray(plain(olds(0, 3), 1, 81))
    damaged[40] ^= 1
    with pytest.raises(ApiError) as refused:
        list(checked_batches(damaged, 81))
    assert refused.value.error == Error.CORRUPT_MESSAGE
    with pytest.raises(ApiError) as refused:
        list(checked_batches(plain(olds(0, 3), 1, 5), 81))
    assert refused.value.error == Error.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("buffer_bytes", [60, 500, 1 << 20])
def test_compaction_reads_old_messages_as_batches(buffer_bytes: int, tmp_path: Path) -> None:
    content = mixed() + encode_batch([Record(0, START_MS, b"k", b"v")], base_offset=80)
    path = tmp_path / "segment"
    path.write_bytes(content)
    batches = list(read_batches(str(path), 0, len(content), buffer_bytes, lambda size: None))
    records = [record for _, _, batch in batches for record in decode_batch(batch)]
    assert [record.offset for record in records] == list(range(81))
    assert {header.codec for _, header, _ in batches} == {0, 1, 2, 3}
    damaged = bytearray(content)
    damaged[40] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DamagedSegment):
        list(read_batches(str(path), 0, len(content), buffer_bytes, lambda size: None))
