"""What follows from a list of batches: epochs, sequences, open and aborted transactions.

The models of a log compare it with this, worked out from the first batch on each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from moldau.records.batch import BatchHeader

SEQUENCE_MASK = 2**31 - 1


@dataclass
class Truth:
    epochs: list[tuple[int, int]] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    """Producer id to the sequence that is due."""
    written: dict[int, int] = field(default_factory=dict)
    """Producer id to the offset of its last batch."""
    open: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, batches: list[BatchHeader], aborts: set[int]) -> Truth:
        truth = cls()
        for each in batches:
            if not truth.epochs or each.leader_epoch > truth.epochs[-1][0]:
                truth.epochs.append((each.leader_epoch, each.base_offset))
            if each.is_control:
                first = truth.open.pop(each.producer_id, None)
                if first is not None and each.base_offset in aborts:
                    truth.aborted.append((each.producer_id, first, each.base_offset))
            elif each.has_producer:
                truth.sequences[each.producer_id] = (each.last_sequence + 1) & SEQUENCE_MASK
                truth.written[each.producer_id] = each.base_offset
                if each.is_transactional:
                    truth.open.setdefault(each.producer_id, each.base_offset)
        return truth
