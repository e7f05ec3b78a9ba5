"""Taking fetched records out: by the record, or as whole batches for columns.

May run on the user's own thread while the loop goes on fetching. What is taken is no more than an
offer: positions move when it is handed over, in one go, and nowhere else while somebody may be
taking. An offer that never was (the user's code raised, Ctrl-C) leaves a gap between position and
buffer, which the next poll closes by fetching again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moldau.client.consumer.consumer_fetcher import Fetcher
from moldau.client.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from moldau.client.consumer.subscription_state import PartitionState, Positions
from moldau.client.serialization.fetched_batches import (
    WRONG,
    Fetched,
    RecordReader,
    body_of,
    corrupt,
)
from moldau.client.shared.client_errors import KafkaError
from moldau.model.names import TopicPartition
from moldau.records.batch import CODEC_MASK, BatchHeader
from moldau.records.batch_kernel import BatchRow
from moldau.records.batch_runs import Part, measure_run, open_batches
from moldau.records.column_decoding import Measure

RUNS_BYTES_MAX = 512 * 1024 * 1024
"""Columns hold less than 2 GiB each, whatever a batch says of itself."""


RUN_BYTES = 4 * 1024 * 1024


class BatchRun(NamedTuple):
    """Batches of one fetch from an offset on, or one that was compressed."""

    tp: TopicPartition
    parts: list[Part]
    body: Any
    offset_first: int
    measure: Measure
    """How much the parts hold; a run has no broken records."""

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
        measure, broken = measure_run(self.body, [part], self.offset_first)
        if broken is not None:
            raise _broken(self.tp, measure, broken)
        return BatchRun(self.tp, [part], self.body, self.offset_first, measure)


class Move(NamedTuple):
    """Where a partition stands once what was taken of it is handed over."""

    state: PartitionState
    round: int
    position: int
    epoch: int


@dataclass(slots=True)
class Offer:
    """What was taken and is not yet the user's."""

    moves: dict[TopicPartition, Move] = field(default_factory=dict)
    taken: dict[TopicPartition, list[ConsumerRecord]] = field(default_factory=dict)
    runs: list[BatchRun] = field(default_factory=list)

    def position(self, state: PartitionState) -> int | None:
        """Where the next record to take is."""
        move = self.moves.get(state.tp)
        return state.position if move is None else move.position

    def add(self, fetched: Fetched, state: PartitionState, epoch: int | None) -> None:
        """Everything before the position of `fetched`; the epoch is that of the last record."""
        if epoch is None:
            known = self.moves.get(state.tp)
            epoch = state.epoch if known is None else known.epoch
        self.moves[state.tp] = Move(state, fetched.round, fetched.position, epoch)


