"""The filter of a search: a small language without functions, loops or patterns.

    value.status = "failed" and (value.amount > 100 or header.source contains "web")
    not key starts with "test-" and timestamp >= "2026-01-31T12:00"

A field is key, value, a path into one that is JSON, header.NAME, partition, offset or timestamp.
A text alone means: anywhere in key, value or headers. `parse` gives a tree of the classes below.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

FILTER_CHARACTERS_MAX = 4_000
NESTING_MAX = 40

Path = tuple[str | int, ...]
Literal = str | int | float | bool | None


class FilterError(ValueError):
    """The filter cannot be read; the sentence says where and why."""


class Operator(StrEnum):
    EQUAL = "="
    CONTAINS = "contains"
    STARTS_WITH = "starts with"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    EXISTS = "exists"


class Field(NamedTuple):
    place: str
    """One of PLACES."""
    path: Path = ()
    """Of a header its name; else names and indexes inside of JSON."""


class Anywhere(NamedTuple):
    text: str


class Comparison(NamedTuple):
    field: Field
    operator: Operator
    literal: Literal


class Not(NamedTuple):
    part: Node


class And(NamedTuple):
    parts: tuple[Node, ...]


class Or(NamedTuple):
    parts: tuple[Node, ...]


Node = Anywhere | Comparison | Not | And | Or

PLACES = ("key", "value", "header", "partition", "offset", "timestamp")
NUMBERS = ("partition", "offset", "timestamp")
_WORDS = {"and", "or", "not", "contains", "starts", "with", "exists", "true", "false", "null"}
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
    |(?P<word>[^\W\d][\w-]*)
    |(?P<sign><=|>=|!=|==|[=<>()\[\].])
    )""",
    re.VERBOSE | re.DOTALL,
)
_SIGNS = {
    "=": Operator.EQUAL,
    "==": Operator.EQUAL,
    "!=": Operator.EQUAL,
    "<": Operator.LESS,
    "<=": Operator.AT_MOST,
    ">": Operator.GREATER,
    ">=": Operator.AT_LEAST,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse(text: str) -> Node:
    """FilterError if it is no filter."""
    if len(text) > FILTER_CHARACTERS_MAX:
        raise FilterError(
            f"The filter has {len(text)} characters, and at most {FILTER_CHARACTERS_MAX} are read"
        )
    return _Parser(_tokens(text)).whole()


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            rest = text[position:].lstrip()
            place = len(text) - len(rest) + 1
            hint = "a text that does not end" if rest[0] in "\"'" else f"{rest[0]!r}"
            raise FilterError(f"The filter cannot be read at character {place}: {hint}")
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind], match.start(kind) + 1))
        position = match.end()
    return [*found, _Token("end", "", len(text) + 1)]


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._nesting = 0

    def whole(self) -> Node:
        if self._next.kind == "end":
            raise FilterError("The filter is empty")
        found = self._or()
        if self._next.kind != "end":
            raise self._wrong("and, or, or the end")
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _wrong(self, expected: str) -> FilterError:
        token = self._next
        what = repr(token.text) if token.text else "its end"
        return FilterError(
            f"The filter cannot be read at character {token.position}: {what} stands where"
            f" {expected} should"
        )

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _takes(self, *texts: str) -> bool:
        token = self._next
        is_there = token.kind in ("word", "sign") and token.text.lower() in texts
        self._at += is_there
        return is_there

    def _or(self) -> Node:
        parts = [self._and()]
        while self._takes("or"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _and(self) -> Node:
        parts = [self._not()]
        while self._takes("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _not(self) -> Node:
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise FilterError(f"The filter is nested more than {NESTING_MAX} levels deep")
        try:
            if self._takes("not"):
                return Not(self._not())
            if self._takes("("):
                found = self._or()
                if not self._takes(")"):
                    raise self._wrong("a closing parenthesis")
                return found
            if self._next.kind == "text":
                return Anywhere(_text_of(self._take()))
            return self._comparison()
        finally:
            self._nesting -= 1

    def _comparison(self) -> Node:
        field = self._field()
        if self._takes("exists"):
            return Comparison(field, Operator.EXISTS, None)
        if self._takes("contains"):
            return self._checked(field, Operator.CONTAINS, self._literal())
        if self._takes("starts"):
            if not self._takes("with"):
                raise self._wrong("with")
            return self._checked(field, Operator.STARTS_WITH, self._literal())
        sign = self._next.text
        if not self._takes(*_SIGNS):
            raise self._wrong("=, !=, <, <=, >, >=, contains, starts with, or exists")
        found = self._checked(field, _SIGNS[sign], self._literal())
        return Not(found) if sign == "!=" else found

    def _field(self) -> Field:
        token = self._next
        place = token.text.lower()
        if token.kind != "word" or place not in PLACES:
            raise self._wrong("a field (key, value, header.NAME, partition, offset or timestamp)")
        self._at += 1
        path: list[str | int] = []
        while self._next.text in (".", "["):
            path.append(self._step())
        if place == "header" and (len(path) != 1 or not isinstance(path[0], str)):
            raise self._wrong('the name of one header, as header.source or header["trace.id"],')
        if place in NUMBERS and path:
            raise FilterError(f"{place} is a number, and has nothing inside of it")
        return Field(place, tuple(path))

    def _step(self) -> str | int:
        if self._takes("."):
            if self._next.kind not in ("word", "text"):
                raise self._wrong("a name")
            token = self._take()
            return _text_of(token) if token.kind == "text" else token.text
        self._take()
        token = self._take()
        if token.kind == "text":
            step: str | int = _text_of(token)
        elif token.kind == "number" and token.text.isdigit():
            step = int(token.text)
        else:
            self._at -= 1
            raise self._wrong("an index or a name in quotes")
        if not self._takes("]"):
            raise self._wrong("]")
        return step

    def _literal(self) -> Literal:
        token = self._next
        if token.kind == "text":
            return _text_of(self._take())
        if token.kind == "number":
            self._at += 1
            return float(token.text) if set(token.text) & set(".eE") else int(token.text)
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self._takes(word):
                return value
        raise self._wrong("a text in quotes, a number, true, false or null")

    def _checked(self, field: Field, operator: Operator, literal: Literal) -> Comparison:
        is_number = isinstance(literal, int | float) and not isinstance(literal, bool)
        if field.place == "timestamp" and isinstance(literal, str):
            return Comparison(field, operator, moment_ms(literal))
        if field.place in NUMBERS and not is_number:
            raise FilterError(f"{field.place} is a number, and cannot be compared with {literal!r}")
        if field.place in NUMBERS and operator in (Operator.CONTAINS, Operator.STARTS_WITH):
            raise FilterError(f"{field.place} is a number: use =, !=, <, <=, > or >=")
        if operator is Operator.STARTS_WITH and not isinstance(literal, str):
            raise FilterError("After starts with stands a text in quotes")
        is_order = operator not in (Operator.EQUAL, Operator.CONTAINS)
        if is_order and (literal is None or isinstance(literal, bool)):
            raise FilterError(f"{operator} compares numbers or texts, not {literal!r}")
        return Comparison(field, operator, literal)


def _text_of(token: _Token) -> str:
    inside = token.text[1:-1]
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), inside, flags=re.DOTALL)


def moment_ms(text: str) -> int:
    """Milliseconds since 1970 of a time as 2026-01-31T12:00; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise FilterError(f"{text!r} is not a time like 2026-01-31T12:30 or 2026-01-31") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
