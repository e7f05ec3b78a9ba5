"""Refusals of the transaction coordinator, told as clients know them."""

from __future__ import annotations

from typing import Final

from moldau.coordinators.coordinator_errors import told_to_client
from moldau.model.errors import ApiError, Error

FENCED_SINCE: Final = 2
"""The version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn from which clients know
PRODUCER_FENCED."""


def told(refusal: ApiError, version: int, fenced_since: int = FENCED_SINCE) -> Error:
    """As a client of this version of the request understands it."""
    error = told_to_client(refusal.error)
    if error is Error.PRODUCER_FENCED and version < fenced_since:
        return Error.INVALID_PRODUCER_EPOCH
    return error
