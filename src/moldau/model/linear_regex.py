"""Regular expressions that strangers may send: matched in time linear in the text.

Pure. The `re` module tries alternatives one after the other, and a short pattern can keep it busy
for hours. Kafka uses RE2 for this reason; here is the part of its syntax that people use for names:
literals, classes, groups, alternatives, repeats and anchors. No back-references, no look-around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

PATTERN_LENGTH_MAX = 1_000
PROGRAM_LENGTH_MAX = 2_000
REPEAT_MAX = 1_000
DEPTH_MAX = 100
CACHE_MAX = 10_000

Accepts = Callable[[str], bool]
Threads = frozenset[int]


class PatternError(ValueError):
    """Says what is wrong with the pattern."""


class Pattern:
    """`matches` says whether all of a text fits."""

    __slots__ = ("_cache", "_start", "_steps")

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_LENGTH_MAX:
            raise PatternError(f"it is longer than {PATTERN_LENGTH_MAX} characters")
        self._steps = _Compiler(text).program()
        self._cache: dict[tuple[Threads, str], Threads] = {}
        self._start = _closure(self._steps, [0], at_start=True, at_end=False)

    def matches(self, text: str) -> bool:
        threads = self._start
        for char in text:
            key = threads, char
            following = self._cache.get(key)
            if following is None:
                if len(self._cache) >= CACHE_MAX:
                    self._cache.clear()
                following = self._cache[key] = self._advance(threads, char)
            if not following:
                return False
            threads = following
        # What waits at an end anchor may go on now.
        last = _closure(self._steps, threads, at_start=not text, at_end=True)
        return any(isinstance(self._steps[place], _Match) for place in last)

    def _advance(self, threads: Threads, char: str) -> Threads:
        places = []
        for place in threads:
            step = self._steps[place]
            if isinstance(step, _One) and step.accepts(char):
                places.append(place + 1)
        return _closure(self._steps, places, at_start=False, at_end=False)


class _One(NamedTuple):
    """Takes one character."""

    accepts: Accepts


class _Jump(NamedTuple):
    """Goes on at each of these places, counted from here."""

    by: tuple[int, ...]


class _Anchor(NamedTuple):
    is_end: bool


class _Match(NamedTuple):
    pass


_Step = _One | _Jump | _Anchor | _Match


def _closure(
    steps: list[_Step], places: list[int] | Threads, *, at_start: bool, at_end: bool
) -> Threads:
    """Everywhere that can be reached without taking a character."""
    reached = set()
    left = list(places)
    while left:
        place = left.pop()
        if place in reached:
            continue
        reached.add(place)
        step = steps[place]
        if isinstance(step, _Jump):
            left += (place + each for each in step.by)
        elif isinstance(step, _Anchor) and (at_end if step.is_end else at_start):
            left.append(place + 1)
    return frozenset(reached)


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


_CLASSES: dict[str, Accepts] = {
    "d": lambda char: char.isascii() and char.isdigit(),
    "D": lambda char: not (char.isascii() and char.isdigit()),
    "w": _is_word,
    "W": lambda char: not _is_word(char),
    "s": lambda char: char in " \t\n\r\f",
    "S": lambda char: char not in " \t\n\r\f",
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class _Compiler:
    """Reads a pattern once, from left to right, and makes the steps of a machine of it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def program(self) -> list[_Step]:
        steps = self._alternatives()
        if self._position < len(self._text):
            raise PatternError("a ) has no (")
        return [*steps, _Match()]

    def _alternatives(self) -> list[_Step]:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        steps = branches.pop()
        while branches:
            branch = branches.pop()
            steps = [_Jump((1, len(branch) + 2)), *branch, _Jump((len(steps) + 1,)), *steps]
        return _checked(steps)

    def _sequence(self) -> list[_Step]:
        steps: list[_Step] = []
        while self._position < len(self._text) and self._text[self._position] not in "|)":
            steps += self._repeats(self._one())
            _checked(steps)
        return steps

    def _repeats(self, part: list[_Step]) -> list[_Step]:
        if self._take("*"):
            part = _any_number_of(part)
        elif self._take("+"):
            part = [*part, *_any_number_of(part)]
        elif self._take("?"):
            part = [_Jump((1, len(part) + 1)), *part]
        elif self._text.startswith("{", self._position):
            part = self._counted(part)
        else:
            return part
        # Lazy or not makes no difference to whether a text matches.
        self._take("?")
        return _checked(part)

    def _counted(self, part: list[_Step]) -> list[_Step]:
        end = self._text.find("}", self._position)
        least, comma, most = self._text[self._position + 1 : max(end, 0)].partition(",")
        if end < 0 or not least.isdecimal() or not (most.isdecimal() or not most):
            raise PatternError("a { does not begin a number of repeats")
        self._position = end + 1
        low = int(least)
        high = int(most) if most else low
        if high < low or high > REPEAT_MAX:
            raise PatternError(f"it wants {least}{comma}{most} repeats")
        if len(part) * high > PROGRAM_LENGTH_MAX:
            raise PatternError("it repeats too much")
        if comma and not most:
            return [*part * low, *_any_number_of(part)]
        return part * low + [_Jump((1, len(part) + 1)), *part] * (high - low)

    def _one(self) -> list[_Step]:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return [_One(self._set())]
        if char == ".":
            return [_One(lambda each: each != "\n")]
        if char in "^$":
            return [_Anchor(is_end=char == "$")]
        if char in "*+?":
            raise PatternError(f"a {char} repeats nothing")
        if char == "\\":
            return self._escape()
        return [_One(char.__eq__)]

    def _group(self) -> list[_Step]:
        if self._take("?"):
            self._take("P")
            if self._take("<"):
                end = self._text.find(">", self._position)
                if not self._text[self._position : max(end, 0)].isidentifier():
                    raise PatternError("a group has a bad name")
                self._position = end + 1
            elif not self._take(":"):
                raise PatternError("only (?: and named groups are supported")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise PatternError(f"its groups are nested more than {DEPTH_MAX} deep")
        steps = self._alternatives()
        if not self._take(")"):
            raise PatternError("a ( has no )")
        self._depth -= 1
        return steps

    def _escape(self) -> list[_Step]:
        char = self._next()
        if char in "AZz":
            return [_Anchor(is_end=char != "A")]
        accepts = _CLASSES.get(char)
        return [_One(self._literal(char).__eq__ if accepts is None else accepts)]

    def _literal(self, char: str) -> str:
        """What stands behind a backslash."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isalnum():
            raise PatternError(f"\\{char} is not supported")
        return char

    def _set(self) -> Accepts:
        is_negated = self._take("^")
        accepted: list[Accepts] = []
        while not accepted or not self._take("]"):
            first = self._member(accepted)
            if first is None:
                continue
            last = first
            if self._text.startswith("-", self._position) and not self._text.startswith(
                "-]", self._position
            ):
                self._position += 1
                end = self._member(accepted)
                if end is None or end < first:
                    raise PatternError("a range in [] has no order")
                last = end
            accepted.append(_between(first, last))
        return lambda char: any(accepts(char) for accepts in accepted) != is_negated

    def _member(self, accepted: list[Accepts]) -> str | None:
        """A character of a set; None if it was a whole class, which is accepted then."""
        char = self._next()
        if char != "\\":
            return char
        char = self._next()
        if char in _CLASSES:
            accepted.append(_CLASSES[char])
            return None
        return self._literal(char)

    def _next(self) -> str:
        if self._position >= len(self._text):
            raise PatternError("it ends too early")
        self._position += 1
        return self._text[self._position - 1]

    def _take(self, char: str) -> bool:
        if self._text.startswith(char, self._position):
            self._position += 1
            return True
        return False


def _any_number_of(part: list[_Step]) -> list[_Step]:
    return [_Jump((1, len(part) + 2)), *part, _Jump((-len(part) - 1,))]


def _between(first: str, last: str) -> Accepts:
    return lambda char: first <= char <= last


def _checked(steps: list[_Step]) -> list[_Step]:
    if len(steps) > PROGRAM_LENGTH_MAX:
        raise PatternError("it is too large")
    return steps
