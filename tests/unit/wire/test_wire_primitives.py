from __future__ import annotations

import pytest

from moldau.model.file_regions import FileRegion
from moldau.wire import primitives
from moldau.wire.primitives import DecodeError


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**31 - 1, b"\xff\xff\xff\xff\x07"),
    ],
)
def test_unsigned_varints_take_seven_bits_per_byte_low_ones_first(value: int, data: bytes) -> None:
    assert primitives.uvarint(value) == data
    assert primitives.read_uvarint(b"." + data + b".", 1) == (value, 1 + len(data))


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, b"\x00"), (-1, b"\x01"), (1, b"\x02"), (-65, b"\x81\x01"), (64, b"\x80\x01")],
)
def test_signed_varints_are_zigzag(value: int, data: bytes) -> None:
    assert primitives.varint(value) == data
    assert primitives.read_varint(data, 0) == (value, len(data))


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**31, -(2**31)])
def test_signed_varints_reach_64_bits(value: int) -> None:
    data = primitives.varint(value)
    assert primitives.read_varint(data, 0) == (value, len(data))


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80", b"\x80\x80\x80\x80", b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x0f"],
)
def test_an_unsigned_varint_that_is_cut_short_or_too_large_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        primitives.read_uvarint(data, 0)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80" * 10 + b"\x01"])
def test_a_signed_varint_that_is_cut_short_or_too_long_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        primitives.read_varint(data, 0)


@pytest.mark.parametrize("text", [None, "", "topic", "日本語 🎈", "x" * 200])
def test_compact_strings_are_read_as_they_were_written(text: str | None) -> None:
    data = primitives.compact_string(text)
    assert primitives.read_compact_string(memoryview(data), 0) == (text, len(data))


@pytest.mark.parametrize("data", [b"", b"\x05abc", b"\x03\xff\xfe"])
def test_a_compact_string_that_is_cut_short_or_not_utf8_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        primitives.read_compact_string(data, 0)


def test_tagged_fields_are_skipped_whatever_they_hold() -> None:
    section = b"\x02" + b"\x00\x03abc" + b"\x81\x01\x00" + b"rest"
    assert primitives.skip_tagged_fields(section, 0) == len(section) - 4


@pytest.mark.parametrize("section", [b"", b"\x01", b"\x01\x00\x05ab", b"\xff\xff\xff\xff\x07"])
def test_a_tag_section_that_runs_past_the_end_is_refused(section: bytes) -> None:
    with pytest.raises(DecodeError):
        primitives.skip_tagged_fields(section, 0)


def test_records_are_measured_wherever_they_lie() -> None:
    class NoFile:
        def fileno(self) -> int:
            raise AssertionError("measuring must not touch the file")

    region = FileRegion(NoFile(), 100, 4096)
    assert primitives.records_size(b"abc") == 3
    assert primitives.records_size(memoryview(b"abcd")) == 4
    assert primitives.records_size(region) == 4096
    assert primitives.records_size([b"abc", region, bytearray(5)]) == 4104
