"""Taking fetched records out: by the record, or as whole batches for columns.

May run on the user's own thread while the loop goes on fetching. Positions move only here and on
the loop while no one takes; a position is moved before its bytes leave the buffer.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any, NamedTuple

from moldau.client.deserialization import WRONG, Fetched, RecordReader, body_of, corrupt
from moldau.client.errors import KafkaError
from moldau.client.fetcher import Fetcher
from moldau.client.positions import PartitionState, Positions
from moldau.client.records import ConsumerRecord
from moldau.model.names import TopicPartition
from moldau.records.batch import CODEC_MASK, BatchHeader
from moldau.records.kernel import BatchRow
from moldau.records.runs import Part, open_batches

RUNS_BYTES_MAX = 512 * 1024 * 1024
"""Columns hold less than 2 GiB each, whatever a batch says of itself."""


RUN_BYTES = 4 * 1024 * 1024


class BatchRun(NamedTuple):
    """Batches of one fetch from an offset on, or one that was compressed."""

    tp: TopicPartition
    parts: list[Part]
    body: Any
    offset_first: int

    @property
    def size_bytes(self) -> int:
        return self.parts[-1][1] - self.parts[0][0]


class BatchSlice(NamedTuple):
    """A batch from an offset on."""

    tp: TopicPartition
    header: BatchHeader
    body: Any
    offset_first: int

    def run(self) -> BatchRun:
        head = self.header
        stamp = head.max_timestamp if head.has_log_append_time else -1
        size = len(self.body)
        part = (0, size, head.base_offset, head.base_timestamp, head.record_count, stamp)
        return BatchRun(self.tp, [part], self.body, self.offset_first)


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

    def take_runs(self, count: int) -> list[BatchRun]:
        """Whole batches, until they hold `count` records or more."""
        runs: list[BatchRun] = []
        size_bytes = 0
        with closing(self._current()) as each:
            for fetched, state in each:
                _unread(fetched)
                while fetched.batches and count > 0 and size_bytes < RUNS_BYTES_MAX:
                    try:
                        run, records, last = self._open(fetched, count)
                    except KafkaError:
                        if runs:
                            return runs
                        raise
                    runs.append(run)
                    state.epoch = last[5]
                    state.position = fetched.position = last[3] + 1
                    count -= records
                    size_bytes += run.size_bytes
                if not fetched.batches:
                    state.position = fetched.position = fetched.next_offset
                if count <= 0 or size_bytes >= RUNS_BYTES_MAX:
                    break
        return runs

    def _open(self, fetched: Fetched, count: int) -> tuple[BatchRun, int, BatchRow]:
        """The next batches, how many records they hold, and the last of them."""
        tp, view, batches = fetched.tp, fetched.view, fetched.batches
        check_crcs = self._reader.check_crcs
        first = batches[-1]
        if first[7] & CODEC_MASK:
            header, body = body_of(tp, view, first, check_crcs)
            batches.pop()
            return BatchSlice(tp, header, body, fetched.position).run(), header.record_count, first
        parts, records, last = open_batches(view, batches, count, RUN_BYTES, check_crcs)
        if last is None:
            raise corrupt(tp, first[2], WRONG)
        return BatchRun(tp, parts, view, fetched.position), records, last

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
