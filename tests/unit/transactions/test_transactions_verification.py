"""What a Produce has to ask first, and how refusals are told."""

from __future__ import annotations

import pytest

from moldau.model.errors import Error
from moldau.transactions.partition_verification import BeforeWrite, before_write, produce_refusal


@pytest.mark.parametrize(
    ("version", "is_ongoing", "is_enabled", "expected"),
    [
        (3, False, True, BeforeWrite.VERIFY),
        (11, False, True, BeforeWrite.VERIFY),
        (11, False, False, BeforeWrite.NOTHING),
        (12, False, True, BeforeWrite.REGISTER),
        # The switch is for older clients; newer ones would never register otherwise.
        (13, False, False, BeforeWrite.REGISTER),
        (11, True, True, BeforeWrite.NOTHING),
        (13, True, True, BeforeWrite.NOTHING),
    ],
)
def test_only_the_first_batch_of_a_transaction_asks(
    version: int, is_ongoing: bool, is_enabled: bool, expected: BeforeWrite
) -> None:
    step = before_write(version, is_ongoing=is_ongoing, is_verification_enabled=is_enabled)
    assert step is expected


@pytest.mark.parametrize(
    ("error", "version", "told"),
    [
        (Error.PRODUCER_FENCED, 13, Error.INVALID_PRODUCER_EPOCH),
        (Error.PRODUCER_FENCED, 9, Error.INVALID_PRODUCER_EPOCH),
        (Error.TRANSACTION_ABORTABLE, 11, Error.TRANSACTION_ABORTABLE),
        (Error.TRANSACTION_ABORTABLE, 10, Error.INVALID_TXN_STATE),
        (Error.CONCURRENT_TRANSACTIONS, 12, Error.CONCURRENT_TRANSACTIONS),
        (Error.CONCURRENT_TRANSACTIONS, 11, Error.NOT_ENOUGH_REPLICAS),
        (Error.NOT_COORDINATOR, 13, Error.NOT_ENOUGH_REPLICAS),
        (Error.COORDINATOR_LOAD_IN_PROGRESS, 13, Error.NOT_ENOUGH_REPLICAS),
        (Error.COORDINATOR_NOT_AVAILABLE, 3, Error.NOT_ENOUGH_REPLICAS),
        (Error.INVALID_PRODUCER_ID_MAPPING, 13, Error.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_refusals_are_told_as_producers_of_that_version_know_them(
    error: Error, version: int, told: Error
) -> None:
    refusal = produce_refusal(error, version)
    assert refusal.error == told
    assert refusal.message
