"""The filter of a search: what it says, what matches, and which batches may be left unopened."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.consumer_records import ConsumerRecord, TimestampType
from moldau.console.records.byte_search import ByteSearch
from moldau.console.records.filter_grammar import (
    And,
    Anywhere,
    Comparison,
    Field,
    FilterError,
    Node,
    Not,
    Operator,
    Or,
    parse,
)
from moldau.console.records.filter_matching import matcher_of
from moldau.records.batch_kernel import write_records

LETTERS = st.text(alphabet='ab"\\/ä\nuω😀', max_size=4)


def record(
    value: bytes | None = None,
    key: bytes | None = None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    **more: Any,
) -> ConsumerRecord:
    made = ConsumerRecord("t", 3, 42, 1_700_000_000_000, TimestampType(0), key, value, headers)
    return made._replace(**more)


def holds(text: str, one: ConsumerRecord) -> bool:
    return matcher_of(parse(text)).matches(one)


def test_and_binds_closer_than_or_and_not_closest() -> None:
    a, b, c = (Comparison(Field("offset"), Operator.EQUAL, n) for n in (1, 2, 3))
    assert parse("offset = 1 or offset = 2 and not offset = 3") == Or((a, And((b, Not(c)))))
    assert parse("(offset=1 OR offset=2) AND offset != 3") == And((Or((a, b)), Not(c)))
    assert parse("'it\\'s'") == Anywhere("it's")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("value =", "its end stands where a text"),
        ("value ~ 3", "character 7"),
        ('value = "open', "a text that does not end"),
        ("valu = 3", "'valu' stands where a field"),
        ("header = 'x'", "the name of one header"),
        ("offset.x = 1", "nothing inside"),
        ("offset = 'x'", "cannot be compared"),
        ("timestamp > 'soon'", "not a time"),
        ("value > true", "compares numbers or texts"),
        ("value.a[b] = 1", "an index or a name"),
        ("(offset = 1", "a closing parenthesis"),
        ("offset = 1 offset = 2", "and, or, or the end"),
        ("not " * 100 + "offset = 1", "levels deep"),
        ("'" + "x" * 5000 + "'", "at most 4000"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, words: str) -> None:
    with pytest.raises(FilterError, match=words.replace("(", "\\(").replace("'", ".")):
        parse(text)


@given(st.text(max_size=40))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        matcher_of(parse(text)).matches(record(b"{}", b"k"))
    except FilterError as fault:
        assert str(fault)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value.a = 1", True),
        ("value.a = 1.0", True),
        ("value.a = '1'", False),
        ("value.a = true", False),
        ("value.t = true", True),
        ("value.n = null", True),
        ("value.missing = null", False),
        ("value.missing != 5", True),
        ("value.list[1] = 'y'", True),
        ("value.list[9] exists", False),
        ("value.list contains 'x'", True),
        ("value['a.b'].c > 4", True),
        ("value.s starts with 'he' and value.s contains 'll'", True),
        ("value.s < 'i' and value.s >= 'hello'", True),
        ("value.a > 'text'", False),
        ("value = null", False),
        ("value exists", True),
        ("key = 'k-1'", True),
        ("key starts with 'k'", True),
        ("key.a exists", False),
        ("header.trace = 'abc' and header.trace starts with 'a'", True),
        ("header['x-y'] exists", True),
        ("header.other exists", False),
        ("partition = 3 and offset >= 42", True),
        ("timestamp > '2023-11-14' and timestamp < '2023-11-15T00:00+00:00'", True),
        ("'abc'", True),
        ("'trace'", True),
        ("'nowhere'", False),
    ],
)
def test_filters_compare_like_with_like(text: str, expected: bool) -> None:
    value = {"a": 1, "t": True, "n": None, "list": ["x", "y"], "a.b": {"c": 5}, "s": "hello"}
    one = record(json.dumps(value).encode(), b"k-1", (("trace", b"abc"), ("x-y", None)))
    assert holds(text, one) is expected
    assert holds(f"not ({text})", one) is not expected


def test_nulls_numbers_and_bytes_that_are_no_text_do_no_harm() -> None:
    assert holds("value = null and key = null", record())
    assert holds("value = 42 and key > 41", record(b"42", b"41.5"))
    for bad in (b"\xff\xfe", b"[" * 100_000, b"{", b"", b"NaN"):
        assert not holds("value.a = 1", record(bad))
        assert not holds("value > 1", record(bad))


names = st.sampled_from(["a", "bé", 'q"', "b\\s"])
documents = st.recursive(
    LETTERS | st.integers(-5, 5) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
fields = st.one_of(
    st.builds(
        lambda place, path: Field(place, tuple(path)),
        st.sampled_from(["key", "value"]),
        st.lists(names | st.integers(0, 2), max_size=2),
    ),
    st.builds(lambda name: Field("header", (name,)), names),
)
literals = LETTERS | st.integers(-5, 5) | st.none()
comparisons = st.builds(
    Comparison,
    fields,
    st.sampled_from([Operator.EQUAL, Operator.CONTAINS, Operator.EXISTS]),
    literals,
)
nodes: st.SearchStrategy[Node] = st.recursive(
    comparisons | st.builds(Anywhere, LETTERS),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda parts: And(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: Or(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=5,
)


@given(nodes, documents, documents, names, LETTERS, st.booleans())
def test_a_batch_that_is_left_unopened_holds_no_match(
    node: Node, value: Any, key: Any, header: str, text: str, is_ascii: bool
) -> None:
    one = record(
        json.dumps(value, ensure_ascii=is_ascii).encode(errors="surrogatepass"),
        json.dumps(key, ensure_ascii=is_ascii).encode(errors="surrogatepass"),
        ((header, text.encode()),),
    )
    matcher = matcher_of(node)
    stored = bytes(write_records([(0, 0, one.key, one.value, one.headers)], 0, [0]))
    may_match = all(any(each in stored for each in clause) for clause in matcher.clauses)
    assert may_match or not matcher.matches(one)


@given(st.binary(max_size=400), st.binary(min_size=1, max_size=4), st.integers(0, 50))
def test_texts_are_found_where_they_are(content: bytes, needle: bytes, start: int) -> None:
    content += needle * (start % 3) + content
    received = bytearray(needle + content + needle)
    within = memoryview(received)[len(needle) : len(needle) + len(content)]
    for view in (memoryview(content), within, within.toreadonly()):
        search = ByteSearch(view)
        for at in (start, start + 7):
            expected = content.find(needle, at)
            assert search.find(needle, at) == (expected if expected >= 0 else len(content))


def test_what_was_received_is_not_held_once_it_was_searched() -> None:
    """The buffer can be used again: nobody has a view of it left."""
    received = bytearray(b"lorem ipsum")
    with memoryview(received)[3:] as view:
        assert ByteSearch(view).find(b"ipsum", 0) == 3
    received.append(0)


def test_a_wrong_guess_of_a_rare_byte_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.console.records.byte_search.FALSE_HITS_MAX", 10)
    content = b"." * 7_000 + b"x." * 50 + b"xy" + b"." * 10
    search = ByteSearch(memoryview(content))
    assert search.find(b"xy", 0) == content.find(b"xy")
    assert search.find(b"xz", 0) == len(content)
