from __future__ import annotations

from moldau.model.errors import RETRIABLE, ApiError, Error


def test_codes_run_without_a_gap_from_minus_one() -> None:
    assert [int(error) for error in Error] == list(range(-1, 134))


def test_every_code_has_a_sentence_of_its_own() -> None:
    sentences = [error.sentence for error in Error]
    assert [text for text in sentences if not text.endswith(".") or len(text) < 8] == []
    assert len(set(sentences)) == len(sentences)


def test_a_code_is_found_by_its_number() -> None:
    assert Error(3) is Error.UNKNOWN_TOPIC_OR_PARTITION
    assert int(Error.UNKNOWN_TOPIC_OR_PARTITION) == 3


def test_what_passes_by_itself_is_retriable_and_what_does_not_is_not() -> None:
    assert Error.NOT_LEADER_OR_FOLLOWER.is_retriable
    assert not Error.MESSAGE_TOO_LARGE.is_retriable
    assert not Error.NONE.is_retriable
    assert len(RETRIABLE) == 32


def test_a_refusal_without_words_speaks_with_the_code_s_sentence() -> None:
    assert str(ApiError(Error.NOT_COORDINATOR)) == "This is not the correct coordinator."
    assert ApiError(Error.NOT_COORDINATOR).message == ""
    assert str(ApiError(Error.NOT_COORDINATOR, "ask broker 2")) == "ask broker 2"
