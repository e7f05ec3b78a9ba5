"""Which producer ids a broker is given next: a block of a thousand, never one twice."""

from __future__ import annotations

from moldau.model.errors import ApiError, Error

PRODUCER_IDS_PER_BLOCK = 1000
PRODUCER_ID_LAST = 2**63 - 1


def next_block(first: int) -> range:
    """Raises the refusal when there is none left."""
    if first + PRODUCER_IDS_PER_BLOCK > PRODUCER_ID_LAST:
        raise ApiError(
            Error.UNKNOWN_SERVER_ERROR,
            f"Exhausted all producerIds as the next block's end producerId from block at "
            f"{first} exceeds the int64 type limit",
        )
    return range(first, first + PRODUCER_IDS_PER_BLOCK)
