from __future__ import annotations

import pytest

from moldau.config.config_updates import KeyChange, Operation, changed_overrides
from moldau.config.topic_config import TopicConfig
from moldau.model.errors import ApiError, Error


def changed(*changes: KeyChange, present: dict[str, str] | None = None) -> dict[str, str | None]:
    return changed_overrides(TopicConfig, changes, present or {}, lambda row: row.default)


def refusal(*changes: KeyChange) -> ApiError:
    with pytest.raises(ApiError) as caught:
        changed(*changes)
    return caught.value


def test_a_value_is_set_and_deleted() -> None:
    assert changed(
        KeyChange("retention.ms", Operation.SET, "5"),
        KeyChange("segment.bytes", Operation.DELETE, None),
    ) == {"retention.ms": "5", "segment.bytes": None}


@pytest.mark.parametrize(
    "operation, items, present, result",
    [
        (Operation.APPEND, "compact", None, "delete,compact"),
        (Operation.APPEND, "compact", "compact", "compact"),
        (Operation.APPEND, "compact, delete", "delete", "delete,compact"),
        (Operation.SUBTRACT, "delete", "delete,compact", "compact"),
        (Operation.SUBTRACT, "compact", "compact", ""),
        (Operation.SUBTRACT, "delete", None, ""),
    ],
)
def test_items_are_added_to_and_taken_from_a_list(
    operation: Operation, items: str, present: str | None, result: str
) -> None:
    before = {} if present is None else {"cleanup.policy": present}
    change = KeyChange("cleanup.policy", operation, items)
    assert changed(change, present=before) == {"cleanup.policy": result}


def test_an_old_name_changes_the_right_key() -> None:
    change = KeyChange("max.message.size", Operation.SET, "5")
    assert changed(change) == {"max.message.bytes": "5"}


@pytest.mark.parametrize(
    "change, error",
    [
        (KeyChange("segment.bytes", Operation.APPEND, "1"), Error.INVALID_CONFIG),
        (KeyChange("unknown", Operation.SUBTRACT, "1"), Error.INVALID_CONFIG),
        (KeyChange("segment.bytes", Operation.SET, None), Error.INVALID_REQUEST),
        (KeyChange("segment.bytes", 9, "1"), Error.INVALID_REQUEST),
    ],
)
def test_an_impossible_change_is_refused_with_kafka_s_code(change: KeyChange, error: Error) -> None:
    assert refusal(change).error is error


def test_a_key_may_be_named_once() -> None:
    twice = KeyChange("segment.bytes", Operation.SET, "1")
    assert refusal(twice, twice).error is Error.INVALID_REQUEST
