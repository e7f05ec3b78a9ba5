"""Which open transactions hang: what `transactions find-hanging` and the console share.

Pure. One hangs if a partition has it open for longer than any transaction may last, while no
coordinator has it open there: nobody will ever end it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.client.admin.group_admin_results import (
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from moldau.model.names import TopicPartition


class Suspect(NamedTuple):
    partition: TopicPartition
    producer: ProducerState


def suspects(
    described: Mapping[TopicPartition, list[ProducerState] | Exception],
    now_ms: int,
    longest_ms: int,
) -> list[Suspect]:
    """Open for too long, as far as the partitions know."""
    return [
        Suspect(partition, producer)
        for partition, found in described.items()
        if not isinstance(found, Exception)
        for producer in found
        if producer.transaction_start_offset >= 0 and now_ms - producer.last_timestamp > longest_ms
    ]


def names_of(listed: Mapping[int, Iterable[TransactionListing]]) -> dict[int, str]:
    """Transactional ids by producer id, of all coordinators."""
    return {row.producer_id: row.transactional_id for rows in listed.values() for row in rows}


def hanging(
    found: Iterable[Suspect],
    names: Mapping[int, str],
    states: Mapping[str, TransactionDescription | Exception],
) -> list[Suspect]:
    """Those that no coordinator knows to be open in the partition."""

    def is_known(suspect: Suspect) -> bool:
        state = states.get(names.get(suspect.producer.producer_id, ""))
        if state is None or isinstance(state, Exception):
            return False
        return suspect.partition in state.partitions

    return [suspect for suspect in found if not is_known(suspect)]
