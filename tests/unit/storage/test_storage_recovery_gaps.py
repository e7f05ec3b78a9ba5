"""What a start removes from a log that a crash left, and what it must not: a gap is no damage."""

from __future__ import annotations

import logging
import struct
from pathlib import Path

import pytest

from moldau.storage.log.segment import Segment
from tests.support.logs import LogBench, SmallSettings, batch, read_all, spans


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    """Segments of ten batches of two records each; there is no recovery point."""
    made = LogBench(tmp_path, SmallSettings())
    for number in range(50):
        if number and number % 10 == 0:
            made.log.roll()
        made.append(batch(2, producer_id=1, epoch=0, sequence=2 * number))
    return made


def cut(bench: LogBench, base_offset: int, batches: int) -> None:
    """As a power cut may: the last batches of a closed segment never reached the disk."""
    path = bench.file(base_offset, ".log")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 10 * (10 - batches)])


@pytest.mark.parametrize("missing", [1, 3, 10])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_what_follows_a_gap_is_kept(
    bench: LogBench, missing: int, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.change(cleanup_policy=(policy,))
    written = spans(read_all(bench.log))
    cut(bench, 20, missing)
    with caplog.at_level(logging.WARNING):
        log = bench.crash_and_open()
    assert spans(read_all(log)) == written[: 20 - missing] + written[20:]
    assert log.offset_end == 100
    entry = log.producers.entry(1)
    assert entry is not None
    assert entry.last_sequence == 99
    told = f"the next one begins with 40, though the topic is not compacted: {2 * missing} offsets"
    assert (told in caplog.text) == (policy == "delete")


def test_what_goes_after_a_damaged_batch_is_told_with_offsets_and_counts(
    bench: LogBench, caplog: pytest.LogCaptureFixture
) -> None:
    written = spans(read_all(bench.log))
    path = bench.file(20, ".log")
    content = bytearray(path.read_bytes())
    batch_bytes = len(content) // 10
    content[5 * batch_bytes + 80] ^= 1
    path.write_bytes(content)
    later_bytes = sum(bench.file(base, ".log").stat().st_size for base in (40, 60, 80))
    with caplog.at_level(logging.WARNING):
        log = bench.crash_and_open()
    assert spans(read_all(log)) == written[:15]
    assert (
        f"Corruption found in segment 20, truncating to offset 30: cutting off its last "
        f"{5 * batch_bytes} bytes, and 3 later segments with offsets 40 to 99 in {later_bytes} "
        "bytes"
    ) in caplog.text


def test_a_start_that_is_killed_while_it_cuts_off_is_gone_on_with_by_the_next(
    bench: LogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = spans(read_all(bench.log))
    path = bench.file(20, ".log")
    content = bytearray(path.read_bytes())
    content[80] ^= 1
    path.write_bytes(content)
    remove, removed = Segment.remove, []

    def killed(segment: Segment) -> None:
        if removed:
            raise KeyboardInterrupt
        removed.append(segment.base_offset)
        remove(segment)

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            bench.crash_and_open()
    assert removed == [80], "the newest goes first"
    assert spans(read_all(bench.crash_and_open())) == written[:10]


def test_a_batch_with_offsets_of_the_next_segment_goes_alone(
    bench: LogBench, caplog: pytest.LogCaptureFixture
) -> None:
    written = spans(read_all(bench.log))
    path = bench.file(20, ".log")
    content = bytearray(path.read_bytes())
    # No checksum covers the offset.
    struct.pack_into(">q", content, len(content) // 10 * 9, 50)
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        log = bench.crash_and_open()
    assert spans(read_all(log)) == written[:19] + written[20:]
    assert "and 0 later segments" in caplog.text


def test_a_file_in_the_way_of_a_new_segment_is_told_of(
    bench: LogBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.file(100, ".log").write_bytes(b"x" * 70)
    with caplog.at_level(logging.WARNING):
        bench.log.roll()
    assert "already exists; deleting its 70 bytes first" in caplog.text
    assert bench.crash_and_open().offset_end == 100


@pytest.mark.parametrize("missing", [1, 3, 10])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_truncation_into_a_gap_ends_the_log_where_it_was_asked_to(
    bench: LogBench, missing: int, policy: str
) -> None:
    """Else a follower would go on behind it, and never ask its leader for what lies between."""
    bench.change(cleanup_policy=(policy,))
    written = spans(read_all(bench.log))
    cut(bench, 20, missing)
    bench.crash_and_open()
    bench.log.truncate_to(39)
    assert bench.log.offset_end == 39
    # Nobody gives the offsets of the gap out a second time, whatever happens.
    assert bench.crash_and_open().offset_end == 39
    bench.append(batch(2))
    log = bench.crash_and_open()
    assert spans(read_all(log)) == [*written[: 20 - missing], (39, 40)]
    assert log.offset_end == 41


def test_a_truncation_into_a_gap_in_the_middle_of_a_segment_is_the_same_after_a_restart(
    bench: LogBench,
) -> None:
    bench.change(cleanup_policy=("compact",))
    path = bench.file(20, ".log")
    content = path.read_bytes()
    batch_bytes = len(content) // 10
    path.write_bytes(content[: 3 * batch_bytes] + content[6 * batch_bytes :])
    bench.crash_and_open()
    bench.log.truncate_to(29)
    assert bench.log.offset_end == 29
    assert bench.crash_and_open().offset_end == 29


def test_a_truncation_to_the_start_of_a_segment_that_lost_all_goes_on_in_it(
    bench: LogBench,
) -> None:
    cut(bench, 40, 10)
    bench.crash_and_open()
    bench.log.truncate_to(40)
    assert bench.log.offset_end == 40
    assert [segment.base_offset for segment in bench.log.segments] == [0, 20, 40]
    assert bench.append(batch(2)).base_offset == 40
