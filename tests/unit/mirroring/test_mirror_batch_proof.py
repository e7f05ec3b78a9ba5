"""Whether the last batch that two clusters hold is the same one."""

from __future__ import annotations

import pytest

from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.mirroring.batch_proof import batch_at, is_same
from moldau.model.errors import Error
from moldau.records.batch_codec import Record, encode_batch


def batch(values: str, *, base: int = 10, producer_id: int = 4) -> bytes:
    records = [
        Record(timestamp=1, value=value.encode(), offset=base + n) for n, value in enumerate(values)
    ]
    return encode_batch(
        records,
        base_offset=base,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        leader_epoch=1,
    )


def test_the_batch_that_holds_an_offset_is_found() -> None:
    first, second = batch("ab"), batch("cd", base=12)
    assert batch_at(first + second, 11) == first
    assert batch_at(first + second, 12) == second
    assert batch_at(first + second, 14) == b""


def test_other_records_are_others_and_what_is_gone_contradicts_nothing() -> None:
    assert is_same(batch("ab"), batch("ab"))
    assert not is_same(batch("ab"), batch("ax"))
    assert not is_same(batch("ab"), batch("abc"))
    assert is_same(batch("ab"), b"")
    with pytest.raises(KafkaError):
        is_same(error_for(Error.NOT_LEADER_OR_FOLLOWER), b"")
