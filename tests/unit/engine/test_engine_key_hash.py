"""The hash of keys is Java's, or coordinators would be looked for on the wrong broker."""

from __future__ import annotations

import pytest

from moldau.engine.key_hash import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("my-transactional-id", -959806496),
        ("polygenelubricants", -(2**31)),
        ("😀", 1772899),
        ("grüße", 98768023),
    ],
)
def test_a_string_hashes_as_in_java(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_negative_hashes_lose_their_sign() -> None:
    assert partition_for("my-transactional-id", 50) == 959806496 % 50


def test_the_smallest_hash_goes_to_the_first_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_every_key_has_a_partition() -> None:
    found = {partition_for(f"group-{number}", 7) for number in range(1000)}
    assert found == set(range(7))
