"""The kernel, compiled and as plain Python: one suite for both, and both agree on any bytes."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.records import batch_kernel as installed
from moldau.records.batch import HEADER_BYTES
from moldau.records.batch_codec import Record, encode_batch
from tests.support import seeds
from tests.support.uncompiled import uncompiled

PLAIN = uncompiled(installed)
KERNELS = [PLAIN, installed] if installed.COMPILED else [PLAIN]
SIZE, STRUCTURE, OFFSET, HEADER_COUNT, HEADER_KEY, TRAILING = range(1, 7)


@pytest.fixture(params=KERNELS, ids=lambda module: "compiled" if module.COMPILED else "plain")
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def body_of(*records: Record) -> bytes:
    return encode_batch(records)[HEADER_BYTES:]


def fault_of(kernel: ModuleType, body: bytes, count: int = 1) -> tuple[int, int]:
    fault, index, *_ = kernel.walk_records(body, 0, len(body), count, -1)
    return fault, index


def test_a_kernel_says_whether_it_is_compiled() -> None:
    assert PLAIN.COMPILED is False
    assert installed.COMPILED is not installed.__file__.endswith(".py")


def test_a_walk_over_good_records_tells_times_and_missing_keys(kernel: ModuleType) -> None:
    body = body_of(
        Record(timestamp=100, key=b"k", value=b"v"),
        Record(timestamp=170, value=b"v", headers=(("h", b"x"), ("n", None))),
        Record(timestamp=40, key=b"", value=None),
        Record(timestamp=170, value=b""),
    )
    walked = kernel.walk_records(body, 0, len(body), 4, -101)
    assert walked == (0, 4, -60, 70, 1, 2)


def test_records_without_a_timestamp_do_not_count_as_old(kernel: ModuleType) -> None:
    body = body_of(Record(timestamp=100), Record(timestamp=-1))
    assert kernel.walk_records(body, 0, len(body), 2, -101)[2] == 0
    body = body_of(Record(timestamp=-1))
    assert kernel.walk_records(body, 0, len(body), 1, 0)[2] == kernel.DELTA_HIGHEST


def test_a_walk_reads_only_between_position_and_end(kernel: ModuleType) -> None:
    body = body_of(Record(value=b"v"))
    framed = b"\xff" * 10 + body + b"\xff" * 10
    assert kernel.walk_records(framed, 10, 10 + len(body), 1, 0)[:2] == (0, 1)


@pytest.mark.parametrize(("position", "end"), [(-1, 3), (0, 4)])
def test_a_range_outside_the_buffer_is_a_bug_of_the_caller(
    kernel: ModuleType, position: int, end: int
) -> None:
    buffer = b"abc"
    with pytest.raises(IndexError):
        kernel.walk_records(buffer, position, end, 1, 0)
    with pytest.raises(IndexError):
        kernel.scan_batches(buffer, position, end)
    with pytest.raises(IndexError):
        kernel.find_batch(buffer, position, end, 0)
    with pytest.raises(IndexError):
        kernel.find_record(buffer, position, end, 0, 0)
    with pytest.raises(IndexError):
        kernel.list_refused(buffer, position, end, 1, (True, 0, 0, 0), 1)
    with pytest.raises(IndexError):
        kernel.intact_end(buffer, memoryview(buffer), position, end)


# A record: size, attributes, timestamp delta, offset delta, key size, value size, header count.
# Small numbers are zigzag: 2 is 1, 1 is -1.
@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", SIZE),
        (bytes([1]), SIZE),
        (bytes([14, 0, 0, 0, 1, 1, 0]), SIZE),
        (bytes([0x80] * 6), SIZE),
        (bytes([0]), STRUCTURE),
        (bytes([2, 0]), STRUCTURE),
        (bytes([4, 0, 0]), STRUCTURE),
        (bytes([12, 0, 0, 2, 1, 1, 0]), OFFSET),
        (bytes([12, 0, 0, 1, 1, 1, 0]), OFFSET),
        (bytes([12, 0, 0, 0, 8, 1, 0]), STRUCTURE),
        (bytes([12, 0, 0, 0, 1, 8, 0]), STRUCTURE),
        (bytes([12, 0, 0, 0, 1, 1, 1]), HEADER_COUNT),
        (bytes([12, 0, 0, 0, 1, 1, 2]), HEADER_COUNT),
        (bytes([14, 0, 0, 0, 1, 1, 0, 0]), STRUCTURE),
        (bytes([16, 0, 0, 0, 1, 1, 2, 1, 0]), HEADER_KEY),
        (bytes([16, 0, 0, 0, 1, 1, 2, 0, 2]), STRUCTURE),
        (bytes([16, 0, 0, 0, 1, 1, 4, 0, 0]), STRUCTURE),
        (bytes([16, 0, *[0x80] * 7]), STRUCTURE),
        (bytes([24, 0, *[0x80] * 10, 0]), STRUCTURE),
    ],
)
def test_a_broken_record_is_found_with_its_reason(
    kernel: ModuleType, body: bytes, fault: int
) -> None:
    assert fault_of(kernel, body) == (fault, 0)


def test_every_fault_has_a_sentence(kernel: ModuleType) -> None:
    assert sorted(kernel.FAULTS) == list(range(1, 7))


def test_the_index_of_the_first_broken_record_is_told(kernel: ModuleType) -> None:
    body = body_of(Record(), Record(), Record())
    assert fault_of(kernel, body[:-1], 3) == (SIZE, 2)
    assert fault_of(kernel, body, 4) == (SIZE, 3)


def test_bytes_behind_the_last_record_are_a_fault(kernel: ModuleType) -> None:
    assert fault_of(kernel, body_of(Record(), Record()), 1) == (TRAILING, 1)
    assert fault_of(kernel, b"x", 0) == (TRAILING, 0)


def test_surplus_bits_of_a_longest_number_are_dropped_as_java_does(kernel: ModuleType) -> None:
    # The value size of 0, in five bytes with bits beyond the 32nd set.
    body = bytes([20, 0, 0, 0, 1, 0x80, 0x80, 0x80, 0x80, 0x70, 0])
    assert fault_of(kernel, body) == (0, 1)


@pytest.mark.parametrize("delta", [2**63 - 1, -(2**63), 2**62, -(2**35), 64, -65])
def test_timestamp_deltas_have_the_whole_range_of_64_bits(kernel: ModuleType, delta: int) -> None:
    body = body_of(Record(timestamp=0), Record(timestamp=delta))
    walked = kernel.walk_records(body, 0, len(body), 2, -1)
    assert walked[:4] == (0, 2, min(delta, 0), max(delta, 0))
    rows, _ = kernel.read_records(body, body, 0, 5, 2)
    assert rows[1][1] == 5 + delta


def test_rows_are_written_and_read_back(kernel: ModuleType) -> None:
    rows = [
        (7, 100, b"key", None, ()),
        (8, 2**62, None, b"v" * 5000, (("é", b"x"), ("", None))),
        (9, -1, b"", b"", ()),
        (10, 100 - 2**63, b"", b"", ()),
    ]
    body = kernel.write_records(rows, 100, [0, 1, 2, 3])
    assert bytes(body) == PLAIN.write_records(rows, 100, [0, 1, 2, 3])
    assert kernel.read_records(body, bytes(body), 7, 100, 4) == (rows, -1)
    with pytest.raises(ValueError, match="shorter"):
        kernel.write_records(rows, 100, [0, 1])


def batches() -> tuple[bytes, list[int]]:
    made = [
        encode_batch([Record(timestamp=10 * i + k) for k in range(3)], base_offset=3 * i)
        for i in range(4)
    ]
    positions = [sum(map(len, made[:i])) for i in range(4)]
    return b"".join(made), positions


def test_a_scan_gives_a_row_per_whole_batch(kernel: ModuleType) -> None:
    log, positions = batches()
    batch = encode_batch(
        [Record(timestamp=-5)], base_offset=2**40, producer_id=2**50, leader_epoch=7,
        transactional=True,
    )  # fmt: skip
    rows = kernel.scan_batches(log + batch, 0, len(log) + len(batch))
    assert [row[0] for row in rows] == [*positions, len(log)]
    assert rows[1] == (positions[1], positions[1], 3, 5, 12, -1, -1, 0)
    assert rows[4][1:] == (len(batch), 2**40, 2**40, -5, 7, 2**50, 0x10)


def test_a_scan_stops_before_what_is_no_whole_batch(kernel: ModuleType) -> None:
    log, positions = batches()
    assert len(kernel.scan_batches(log, 0, len(log) - 1)) == 3
    assert len(kernel.scan_batches(log, positions[2], len(log))) == 2
    assert kernel.scan_batches(b"", 0, 0) == []
    assert kernel.scan_batches(bytes(200), 0, 200) == []
    torn = bytearray(log)
    torn[positions[1] + 8] = 0xFF
    assert len(kernel.scan_batches(torn, 0, len(torn))) == 1


def test_a_batch_is_found_by_offset_from_headers_alone(kernel: ModuleType) -> None:
    log, positions = batches()
    assert kernel.find_batch(log, 0, len(log), 0) == (True, 0)
    assert kernel.find_batch(log, 0, len(log), 5) == (True, positions[1])
    assert kernel.find_batch(log, 0, positions[3] + HEADER_BYTES, 9) == (True, positions[3])
    assert kernel.find_batch(log, 0, positions[3] + 60, 9) == (False, positions[3])
    assert kernel.find_batch(log, 0, positions[3] + HEADER_BYTES, 12) == (False, len(log))
    assert kernel.find_batch(bytes(100), 0, 100, 0) == (False, 0)


def test_a_record_is_found_by_time_and_offset(kernel: ModuleType) -> None:
    body = body_of(*[Record(timestamp=time) for time in (10, 40, 20, 40)])
    assert kernel.find_record(body, 0, len(body), 0, 0) == (0, 0)
    assert kernel.find_record(body, 0, len(body), 1, 0) == (1, 30)
    assert kernel.find_record(body, 0, len(body), 0, 2) == (2, 10)
    assert kernel.find_record(body, 0, len(body), 11, 2) == (3, 30)
    assert kernel.find_record(body, 0, len(body), 31, 0) == (-1, 0)
    assert kernel.find_record(body, 0, len(body), 0, 4) == (-1, 0)
    assert kernel.find_record(b"\xff" * 20, 0, 20, 0, 0) == (-1, 0)
    assert kernel.find_record(body[:-1], 0, len(body) - 1, 0, 3) == (-1, 0)


def test_records_that_break_the_rules_are_listed_up_to_a_bound(kernel: ModuleType) -> None:
    body = body_of(
        Record(timestamp=100, key=b"k"),
        Record(timestamp=90, key=b"k"),
        Record(timestamp=111, key=b"k"),
        Record(timestamp=200),
        Record(timestamp=-1, key=b"k"),
    )
    bounds = (True, -5, 10, -101)
    assert kernel.list_refused(body, 0, len(body), 5, bounds, 9) == (
        [(1, -10, False), (2, 11, False), (3, 100, True)],
        1,
        2,
    )
    assert kernel.list_refused(body, 0, len(body), 5, bounds, 1) == ([(1, -10, False)], 1, 2)


def test_what_recovery_may_keep_ends_before_the_first_wrong_checksum(kernel: ModuleType) -> None:
    log, positions = batches()
    assert kernel.intact_end(log, memoryview(log), 0, len(log)) == len(log)
    assert kernel.intact_end(log, memoryview(log), 0, len(log) - 1) == positions[3]
    flipped = bytearray(log)
    flipped[positions[2] + 40] ^= 1
    assert kernel.intact_end(flipped, memoryview(flipped), 0, len(log)) == positions[2]


def test_a_buffer_may_be_bytes_or_a_view_writable_or_not(kernel: ModuleType) -> None:
    body = body_of(Record(value=b"v"))
    for buffer in (body, bytearray(body), memoryview(body), memoryview(bytearray(body))):
        assert kernel.walk_records(buffer, 0, len(body), 1, 0)[0] == 0


@pytest.mark.skipif(not installed.COMPILED, reason="there is no compiled kernel to compare with")
@settings(max_examples=seeds.times(300), deadline=None)
@given(st.binary(max_size=80), st.integers(0, 6), st.data())
def test_compiled_and_plain_agree_on_any_bytes(
    noise: bytes, count: int, data: st.DataObject
) -> None:
    good = body_of(
        *[Record(timestamp=i, key=b"k" * i, headers=(("h", b"v"),)) for i in range(count)]
    )
    at = data.draw(st.integers(0, len(good)))
    body = data.draw(st.sampled_from([noise, good[:at] + noise[:1] + good[at + 1 :]]))
    end = data.draw(st.integers(0, len(body)))
    assert installed.walk_records(body, 0, end, count, 3) == PLAIN.walk_records(
        body, 0, end, count, 3
    )
    assert installed.read_records(body, body, 9, 5, count) == PLAIN.read_records(
        body, body, 9, 5, count
    )
    assert installed.find_record(body, 0, end, 2, 1) == PLAIN.find_record(body, 0, end, 2, 1)
    log = encode_batch([Record()]) + noise + bytes(20)
    assert installed.scan_batches(log, 0, len(log)) == PLAIN.scan_batches(log, 0, len(log))
    assert installed.find_batch(log, 0, len(log), 9) == PLAIN.find_batch(log, 0, len(log), 9)


@pytest.mark.parametrize("walk", ["good", "refused", "found", "headers"])
def test_other_threads_may_go_on_while_much_is_walked_through(
    walk: str, kernel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers: list[None] = []
    monkeypatch.setattr(kernel, "offer_interpreter", lambda: offers.append(None))
    headers = (("", b""),) * 50_000 if walk == "headers" else ()
    body = body_of(*[Record(headers=headers)] * (1 if headers else 50_000))
    count = 1 if headers else 50_000
    if walk in ("good", "headers"):
        assert kernel.walk_records(body, 0, len(body), count, -1)[0] == 0
    elif walk == "refused":
        bounds = (True, 0, 0, -1)
        assert kernel.list_refused(body, 0, len(body), count, bounds, 9)[1] == count
    else:
        assert kernel.find_record(body, 0, len(body), 1, 0) == (-1, 0)
    assert len(offers) == 3


def test_few_records_are_walked_through_without_a_pause(
    kernel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(kernel, "offer_interpreter")
    body = body_of(*[Record(headers=(("", b""),))] * 1_000)
    assert kernel.walk_records(body, 0, len(body), 1_000, -1)[0] == 0
