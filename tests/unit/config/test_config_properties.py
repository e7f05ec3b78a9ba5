from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.config.properties import (
    PropertiesError,
    format_properties,
    parse_properties,
    properties_from_environment,
)


@pytest.mark.parametrize(
    "text, properties",
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t=\t1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("a==1", {"a": "=1"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=1 ", {"a": "1 "}),
        ("  a=1", {"a": "1"}),
        ("# a=1\n! b=2\n  # c=3\nd=4", {"d": "4"}),
        ("a=1 # not a comment", {"a": "1 # not a comment"}),
        ("a=1\n\n\nb=2\n", {"a": "1", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=x\\\n# y", {"a": "x# y"}),
        ("a\\=b=1", {"a=b": "1"}),
        ("a\\ b=1", {"a b": "1"}),
        ("a\\:b:1", {"a:b": "1"}),
        ("a=\\t\\n\\r\\f", {"a": "\t\n\r\f"}),
        ('a=\\q\\"', {"a": 'q"'}),
        ("a=C:\\\\logs", {"a": "C:\\logs"}),
        ("a=\\u00e9\\u0041", {"a": "éA"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("名前=値", {"名前": "値"}),
        ("log.segment,bytes=1", {"log.segment,bytes": "1"}),
    ],
)
def test_the_syntax_is_java_s(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12g4", "a=\\u"])
def test_a_broken_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(PropertiesError, match="four hexadecimal digits"):
        parse_properties(text)


TEXT = st.text(st.characters(codec="utf-8"))


@given(st.dictionaries(TEXT, TEXT))
def test_what_is_written_reads_back_as_it_was(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties, comment="a comment")) == properties


def test_the_environment_of_a_container_gives_known_keys_only() -> None:
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:9092",
        "KAFKA_LISTENER_NAME_OUTSIDE_MAX_CONNECTIONS": "5",
        "KAFKA_HOME": "/opt/kafka",
        "PATH": "/bin",
    }
    assert properties_from_environment(environment, {"advertised.listeners": 0}) == {
        "advertised.listeners": "PLAINTEXT://broker:9092",
        "listener.name.outside.max.connections": "5",
    }
