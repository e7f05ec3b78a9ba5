"""Patterns match as `re` does, and in time that does not explode."""

from __future__ import annotations

import re
import time

import pytest

from moldau.model.linear_regex import Pattern, PatternError
from tests.support import seeds

PATTERNS = [
    "",
    "abc",
    "a.c",
    "a*",
    "(ab)*",
    "(a|b)+c?",
    "a|bc|",
    "[a-c]+",
    "[^a-c]+",
    "[]a]+",
    "[a-]+",
    r"[\d\-_]*",
    r"\w+\.\w+",
    r"a\+b",
    "a{3}",
    "a{2,}",
    "(ab){1,3}",
    "a{0}b",
    "^ab$",
    "a^b",
    "x*?y+?",
    "(?:ab|a)(?P<rest>c|bc)",
    "(a*)*b",
    "(|a)+b",
    r"my-app-\d+",
    r"\Aab\Z",
    "^$",
]
TEXTS = [
    "", "a", "b", "ab", "abc", "abab", "aab", "aaaa", "acbd", "a.c", "a+b", "xyz", "xxyy", "bc",
    "my-app-12", "my-app-", "a-", "]a", "b.c", "_-9", "abbc", "ac", "A", "é", "aé", "a\nc", "ab\n",
]  # fmt: skip


@pytest.mark.parametrize("text", PATTERNS)
def test_a_pattern_means_what_re_means_by_it(text: str) -> None:
    ours, theirs = Pattern(text), re.compile(text, re.ASCII)
    for each in TEXTS:
        assert ours.matches(each) == bool(theirs.fullmatch(each)), each


def test_random_patterns_mean_what_re_means_by_them() -> None:
    rng = seeds.chance(4)

    def pattern(depth: int) -> str:
        match rng.randrange(6 if depth else 2):
            case 0:
                return rng.choice("ab.")
            case 1:
                return rng.choice(["[ab]", "[^a]", r"\w", "a"])
            case 2:
                return pattern(depth - 1) + pattern(depth - 1)
            case 3:
                return f"({pattern(depth - 1)}|{pattern(depth - 1)})"
            case 4:
                return f"({pattern(depth - 1)}){rng.choice(['*', '+', '?', '{2}', '{1,2}'])}"
            case _:
                return rng.choice(["^", "$", ""]) + pattern(depth - 1)

    for _ in range(seeds.times(300)):
        text = pattern(3)
        ours, theirs = Pattern(text), re.compile(text, re.ASCII)
        for _ in range(20):
            each = "".join(rng.choice("abc") for _ in range(rng.randrange(6)))
            assert ours.matches(each) == bool(theirs.fullmatch(each)), (text, each)


@pytest.mark.parametrize(
    "text",
    ["(", ")", "a)", "(a", "[", "[a", "*", "a**b*", "+a", "a{", "a{x}", "a{3,1}", "a{1001}", "\\",
     r"\q", r"(a)\1", "(?=a)", "(?<!a)", "(?i)a", "[b-a]", "(?P<1>a)", "((a{100}){100}){100}",
     "a" * 1001, "(" * 500 + ")" * 499],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        Pattern(text)


@pytest.mark.parametrize(
    "text", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)b", "(a?){500}"]
)
def test_no_pattern_takes_for_ever(text: str) -> None:
    began = time.perf_counter()
    assert not Pattern(text).matches("a" * 5_000 + "c")
    assert time.perf_counter() - began < 5
