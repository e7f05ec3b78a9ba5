"""Producer ids are handed out once each."""

from __future__ import annotations

import pytest

from moldau.transactions.producer_id_blocks import ProducerIds


def test_nothing_is_handed_out_before_a_block_was_granted() -> None:
    assert ProducerIds().take() is None


def test_a_block_is_handed_out_in_order_and_then_the_next() -> None:
    ids = ProducerIds()
    ids.grant(range(1000, 1003))
    assert [ids.take() for _ in range(4)] == [1000, 1001, 1002, None]
    ids.grant(range(5000, 5001))
    assert ids.take() == 5000
    assert ids.take() is None


def test_one_block_may_be_granted_ahead() -> None:
    ids = ProducerIds()
    ids.grant(range(2))
    ids.grant(range(10, 12))
    assert ids.left == 4
    assert [ids.take() for _ in range(5)] == [0, 1, 10, 11, None]


def test_a_block_that_was_granted_before_is_a_bug() -> None:
    ids = ProducerIds()
    ids.grant(range(1000, 2000))
    with pytest.raises(AssertionError, match="given before"):
        ids.grant(range(500, 1500))
