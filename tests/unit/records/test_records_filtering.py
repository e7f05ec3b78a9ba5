"""Compaction's kernel, compiled and as plain Python: one suite for both, and both agree."""

from __future__ import annotations

import hashlib
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.records import batch_kernel
from moldau.records import compaction_kernel as installed
from moldau.records.batch import HEADER_BYTES
from moldau.records.batch_codec import Record, encode_batch
from tests.support import seeds
from tests.support.uncompiled import uncompiled

PLAIN = uncompiled(installed)
KERNELS = [PLAIN, installed] if installed.COMPILED else [PLAIN]
EVERYTHING = 1 << 40


@pytest.fixture(params=KERNELS, ids=lambda module: "compiled" if module.COMPILED else "plain")
def filtering(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def table(slots: int = 64) -> memoryview:
    return memoryview(bytearray(slots * installed.SLOT_BYTES)).cast("Q")


def body_of(*records: Record) -> bytes:
    return encode_batch(records)[HEADER_BYTES:]


def note(filtering: ModuleType, into: memoryview, *records: Record, base: int = 0) -> None:
    body = body_of(*records)
    filtering.note_keys(into, body, (0, len(body)), len(records), base, 0, EVERYTHING)


def judge(
    filtering: ModuleType,
    known: memoryview,
    *records: Record,
    latest: int = EVERYTHING,
    tombstones_stay: bool = True,
) -> tuple[list[int], tuple[int, ...]]:
    body, keep = body_of(*records), bytearray(len(records))
    answer = filtering.judge_records(known, keep, body, (0, len(body)), 0, latest, tombstones_stay)
    return list(keep), answer


@pytest.mark.parametrize("size", [0, 1, 8, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000])
def test_keys_are_known_by_their_md5(filtering: ModuleType, size: int) -> None:
    key, known = bytes(i % 251 for i in range(size)), table()
    note(filtering, known, Record(key=key), base=7)
    assert filtering.newest_offset(known, key) == 7
    halves = [int.from_bytes(hashlib.md5(key).digest()[i : i + 8], "little") for i in (0, 8)]
    assert any(known[slot : slot + 3].tolist() == [*halves, 8] for slot in range(0, 192, 3))
    assert filtering.newest_offset(known, b"another") == -1


def test_the_newest_offset_of_a_key_counts(filtering: ModuleType) -> None:
    known = table()
    note(filtering, known, Record(key=b"a"), Record(key=b"b"), Record(key=b"a"), Record())
    assert filtering.newest_offset(known, b"a") == 2
    assert filtering.newest_offset(known, b"b") == 1


def test_noting_stops_when_the_room_is_used_up(filtering: ModuleType) -> None:
    body = body_of(*(Record(key=b"%d" % (i // 2)) for i in range(10)))
    assert filtering.note_keys(table(), body, (0, len(body)), 10, 0, 0, 3) == (3, 5)
    assert filtering.note_keys(table(), body, (0, len(body)), 10, 0, 0, 6) == (5, 10)
    assert filtering.note_keys(table(), body, (0, len(body)), 10, 100, 106, 6) == (2, 10)


def test_a_table_may_be_filled_to_its_last_but_one_slot(filtering: ModuleType) -> None:
    known = table(8)
    note(filtering, known, *(Record(key=b"%d" % i) for i in range(7)))
    assert [filtering.newest_offset(known, b"%d" % i) for i in range(8)] == [*range(7), -1]


def test_only_the_newest_record_of_each_key_stays(filtering: ModuleType) -> None:
    records = [
        Record(key=b"a", value=b"1"),
        Record(key=b"b", value=b"1"),
        Record(value=b"x"),
        Record(key=b"a", value=b"2"),
        Record(key=b"unknown", value=b"1"),
    ]
    known = table()
    note(filtering, known, *records[:4])
    assert judge(filtering, known, *records)[0] == [0, 1, 0, 1, 1]
    assert judge(filtering, known, *records, latest=1)[0] == [0, 1, 1, 1, 1]


def test_a_tombstone_stays_only_as_long_as_it_may(filtering: ModuleType) -> None:
    records = [Record(key=b"a", value=None), Record(key=b"b", value=b"")]
    known = table()
    note(filtering, known, *records)
    assert judge(filtering, known, *records) == ([1, 1], (-1, 2, 1, 0, 0))
    kept, answer = judge(filtering, known, *records, tombstones_stay=False)
    assert (kept, answer[1:3]) == ([0, 1], (1, 0))


def test_surplus_bits_of_a_number_are_dropped_as_where_records_are_checked(
    filtering: ModuleType,
) -> None:
    body = body_of(Record(key=b"a"))
    body = bytes([body[0] | 0x80, 0x80, 0x80, 0x80, 0x70]) + body[1:]  # the size, in five bytes
    assert batch_kernel.walk_records(body, 0, len(body), 1, -1)[0] == 0
    known = table()
    filtering.note_keys(known, body, (0, len(body)), 1, 7, 0, EVERYTHING)
    assert filtering.newest_offset(known, b"a") == 7


def test_a_broken_record_is_named(filtering: ModuleType) -> None:
    body = bytearray(body_of(Record(key=b"a"), Record(key=b"b")))
    body[len(body) // 2] = 0x7E
    assert filtering.note_keys(table(), body, (0, len(body)), 2, 0, 0, 9) == (-1, 1)
    keep = bytearray(2)
    judged = filtering.judge_records(table(), keep, body, (0, len(body)), 0, 9, True)
    assert judged[0] == 1


def test_bytes_that_are_not_there_are_not_read(filtering: ModuleType) -> None:
    with pytest.raises(IndexError):
        filtering.note_keys(table(), b"123", (0, 4), 1, 0, 0, 9)
    with pytest.raises(IndexError):
        filtering.judge_records(table(), bytearray(1), b"123", (-1, 2), 0, 0, True)
    with pytest.raises(IndexError):
        filtering.copy_kept(bytearray(9), 0, bytearray(1), b"123", (0, 3), 0, False)


RECORDS = st.lists(
    st.builds(
        Record,
        timestamp=st.integers(0, 1 << 41),
        key=st.none() | st.binary(max_size=3),
        value=st.none() | st.binary(max_size=200),
        headers=st.just(()) | st.just((("h", b"x"), ("n", None))),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=seeds.times(150), deadline=None)
@given(RECORDS, st.integers(0, 30), st.booleans(), st.integers(0, 1 << 41), st.booleans())
def test_what_stays_is_copied_with_its_time_and_offset(
    records: list[Record], latest: int, tombstones_stay: bool, base: int, fixed: bool
) -> None:
    body, outcomes = body_of(*records), []
    for module in KERNELS:
        known, keep = table(), bytearray(len(records))
        note(module, known, *records)
        answer = module.judge_records(known, keep, body, (0, len(body)), 0, latest, tombstones_stay)
        out = bytearray(len(body) + module.GROWTH_BYTES_MAX * len(records) + 5)
        shift = 77 if fixed else records[0].timestamp - base
        end = module.copy_kept(out, 5, keep, body, (0, len(body)), shift, fixed)
        outcomes.append((answer, bytes(keep), bytes(out[5:end])))
    assert outcomes[0] == outcomes[-1]
    _, stays, copied = outcomes[0]
    rows, broken = batch_kernel.read_records(copied, copied, 0, 0 if fixed else base, sum(stays))
    assert broken == -1
    expected = [
        (i, 77 if fixed else r.timestamp, r.key, r.value, r.headers)
        for i, r in enumerate(records)
        if stays[i]
    ]
    assert rows == expected


@pytest.mark.parametrize("module", KERNELS)
def test_a_record_before_its_batchs_first_offset_is_broken(module: ModuleType) -> None:
    content = bytes((10, 0, 0, 3, 0, 0))  # the offset delta is -2
    assert module.note_keys(table(), content, (0, 6), 1, 0, 0, 60) == (-1, 0)
    assert module.judge_records(table(), bytearray(1), content, (0, 6), 0, 3, True)[0] == 0


@settings(max_examples=seeds.times(150), deadline=None)
@given(st.binary(max_size=80), st.integers(0, 5))
def test_any_bytes_are_judged_alike(content: bytes, count: int) -> None:
    outcomes = []
    for module in KERNELS:
        known, keep = table(), bytearray(count)
        noted = module.note_keys(known, content, (0, len(content)), count, 0, 0, 60)
        judged = module.judge_records(known, keep, content, (0, len(content)), 0, 3, True)
        outcomes.append((noted, judged, bytes(keep), bytes(known)))
    assert outcomes[0] == outcomes[-1]