class RecordBuffer:
    def __init__(self, fetcher: Fetcher, positions: Positions, reader: RecordReader) -> None:
        self._ready = fetcher.ready
        self._positions = positions
        self._reader = reader
        self.has_offer = False
        """Whether something was taken and not handed over: `mend` has to look."""

    def has_records(self) -> bool:
        """Whether something is there for a partition that can be read now."""
        partitions = self._positions.partitions
        for fetched in list(self._ready):
            state = partitions.get(fetched.tp)
            if state is not None and _is_next(fetched, state, state.position):
                return True
        return False

    def take(self, count: int) -> Offer:
        """At most `count` records, in the order they came."""
        self.has_offer = True
        offer = Offer()
        taken = offer.taken
        with closing(self._current(offer)) as each:
            for fetched, state in each:
                fetched.is_torn = True
                try:
                    records = self._reader.take(fetched, count)
                except KafkaError:
                    fetched.is_torn = False
                    if taken:
                        break
                    self.hand_over(offer)
                    raise
                fetched.is_torn = False
                offer.add(fetched, state, records[-1].leader_epoch if records else None)
                if records:
                    known = taken.setdefault(fetched.tp, records)
                    if known is not records:
                        known += records
                    count -= len(records)
                if count <= 0:
                    break
        return offer

    def take_runs(self, count: int) -> Offer:
        """Whole batches, until they hold `count` records or more."""
        self.has_offer = True
        offer = Offer()
        runs = offer.runs
        size_bytes = 0
        with closing(self._current(offer)) as each:
            for fetched, state in each:
                fetched.is_torn = True
                _unread(fetched)
                while fetched.batches and count > 0 and size_bytes < RUNS_BYTES_MAX:
                    try:
                        run, records, last = self._open(fetched, count)
                    except KafkaError:
                        fetched.is_torn = False
                        if runs:
                            return offer
                        self.hand_over(offer)
                        raise
                    runs.append(run)
                    fetched.position = last[3] + 1 if fetched.batches else fetched.next_offset
                    offer.add(fetched, state, last[5])
                    count -= records
                    size_bytes += run.size_bytes
                if not fetched.batches:
                    fetched.position = fetched.next_offset
                    offer.add(fetched, state, None)
                fetched.is_torn = False
                if count <= 0 or size_bytes >= RUNS_BYTES_MAX:
                    break
        return offer

    def hand_over(self, offer: Offer) -> None:
        """The user has it all: positions move. A seek in the meantime wins."""
        for state, round, position, epoch in offer.moves.values():
            if state.round == round:
                state.position, state.epoch = position, epoch
        self.has_offer = False

    def one_by_one(self, offer: Offer, records: ConsumerRecords) -> Iterator[ConsumerRecord]:
        """Hand over record by record, for as long as nobody seeks, pauses or takes meanwhile."""
        is_whole = True
        for tp in records.partitions() - offer.moves.keys():
            yield from records.records(tp)
        for tp, move in offer.moves.items():
            state, round, position, epoch = move
            expected = state.position
            for record in records.records(tp):
                if state.round != round or state.position != expected or state.is_paused:
                    is_whole = False
                    break
                state.position = expected = record.offset + 1
                state.epoch = record.leader_epoch
                yield record
            else:
                if state.round == round and state.position == expected:
                    state.position, state.epoch = position, epoch
        self.has_offer = self.has_offer and not is_whole

    def mend(self) -> None:
        """On the loop, inside a poll: fetch again what was taken and never handed over.

        What is buffered must reach from the position to the next fetch without a gap."""
        partitions = self._positions.partitions
        reached = {tp: state.position for tp, state in partitions.items()}
        for fetched in list(self._ready):
            state = partitions.get(fetched.tp)
            if state is not None and state.round == fetched.round:
                is_gapless = fetched.position == reached[fetched.tp]
                reached[fetched.tp] = fetched.next_offset if is_gapless else None
        for tp, state in partitions.items():
            if state.fetch_offset != reached[tp]:
                state.refetch()
        self.has_offer = False

    def _open(self, fetched: Fetched, count: int) -> tuple[BatchRun, int, BatchRow]:
        """The next batches, how many records they hold, and the last of them."""
        tp, view, batches = fetched.tp, fetched.view, fetched.batches
        check_crcs = self._reader.check_crcs
        first = batches[-1]
        if first[7] & CODEC_MASK:
            header, body = body_of(tp, view, first, check_crcs)
            run = BatchSlice(tp, header, body, fetched.position).run()
            batches.pop()
            return run, header.record_count, first
        whole = batches[:]
        parts, records, last = open_batches(view, batches, count, RUN_BYTES, check_crcs)
        if last is None:
            raise corrupt(tp, first[2], WRONG)
        measure, broken = measure_run(view, parts, fetched.position)
        if broken is not None:
            # What comes before a broken batch is handed out, and the batch is told next time.
            place = parts.index(broken)
            batches[:] = whole[: len(whole) - place]
            if not place:
                raise _broken(tp, measure, broken)
            parts, last = parts[:place], whole[-place]
            measure, _ = measure_run(view, parts, fetched.position)
            records = sum(part[4] for part in parts)
        return BatchRun(tp, parts, view, fetched.position, measure), records, last

    def _current(self, offer: Offer) -> Generator[tuple[Fetched, PartitionState], None, None]:
        """Each fetch that comes next in its partition; used up and stale ones are dropped."""
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
                if not _is_next(fetched, state, offer.position(state)):
                    aside.append(fetched)
                    fetched = None
                    continue
                yield fetched, state
                if not fetched.is_empty:
                    ready.appendleft(fetched)
                fetched = None
        finally:
            if fetched is not None and not (fetched.is_empty or fetched.is_torn):
                ready.appendleft(fetched)
            ready.extendleft(reversed(aside))


def _is_next(fetched: Fetched, state: PartitionState, position: int | None) -> bool:
    """Whether it begins just where the user stands, and may be handed out."""
    return state.round == fetched.round and fetched.position == position and state.is_readable


def _broken(tp: TopicPartition, measure: Measure, part: Part) -> KafkaError:
    return corrupt(tp, part[2], f"record {measure[0]} is broken")


def _unread(fetched: Fetched) -> None:
    """Where a batch was begun record by record, put the rest of it back."""
    if fetched.rows and fetched.current is not None:
        fetched.rows = []
        if not fetched.batches or fetched.batches[-1] != fetched.current:
            fetched.batches.append(fetched.current)
