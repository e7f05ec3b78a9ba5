"""How command lines are read."""

from __future__ import annotations

import pytest

from moldau.cli.command_faults import UsageFault
from moldau.cli.flags import Flag, Given, check_required, integer, parse

FLAGS = (
    Flag("--topic", "The topic.", takes="NAME", required=True),
    Flag("--partitions", takes="N", kind=integer, default=1),
    Flag("--describe"),
    Flag("--delete"),
    Flag("--bootstrap-server --broker-list", takes="HOST:PORT"),
    Flag("--config", takes="K=V", repeats=True),
    Flag("--props", takes="K=V", many=True),
    Flag("--state", takes="STATES", bare=""),
    Flag("--shift-by", takes="N", kind=integer),
    Flag("--level", takes="LEVEL", one_of=("low", "high")),
)


def read(*words: str) -> Given:
    return parse(FLAGS, words)


def test_a_value_follows_its_flag_or_an_equals_sign() -> None:
    assert read("--topic", "a").text("topic") == "a"
    assert read("--topic=a=b").text("topic") == "a=b"


def test_one_dash_is_as_good_as_two() -> None:
    assert read("-describe").has("describe")


def test_an_unambiguous_beginning_is_enough() -> None:
    assert read("--boot", "h:1").text("bootstrap-server") == "h:1"
    with pytest.raises(UsageFault, match="--de is not a recognized option"):
        read("--de")


def test_an_old_name_gives_the_value_under_the_new_one() -> None:
    assert read("--broker-list", "h:1").text("bootstrap-server") == "h:1"


def test_a_default_is_a_value_but_was_not_given() -> None:
    given = read()
    assert given.number("partitions") == 1
    assert not given.has("partitions")


def test_repeated_flags_and_lists_of_words_are_gathered() -> None:
    assert read("--config", "a=1", "--config", "b=2").texts("config") == ["a=1", "b=2"]
    assert read("--props", "a=1", "b=2", "--describe").texts("props") == ["a=1", "b=2"]


def test_a_flag_with_an_optional_value_may_stand_alone() -> None:
    assert read("--state").text("state") == ""
    assert read("--state", "stable,empty").text("state") == "stable,empty"
    assert read("--state", "--describe").has("describe")


def test_negative_numbers_are_values() -> None:
    assert read("--shift-by", "-5").number("shift-by") == -5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--topc", "a"), "--topc is not a recognized option; did you mean --topic?"),
        (("--topic",), "Option --topic requires an argument"),
        (("--partitions", "abc"), "Cannot parse argument 'abc' of option --partitions"),
        (("--partitions", "99999999999"), "Cannot parse argument"),
        (("--describe=yes",), "--describe takes no value"),
        (("stray",), "'stray' is not a flag"),
        (("--level", "middle"), "--level must be one of low, high, not 'middle'"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageFault) as fault:
        read(*words)
    assert sentence in fault.value.sentence
    assert "\n" not in fault.value.sentence


def test_a_required_flag_is_missed_by_name() -> None:
    with pytest.raises(UsageFault, match=r'Missing required argument "\[topic\]"'):
        check_required(FLAGS, read())
