"""What is restored up to a cut, and what of it readers of committed records see."""

from __future__ import annotations

from pathlib import Path

from moldau.backup.batch_files import BatchFile, file_name
from moldau.backup.batch_scan import BatchScan
from moldau.backup.committed_batches import (
    AbortedRanges,
    RecordSum,
    as_produced,
    committed,
    offsets_of,
)
from moldau.backup.moments import FileRow, Moment, data_path
from moldau.backup.produced_restore import OffsetMapping
from moldau.backup.restore_plan import Plan, PlannedPartition
from moldau.backup.restored_batches import RestoredBatches
from moldau.records.batch import read_header, whole_headers
from moldau.records.batch_codec import (
    ControlType,
    EndMarker,
    Record,
    decode_batch,
    decode_marker,
    encode_batch,
    encode_marker,
)
from moldau.records.compression import Codec

PLACE = "t@0/0"


def batch(base: int, count: int, producer: int = -1, **more: object) -> bytes:
    rows = [Record(timestamp=100 + base + n, value=b"%d" % (base + n)) for n in range(count)]
    epoch = 3 if producer >= 0 else -1
    return encode_batch(
        rows,
        base_offset=base,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=base if producer >= 0 else -1,
        transactional=producer >= 0,
        codec=Codec.ZSTD,
        **more,  # type: ignore[arg-type]
    )


def marker(base: int, producer: int, kind: ControlType) -> bytes:
    return encode_marker(
        EndMarker(kind, 0),
        producer_id=producer,
        producer_epoch=3,
        timestamp=100 + base,
        base_offset=base,
    )


def planned(
    directory: Path, content: bytes, end: int, until: int | None = None, commits: int = -1
) -> RestoredBatches:
    file, scan = BatchFile(data_path(str(directory), PLACE), 0), BatchScan()
    file.add(content)
    scan.take(content)
    row = FileRow(file_name(0, 99), 0, 99, scan.counts, *file.finish(99))
    moment = Moment(1, 500, "c", True, {}, {}, {})
    plan = Plan(
        str(directory), moment, (), {}, lambda producer, epoch: producer == commits, until, 500
    )
    return RestoredBatches(plan, PlannedPartition(0, PLACE, (row,), 0, end))


def rows(chunks: list[bytes]) -> list[str]:
    """What readers of everything see, and markers."""
    found = []
    for chunk in chunks:
        for position, header in whole_headers(chunk):
            for record in decode_batch(chunk, position):
                text = (record.value or b"").decode("latin-1")
                if header.is_control:
                    end = decode_marker(record)
                    assert end is not None
                    text = f"{end.kind.name} {header.producer_id}"
                found.append(f"{record.offset}: {text}")
    return found


def restored(batches: RestoredBatches) -> list[bytes]:
    return [bytes(chunk) for chunk in batches.chunks()]


def test_whole_it_is_the_same_bytes(tmp_path: Path) -> None:
    content = batch(0, 3) + batch(3, 2, producer=7) + marker(5, 7, ControlType.COMMIT)
    batches = planned(tmp_path, content, 6)
    assert restored(batches) == [content]
    assert batches.offset_end == 6
    assert (batches.committed, batches.aborted) == (0, 0)


def test_what_is_open_at_the_end_is_ended_as_it_was_decided(tmp_path: Path) -> None:
    content = batch(0, 1, producer=8) + batch(1, 1, producer=7)
    batches = planned(tmp_path, content, 2, commits=7)
    assert rows(restored(batches)) == ["0: 0", "1: 1", "2: ABORT 8", "3: COMMIT 7"]
    assert batches.offset_end == 4
    assert (batches.committed, batches.aborted) == (1, 1)


def test_a_cut_goes_through_a_batch(tmp_path: Path) -> None:
    content = batch(0, 10) + batch(10, 10)
    for name, end, until in (("offset", 14, None), ("time", 99, 114)):
        batches = planned(tmp_path / name, content, end, until)
        chunks = restored(batches)
        assert rows(chunks) == [f"{n}: {n}" for n in range(14)]
        assert batches.offset_end == 14
        headers = [header for chunk in chunks for _, header in whole_headers(chunk)]
        assert [header.last_offset for header in headers] == [9, 13]


def test_a_transaction_that_the_cut_goes_through_is_aborted(tmp_path: Path) -> None:
    content = batch(0, 4, producer=7) + marker(4, 7, ControlType.COMMIT)
    assert rows(restored(planned(tmp_path, content, 2)))[-1] == "2: ABORT 7"


def test_readers_see_no_markers_and_nothing_aborted(tmp_path: Path) -> None:
    content = (
        batch(0, 2, producer=7)
        + batch(2, 1)
        + marker(3, 7, ControlType.ABORT)
        + batch(4, 1, producer=7)
        + marker(5, 7, ControlType.COMMIT)
        + batch(6, 1, producer=9)
        + marker(7, 9, ControlType.ABORT)
    )
    aborted = AbortedRanges([content])
    seen = [header.base_offset for _, header in committed([content], aborted)]
    assert seen == [2, 4]


def test_a_batch_with_gaps_is_produced_without_them_and_offsets_are_mapped() -> None:
    kept = [Record(offset=n, timestamp=n, value=b"%d" % n) for n in (10, 11, 14, 19)]
    content = memoryview(encode_batch(kept, base_offset=10, keep_offsets=True, codec=Codec.LZ4))
    header = read_header(content)
    sent = as_produced(content, header, 5, 0, 100)
    again = read_header(sent)
    assert (again.producer_id, again.base_sequence, again.last_offset_delta) == (5, 100, 3)
    assert [(each.timestamp, each.value) for each in decode_batch(sent)] == [
        (each.timestamp, each.value) for each in kept
    ]
    mapping, target = OffsetMapping(), 50
    for first, count in offsets_of(content, header):
        mapping.add(first, target, count)
        target += count
    assert [tuple(run) for run in mapping.runs] == [(10, 50, 2), (14, 52, 1), (19, 53, 1)]
    wanted = {0: 50, 10: 50, 11: 51, 12: 52, 14: 52, 15: 53, 19: 53, 20: 54, 99: 54}
    assert {offset: mapping.of(offset) for offset in wanted} == wanted


def test_a_record_that_differs_differs_in_the_sum() -> None:
    sums = []
    for value in (b"x", b"x", b"y"):
        total = RecordSum()
        content = encode_batch([Record(timestamp=1, value=value)])
        total.take(content, read_header(content))
        sums.append(str(total))
    assert sums[0] == sums[1] != sums[2]
