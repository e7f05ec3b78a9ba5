"""The short form of `cat` and `put`: letters of a format, escapes, flags without a blank."""

from __future__ import annotations

import pytest

from moldau.cli.command_faults import UsageFault
from moldau.cli.records import cat, put
from moldau.cli.records.put import header_of
from moldau.cli.records.record_format import format_of
from moldau.cli.records.short_form import separated, unescaped
from moldau.client.consumer.consumer_records import ConsumerRecord, TimestampType


def record(key: bytes | None, value: bytes | None) -> ConsumerRecord:
    headers = (("h", b"1"), ("n", None))
    return ConsumerRecord("t", 1, 7, 1000, TimestampType.CREATE_TIME, key, value, headers, 3)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%k %v\n", b"k v\n"),
        (r"%t/%p@%o %T %s", b"t/1@7 1000 v"),
        (r"%K,%S,%h", b"1,1,h=1,n=NULL"),
        (r"100%% \x2c\t\\", b"100% ,\t\\"),
        ("%R%v", b"\0\0\0\1v"),
    ],
)
def test_a_format_is_text_with_letters(text: str, printed: bytes) -> None:
    assert format_of(text)(record(b"k", b"v")) == printed


def test_what_is_not_there_is_named_as_asked_and_has_no_size() -> None:
    assert format_of("%k:%K:%v:%S", b"nil")(record(None, None)) == b"nil:-1:nil:-1"


@pytest.mark.parametrize("text", ["%x", "%", "a%"])
def test_a_letter_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageFault, match="is not known; there are %v"):
        format_of(text)


def test_escapes_are_those_of_c() -> None:
    assert unescaped(r"a\n\x00ä") == b"a\n\0" + "ä".encode()
    with pytest.raises(UsageFault, match="in the middle of an escape"):
        unescaped("a\\")


def test_a_short_flag_may_stand_against_its_value() -> None:
    assert separated(["-c5", "-o-3", "-t", "x", "-e"], cat.TOOL) == [
        *("-c", "5", "-o", "-3", "-t", "x", "-e")
    ]
    assert separated(["-K:", "--key=k"], put.TOOL) == ["-K", ":", "--key=k"]


def test_a_header_may_be_without_a_value() -> None:
    assert [header_of("a=b=c"), header_of("a="), header_of("a")] == [
        *(("a", b"b=c"), ("a", b""), ("a", None))
    ]
