"""Whether a record matches a filter, and which bytes a batch must hold for any of its records to.

The second is what makes searching fast: a batch without those bytes is not taken apart. It must
never leave out a batch that has a match, so where JSON may hide a text behind an escape, an
escape anywhere is enough to look closer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moldau.client.consumer.consumer_records import ConsumerRecord
from moldau.console.records.filter_grammar import (
    NUMBERS,
    And,
    Anywhere,
    Comparison,
    Field,
    Literal,
    Node,
    Not,
    Operator,
    Or,
    Path,
)

MISSING: Any = object()
ESCAPED = frozenset('"\\/')
CLAUSES_MAX = 3
"""How many clauses each byte is looked at for."""
Clause = frozenset[bytes]
"""Of these bytes at least one must occur."""
Opened = Callable[[ConsumerRecord, bool], Any]
"""What a decoder makes of the key (True) or value of a record; MISSING if it is plain bytes."""


class Matcher(NamedTuple):
    matches: Callable[[ConsumerRecord], bool]
    clauses: tuple[Clause, ...]
    """Bytes that a batch with a match holds, each clause at least one; none: any batch may."""

    @property
    def best_clauses(self) -> tuple[Clause, ...]:
        """Those that leave out most, as far as can be told: of few and long texts."""

        def weight(clause: Clause) -> tuple[int, int]:
            return len(clause), -max(map(len, clause))

        return tuple(sorted(self.clauses, key=weight)[:CLAUSES_MAX])


def matcher_of(node: Node, opened: Opened | None = None) -> Matcher:
    """`opened` is given where decoders show something else than the stored bytes."""
    clauses = () if opened is not None else tuple(_clauses(node))
    return Matcher(_Matching(opened).test_of(node), clauses)


class _Matching:
    def __init__(self, opened: Opened | None) -> None:
        self._opened = opened

    def test_of(self, node: Node) -> Callable[[ConsumerRecord], bool]:
        match node:
            case And(parts):
                tests = [self.test_of(part) for part in parts]
                return lambda record: all(test(record) for test in tests)
            case Or(parts):
                tests = [self.test_of(part) for part in parts]
                return lambda record: any(test(record) for test in tests)
            case Not(part):
                test = self.test_of(part)
                return lambda record: not test(record)
            case Anywhere(text):
                return self._anywhere(text)
            case Comparison(field, operator, literal):
                return self._comparison(field, operator, literal)

    def _anywhere(self, text: str) -> Callable[[ConsumerRecord], bool]:
        needle = text.encode(errors="surrogatepass")

        def test(record: ConsumerRecord) -> bool:
            return (
                self._holds(record, True, text, needle)
                or self._holds(record, False, text, needle)
                or any(
                    needle in name.encode(errors="surrogateescape") or needle in (value or b"")
                    for name, value in record.headers
                )
            )

        return test

    def _holds(self, record: ConsumerRecord, is_key: bool, text: str, needle: bytes) -> bool:
        content = record.key if is_key else record.value
        if content is None:
            return False
        if needle in content:
            return True
        shown = MISSING if self._opened is None else self._opened(record, is_key)
        return shown is not MISSING and text in text_of(shown)

    def _comparison(
        self, field: Field, operator: Operator, literal: Literal
    ) -> Callable[[ConsumerRecord], bool]:
        if field.place in NUMBERS:
            place = ConsumerRecord._fields.index(field.place)
            return lambda record: _compare(record[place], operator, literal)
        if field.place == "header":
            name = field.path[0]
            if operator is Operator.EXISTS:
                return lambda record: any(key == name for key, _ in record.headers)
            return lambda record: any(
                _compare_bytes(value, operator, literal) for key, value in record.headers
                if key == name
            )  # fmt: skip
        is_key = field.place == "key"
        return lambda record: self._compare_content(record, is_key, field.path, operator, literal)

    def _compare_content(
        self, record: ConsumerRecord, is_key: bool, path: Path, operator: Operator, literal: Literal
    ) -> bool:
        content = record.key if is_key else record.value
        shown = MISSING if self._opened is None else self._opened(record, is_key)
        if shown is not MISSING:
            found = at_path(shown, path)
            if not path and isinstance(literal, str) and not isinstance(found, str):
                found = text_of(found)
            return _compare(found, operator, literal)
        if path:
            return _compare(at_path(_json(content), path), operator, literal)
        return _compare_bytes(content, operator, literal)


def _compare_bytes(content: bytes | None, operator: Operator, literal: Literal) -> bool:
    """A content as a whole: a text by its bytes, anything else as what it is in JSON."""
    if operator is Operator.EXISTS:
        return content is not None
    if content is None:
        return operator is Operator.EQUAL and literal is None
    if not isinstance(literal, str):
        # A content that is there is no null, whatever it says.
        return literal is not None and _compare(_json(content), operator, literal)
    wanted = literal.encode(errors="surrogatepass")
    match operator:
        case Operator.CONTAINS:
            return wanted in content
        case Operator.STARTS_WITH:
            return content.startswith(wanted)
    return _compare(content, operator, wanted)


def _compare(found: Any, operator: Operator, literal: Any) -> bool:
    """Only like is compared with like; what is missing compares with nothing."""
    if found is MISSING:
        return False
    match operator:
        case Operator.EXISTS:
            return True
        case Operator.CONTAINS:
            if isinstance(found, list):
                return any(_compare(each, Operator.EQUAL, literal) for each in found)
            return isinstance(found, str) and isinstance(literal, str) and literal in found
        case Operator.STARTS_WITH:
            return isinstance(found, str) and found.startswith(literal)
    if _kind(found) is not _kind(literal):
        return False
    match operator:
        case Operator.EQUAL:
            return bool(found == literal)
        case Operator.LESS:
            return bool(found < literal)
        case Operator.AT_MOST:
            return bool(found <= literal)
        case Operator.GREATER:
            return bool(found > literal)
        case _:
            return bool(found >= literal)


def _kind(value: Any) -> type:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float if is_number else type(value)


def _json(content: bytes | None) -> Any:
    """MISSING if it is none."""
    if content is None:
        return MISSING
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError):
        return MISSING


def at_path(node: Any, path: Path) -> Any:
    """What stands at a path inside of JSON, or MISSING."""
    for step in path:
        is_there = (
            step in node
            if isinstance(node, dict)
            else isinstance(node, list) and isinstance(step, int) and step < len(node)
        )
        if not is_there:
            return MISSING
        node = node[step]
    return node


def text_of(shown: Any) -> str:
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def _clauses(node: Node) -> list[Clause]:
    match node:
        case And(parts):
            return [clause for part in parts for clause in _clauses(part)]
        case Or(parts):
            return _either([_clauses(part) for part in parts])
        case Anywhere(text):
            return _some(text.encode(errors="surrogatepass"))
        case Comparison(field, operator, literal) if field.place not in NUMBERS:
            return _comparison_clauses(field, operator, literal)
    return []


def _either(sides: Sequence[list[Clause]]) -> list[Clause]:
    """One of the clauses of each side, if every side has any."""
    if not all(sides):
        return []
    longest = [max(side, key=lambda clause: max(map(len, clause))) for side in sides]
    return [frozenset().union(*longest)]


def _some(*needles: bytes) -> list[Clause]:
    return [frozenset(needles)] if all(needles) else []


def _comparison_clauses(field: Field, operator: Operator, literal: Literal) -> list[Clause]:
    is_text = isinstance(literal, str) and operator in (
        Operator.EQUAL,
        Operator.CONTAINS,
        Operator.STARTS_WITH,
    )
    wanted = literal.encode(errors="surrogatepass") if isinstance(literal, str) else b""
    if field.place == "header":
        name = str(field.path[0]).encode(errors="surrogateescape")
        return _some(name) + (_some(wanted) if is_text else [])
    if not field.path:
        return _some(wanted) if is_text else []
    names = [step for step in field.path if isinstance(step, str)]
    clauses = _in_json(names[-1]) if names else []
    return clauses + (_in_json(str(literal)) if is_text else [])


def _in_json(text: str) -> list[Clause]:
    """JSON writes a text as it is, or hides a letter behind an escape: some letters in several
    ways, all others by their number only."""
    has_short_ones = any(letter in ESCAPED or letter < " " for letter in text)
    return _some(text.encode(errors="surrogatepass"), b"\\" if has_short_ones else b"\\u")
