"""Counts what groups have done, by the facts that were committed."""

from __future__ import annotations

from moldau.groups import group_facts
from moldau.metrics.group_cells import GroupCells


def count(fact: object, cells: GroupCells) -> None:
    match fact:
        case group_facts.OffsetsCommitted() | group_facts.TransactionalOffsetsCommitted():
            cells.committed += len(fact.offsets)
        case group_facts.OffsetsRemoved():
            cells.removed += len(fact.places)
        case group_facts.GroupStored() if fact.members:
            cells.completed += 1
