from __future__ import annotations

import pytest

from moldau.model.names import (
    NO_TOPIC_ID,
    TopicPartition,
    topic_name_fault,
    uuid_from_text,
    uuid_text,
)


def test_a_partition_is_written_as_its_directory_is_called() -> None:
    assert str(TopicPartition("my-topic", 3)) == "my-topic-3"


@pytest.mark.parametrize("uuid", [NO_TOPIC_ID, bytes(range(16)), b"\xff" * 16])
def test_an_id_is_22_characters_that_read_back_as_the_id(uuid: bytes) -> None:
    assert len(uuid_text(uuid)) == 22
    assert uuid_from_text(uuid_text(uuid)) == uuid


def test_an_id_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="is 3 bytes long, must be 16"):
        uuid_from_text("abcd")


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_a_legal_topic_name_has_no_fault(name: str) -> None:
    assert topic_name_fault(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n"])
def test_an_illegal_topic_name_is_told_what_is_wrong(name: str) -> None:
    assert (topic_name_fault(name) or "").startswith("Topic name is invalid: ")
