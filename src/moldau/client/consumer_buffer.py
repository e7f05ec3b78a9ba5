"""Taking fetched records out: by the record, or as whole batches for columns.

May run on the user's own thread while the loop goes on fetching. Positions move only here and on
the loop while no one takes; a position is moved before its bytes leave the buffer.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any, NamedTuple

from moldau.client.deserialization import Fetched, RecordReader, body_of
from moldau.client.errors import KafkaError
from moldau.client.fetcher import Fetcher
from moldau.client.positions import PartitionState, Positions
from moldau.client.records import ConsumerRecord
from moldau.model.names import TopicPartition
from moldau.records.batch import BatchHeader

SLICE_BYTES_MAX = 512 * 1024 * 1024
"""Columns hold less than 2 GiB each, whatever a batch says of itself."""


class BatchSlice(NamedTuple):
    """A batch from an offset on."""

    tp: TopicPartition
    header: BatchHeader
    body: Any
    offset_first: int


class RecordBuffer:
    def __init__(self, fetcher: Fetcher, positions: Positions, reader: RecordReader) -> None:
        self._ready = fetcher.ready
        self._positions = positions
        self._reader = reader

    def has_records(self) -> bool:
        """Whether something is there for a partition that is not paused."""
        partitions = self._positions.partitions
        for fetched in list(self._ready):
            state = partitions.get(fetched.tp)
            if state is not None and state.round == fetched.round and not state.is_paused:
                return True
        return False

    def take(self, count: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """At most `count` records, in the order they came."""
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        with closing(self._current()) as each:
            for fetched, state in each:
                try:
                    records = self._reader.take(fetched, count)
                except KafkaError:
                    if taken:
                        break
                    raise
                state.position = fetched.position
                if records:
                    state.epoch = records[-1].leader_epoch
                    known = taken.setdefault(fetched.tp, records)
                    if known is not records:
                        known += records
                    count -= len(records)
                if count <= 0:
                    break
        return taken

    def take_slices(self, count: int) -> list[BatchSlice]:
        """Whole batches, until they hold `count` records or more."""
        slices: list[BatchSlice] = []
        size_bytes = 0
        with closing(self._current()) as each:
            for fetched, state in each:
                _unread(fetched)
                while fetched.batches and count > 0 and size_bytes < SLICE_BYTES_MAX:
                    row = fetched.batches[-1]
                    try:
                        header, body = body_of(
                            fetched.tp, fetched.view, row, self._reader.check_crcs
                        )
                    except KafkaError:
                        if slices:
                            return slices
                        raise
                    slices.append(BatchSlice(fetched.tp, header, body, fetched.position))
                    state.epoch = header.leader_epoch
                    state.position = fetched.position = header.offset_end
                    fetched.batches.pop()
                    count -= header.record_count
                    size_bytes += len(body)
                if not fetched.batches:
                    state.position = fetched.position = fetched.next_offset
                if count <= 0 or size_bytes >= SLICE_BYTES_MAX:
                    break
        return slices

    def _current(self) -> Generator[tuple[Fetched, PartitionState], None, None]:
        """Each fetch of a partition that is read and not paused; used up ones are dropped."""
        ready = self._ready
        aside: list[Fetched] = []
        fetched: Fetched | None = None
        try:
            while ready:
                fetched = ready.popleft()
                state = self._positions.partitions.get(fetched.tp)
                if state is None or state.round != fetched.round:
                    fetched = None
                    continue
                if state.is_paused:
                    aside.append(fetched)
                    fetched = None
                    continue
                yield fetched, state
                if not fetched.is_empty:
                    ready.appendleft(fetched)
                fetched = None
        finally:
            if fetched is not None and not fetched.is_empty:
                ready.appendleft(fetched)
            ready.extendleft(reversed(aside))


def _unread(fetched: Fetched) -> None:
    """Where a batch was begun record by record, put the rest of it back."""
    if fetched.rows and fetched.current is not None:
        fetched.rows = []
        if not fetched.batches or fetched.batches[-1] != fetched.current:
            fetched.batches.append(fetched.current)
