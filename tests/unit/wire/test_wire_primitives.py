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
    "data",
    [b"", b"\x80", b"\x80\x80\x80\x80", b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x0f"],
)
def test_an_unsigned_varint_that_is_cut_short_or_too_large_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        primitives.read_uvarint(data, 0)


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
