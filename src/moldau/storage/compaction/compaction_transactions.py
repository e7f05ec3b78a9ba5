"""Which batches belong to aborted transactions, and when a transaction's marker may go.

Compaction tells this of every batch in the order of the log. Data of an aborted transaction goes at
once. A marker must outlive its data: while any batch of the transaction was seen the marker stays
(and an abort stays in the new segment's index, for readers); only a marker without data may go.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.records.batch import BatchHeader
from moldau.records.batch_codec import ControlType
from moldau.storage.log.transaction_index import AbortedTransaction


class SeenTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` are all those that touch the offsets to be read."""
        self._ahead = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        """Producer id to its aborted transaction, and whether any of its batches was seen."""
        self._committed: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """For a transactional batch of data, whether its transaction came to nothing."""
        self._enter(header.last_offset)
        found = self._aborted.get(header.producer_id)
        if found is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = (found[0], True)
        return True

    def end(
        self, header: BatchHeader, kind: ControlType | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """For a control batch: whether nothing is left that needs it, and what the index must say.
        `kind` is None for a control record that ends no transaction: it stays."""
        self._enter(header.last_offset)
        if header.record_count == 0:
            return True, None
        if kind is ControlType.ABORT:
            aborted, has_data = self._aborted.pop(header.producer_id, (None, False))
            return (False, aborted) if has_data else (True, None)
        if kind is ControlType.COMMIT:
            has_data = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not has_data, None
        return False, None

    def _enter(self, offset_last: int) -> None:
        """Transactions that start up to here are now under way."""
        while self._ahead and self._ahead[-1].first_offset <= offset_last:
            aborted = self._ahead.pop()
            self._aborted.setdefault(aborted.producer_id, (aborted, False))
