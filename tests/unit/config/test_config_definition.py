from __future__ import annotations

import pytest

from moldau.config.setting_definition import (
    ConfigError,
    Long,
    Names,
    Password,
    Settings,
    Short,
    setting,
    suggestion,
    value_text,
)


class Example(Settings):
    size: int = setting("size", 5, at_least=1, at_most=9, doc="A size.")
    level: int = setting("level", -1, at_least=1, at_most=9, or_value=-1, doc="A level.")
    age: Long = setting("age", 0, doc="An age.")
    small: Short = setting("small", 0, doc="A small number.")
    ratio: float = setting("ratio", 0.5, at_least=0, at_most=1, doc="A ratio.")
    flag: bool = setting("flag", True, doc="A flag.")
    names: Names = setting("names", (), one_of=("a", "b"), doc="Names.")
    mode: str = setting("mode", "slow", one_of=("slow", "fast"), ignore_case=True, doc="A mode.")
    secret: Password | None = setting("secret", doc="A secret.")
    idle: str = setting("idle", "", no_effect="nobody listens", doc="An idle key.")


def parsed(key: str, text: str) -> object:
    return Example.rows[key].parse(text)


@pytest.mark.parametrize(
    "key, text, value",
    [
        ("size", " 7 ", 7),
        ("size", "+7", 7),
        ("level", "-1", -1),
        ("age", "9223372036854775807", 2**63 - 1),
        ("small", "-32768", -32768),
        ("ratio", "1e-1", 0.1),
        ("ratio", ".5", 0.5),
        ("flag", "TRUE", True),
        ("flag", "false", False),
        ("names", "", ()),
        ("names", " a , b ", ("a", "b")),
        ("names", "a,a,b", ("a", "b")),
        ("mode", "FAST", "FAST"),
        ("secret", " kept as it is ", " kept as it is "),
    ],
)
def test_a_text_is_read_as_its_row_says(key: str, text: str, value: object) -> None:
    assert parsed(key, text) == value


@pytest.mark.parametrize(
    "key, text, limit",
    [
        ("size", "ten", "not a number of type INT"),
        ("size", "1_0", "not a number of type INT"),
        ("size", "٣", "not a number of type INT"),
        ("size", "", "not a number of type INT"),
        ("size", "2147483648", "not a number of type INT"),
        ("size", "10", "must be 1 to 9"),
        ("level", "0", "must be 1 to 9 or -1"),
        ("age", "9223372036854775808", "not a number of type LONG"),
        ("small", "32768", "not a number of type SHORT"),
        ("ratio", "nan", "not a number of type DOUBLE"),
        ("ratio", "1.5", "must be 0 to 1"),
        ("flag", "yes", "must be true or false"),
        ("names", "a,c", "must be one of a, b"),
        ("mode", "medium", "must be one of slow, fast"),
    ],
)
def test_a_bad_text_is_refused_in_one_sentence(key: str, text: str, limit: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parsed(key, text)
    assert str(refusal.value) == f"Invalid value {text} for configuration {key}: {limit}"
    assert (refusal.value.key, refusal.value.limit) == (key, limit)


def test_a_row_without_effect_says_so() -> None:
    assert Example.rows["idle"].sentence == "An idle key. Accepted without effect: nobody listens."


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(AttributeError, match="a change makes a new Example"):
        Example(Example.defaults).size = 6


def test_settings_with_equal_values_are_equal() -> None:
    assert Example(Example.defaults) == Example(Example.defaults)
    assert Example(Example.defaults) != Example({**Example.defaults, "size": 6})


@pytest.mark.parametrize(
    "value, text",
    [
        (None, None),
        (True, "true"),
        (False, "false"),
        (7, "7"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.0, "0.0"),
        (0.5, "0.5"),
        (0.001, "0.001"),
        (1e-5, "1.0E-5"),
        (0.00025, "2.5E-4"),
        (1234567.5, "1234567.5"),
        (1e7, "1.0E7"),
        (12345678.0, "1.2345678E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_values_are_written_as_java_writes_them(value: object, text: str | None) -> None:
    assert value_text(value) == text


def test_a_close_key_is_suggested_and_a_far_one_is_not() -> None:
    keys = {"log.segment.bytes": 1, "log.dirs": 2}
    assert suggestion("log.segmnt.bytes", keys) == "; did you mean log.segment.bytes?"
    assert suggestion("something.else", keys) == ""
