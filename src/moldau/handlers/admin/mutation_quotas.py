"""Topics and partitions that are made or deleted only as fast as their client may (KIP-599)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from moldau.handlers.quota_keeping import NO_MUTATIONS, Mutations
from moldau.model.cluster import ClusterImage
from moldau.model.errors import ApiError

STRICT_CREATION_SINCE: Final = 6
STRICT_DELETION_SINCE: Final = 5
STRICT_PARTITIONS_SINCE: Final = 3
"""Clients of these versions know THROTTLING_QUOTA_EXCEEDED; for others it is done first, and then
they wait."""

A = TypeVar("A")
R = TypeVar("R")


async def within_quota(
    asked: Sequence[A],
    mutations: Mutations,
    *,
    check: Callable[[Sequence[A]], Awaitable[Sequence[R | ApiError]]],
    act: Callable[[Sequence[A]], Awaitable[Sequence[R | ApiError]]],
    partitions_of: Callable[[R], int],
) -> Sequence[R | ApiError]:
    """One row for each. What cannot be done anyway costs its client nothing."""
    if mutations is NO_MUTATIONS:
        return await act(asked)
    rows = list(await check(asked))
    for number, row in enumerate(rows):
        if not isinstance(row, ApiError):
            try:
                mutations.take(partitions_of(row))
            except ApiError as refusal:
                rows[number] = refusal.kept()
    good = [number for number, row in enumerate(rows) if not isinstance(row, ApiError)]
    for number, row in zip(good, await act([asked[number] for number in good]), strict=True):
        rows[number] = row
    return rows


def over_quota(
    names: Iterable[str], image: ClusterImage, mutations: Mutations
) -> dict[str, ApiError]:
    """Topics that may not be deleted yet."""
    refused = {}
    if mutations is not NO_MUTATIONS:
        for name in names:
            topic = image.topics.get(name)
            if topic is not None:
                try:
                    mutations.take(len(topic.partitions))
                except ApiError as refusal:
                    refused[name] = refusal.kept()
    return refused
