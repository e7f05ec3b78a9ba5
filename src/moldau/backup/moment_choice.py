"""The moment: an end for every partition such that each transaction is before it, or behind it.

End offsets are asked for one after the other, so they are of a short while and not of one instant.
They are of one moment all the same if no transaction was decided in that while: what was decided
before has all its records below the ends, what is open counts as aborted. The log of the
transaction coordinators tells: its ends are asked for first and last, and what lies between is
read. If something was decided there, the ends are asked for again.

Within that while the offsets of groups come before the records: so no group is ahead of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.backup.batch_scan import whole_batches
from moldau.backup.cluster_source import ClusterSource
from moldau.backup.coordinator_folds import TransactionFold, batches_in
from moldau.model.names import TopicPartition

TRIES = 300
PAUSE_S_MAX = 0.05
Ends = Mapping[TopicPartition, int]


class Cut(NamedTuple):
    ends: dict[TopicPartition, int]
    is_exact: bool
    tries: int


async def choose(
    source: ClusterSource,
    transactions: Sequence[TopicPartition],
    groups: Sequence[TopicPartition],
    records: Sequence[TopicPartition],
) -> Cut:
    """The partitions of the transaction log, of the groups' offsets, and the others."""
    tries = 0
    while True:
        tries += 1
        before = await source.ends(transactions)
        ends = {**before, **await source.ends(groups), **await source.ends(records)}
        after = await source.ends(transactions)
        is_exact = not await _has_decided(source, before, after)
        if is_exact or tries >= TRIES:
            return Cut(ends, is_exact, tries)
        # Another rhythm than that of whoever commits.
        await asyncio.sleep(PAUSE_S_MAX * (tries * 7 % 11) / 11)


async def _has_decided(source: ClusterSource, before: Ends, after: Ends) -> bool:
    has_decided = False
    for place, offset_end in after.items():
        fold, offset = TransactionFold(), before[place]
        while offset < offset_end and not has_decided:
            fetched = await source.fetch(place, offset, offset_end)
            batches, offset_next = whole_batches(fetched, offset, offset_end)
            for header, rows in batches_in(batches):
                has_decided |= fold.take(header, rows)
            if offset_next == offset:
                break
            offset = offset_next
    return has_decided
