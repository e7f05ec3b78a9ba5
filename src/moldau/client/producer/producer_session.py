"""A producer's identity as a value, to be given to other processes.

Several processes can write in one transaction: one begins it, hands `session()` to the others, who
`attach`, send, flush and hand their own session back, which the first one `adopt`s before it
commits. Each partition must have one writer at a time, or sequences would collide.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.model.names import TopicPartition


class ProducerSession(NamedTuple):
    """Plain data: can be pickled or written as JSON."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    sequences: dict[TopicPartition, int]
    """The next sequence of every partition that was written to in this epoch."""
    partitions: tuple[TopicPartition, ...] = ()
    """What the transaction's coordinator knows to be in the transaction."""
    is_v2: bool = False
