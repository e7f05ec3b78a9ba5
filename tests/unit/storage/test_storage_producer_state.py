"""Sequences, epochs and transactions of producers, with Apache Kafka's error codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from moldau.model.errors import ApiError, Error
from moldau.records.batch_codec import ControlType, EndMarker
from moldau.storage.log_state.producer_state import BatchSpan, Origin, ProducerStates

SEQUENCE_LAST = 2**31 - 1
COMMIT = EndMarker(ControlType.COMMIT, 0)
ABORT = EndMarker(ControlType.ABORT, 0)


class Log:
    """Producer state behind the steps of a log: ask, write, note."""

    def __init__(self) -> None:
        self.producers = ProducerStates("t-0")
        self.offset_end = 0

    def append(
        self,
        sequence: int,
        count: int = 1,
        *,
        producer_id: int = 1,
        epoch: int = 0,
        transactional: bool = False,
        origin: Origin = Origin.CLIENT,
    ) -> BatchSpan | None:
        last = (sequence + count - 1) & SEQUENCE_LAST if sequence >= 0 else -1
        if origin is Origin.CLIENT:
            span = self.producers.duplicate_of(producer_id, epoch, sequence, last)
            if span is not None:
                return span
        self.producers.check_data(
            producer_id, epoch, sequence, transactional, self.offset_end, origin
        )
        self.producers.record_data(
            producer_id,
            epoch,
            last,
            self.offset_end,
            self.offset_end + count - 1,
            1000,
            transactional,
        )
        self.offset_end += count
        return None

    def mark(
        self, marker: EndMarker, *, producer_id: int = 1, epoch: int = 0, version: int = 0
    ) -> object:
        self.producers.check_marker(producer_id, epoch, marker, self.offset_end, version)
        done = self.producers.record_marker(producer_id, epoch, marker, self.offset_end, 1000)
        self.offset_end += 1
        return done


@contextmanager
def refusal(error: Error) -> Iterator[None]:
    with pytest.raises(ApiError) as refused:
        yield
    assert refused.value.error == error


def test_batches_in_sequence_are_taken() -> None:
    log = Log()
    for sequence in (0, 3, 6):
        assert log.append(sequence, 3) is None
        assert log.producers.is_next(1, 0, sequence + 3, False)


def test_a_gap_is_out_of_order() -> None:
    log = Log()
    log.append(0, 3)
    assert not log.producers.is_next(1, 0, 4, False)
    with refusal(Error.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append(4)


def test_each_of_the_last_five_batches_is_answered_again_as_the_first_time() -> None:
    log = Log()
    for sequence in range(0, 14, 2):
        log.append(sequence, 2)
    for sequence in range(4, 14, 2):
        assert log.append(sequence, 2) == BatchSpan(sequence + 1, sequence + 1, 1, 1000)
    with refusal(Error.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append(2, 2)


def test_a_repetition_of_another_length_is_out_of_order() -> None:
    log = Log()
    log.append(0, 5)
    with refusal(Error.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append(0, 4)


def test_sequences_start_again_at_zero_after_the_last() -> None:
    log = Log()
    log.append(SEQUENCE_LAST - 1, 1)
    log.append(SEQUENCE_LAST, 1)
    log.append(0, 1)
    assert log.append(SEQUENCE_LAST, 1) is not None


def test_a_batch_may_span_the_end_of_the_sequences() -> None:
    log = Log()
    log.append(SEQUENCE_LAST - 1, 4)
    assert log.append(SEQUENCE_LAST - 1, 4) == BatchSpan(1, 3, 3, 1000)
    log.append(2)


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert Log().append(1234) is None


def test_a_new_epoch_must_start_at_zero() -> None:
    log = Log()
    log.append(0)
    with refusal(Error.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append(1, epoch=1)
    log.append(0, epoch=1)


def test_an_old_epoch_is_fenced() -> None:
    log = Log()
    log.append(0, epoch=5)
    with refusal(Error.INVALID_PRODUCER_EPOCH):
        log.append(1, epoch=4)


def test_a_batch_of_an_older_epoch_is_no_duplicate() -> None:
    log = Log()
    log.append(0, epoch=0)
    log.append(0, epoch=1)
    with refusal(Error.INVALID_PRODUCER_EPOCH):
        log.append(0, epoch=0)


def test_a_coordinator_is_held_to_the_epoch_but_not_to_sequences() -> None:
    log = Log()
    for _ in range(3):
        log.append(-1, epoch=2, transactional=True, origin=Origin.COORDINATOR)
    with refusal(Error.INVALID_PRODUCER_EPOCH):
        log.append(-1, epoch=1, transactional=True, origin=Origin.COORDINATOR)


def test_replication_is_believed() -> None:
    log = Log()
    log.append(0, epoch=5)
    log.append(17, epoch=4, origin=Origin.REPLICATION)
    assert log.producers.is_next(1, 4, 18, False)


def test_a_producer_with_an_open_transaction_may_not_write_outside_it() -> None:
    log = Log()
    log.append(0, transactional=True)
    assert not log.producers.is_next(1, 0, 1, False)
    with refusal(Error.INVALID_TXN_STATE):
        log.append(1)


def test_the_first_unstable_offset_is_the_start_of_the_oldest_open_transaction() -> None:
    log = Log()
    log.append(0, 5, producer_id=9)
    log.append(0, producer_id=1, transactional=True)
    log.append(0, producer_id=2, transactional=True)
    assert log.producers.first_unstable_offset(log.offset_end) == 5
    log.mark(COMMIT, producer_id=1)
    assert log.producers.first_unstable_offset(log.offset_end) == 6
    log.mark(ABORT, producer_id=2)
    assert log.producers.first_unstable_offset(log.offset_end) is None


def test_a_decided_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    log = Log()
    log.append(0, 3, transactional=True)
    log.mark(COMMIT)
    assert log.producers.first_unstable_offset(3) == 0
    assert log.producers.has_transactions
    assert log.producers.first_unstable_offset(4) is None
    assert not log.producers.has_transactions


def test_an_abort_names_the_transaction_and_the_stable_offset_it_leaves() -> None:
    log = Log()
    log.append(0, 2, producer_id=1, transactional=True)
    log.append(0, 2, producer_id=2, transactional=True)
    assert log.mark(ABORT, producer_id=1) == (1, 0, 4, True, 2)
    assert log.mark(ABORT, producer_id=2) == (2, 2, 5, True, 6)


def test_a_marker_for_a_transaction_that_wrote_nothing_here_decides_nothing() -> None:
    log = Log()
    assert log.mark(COMMIT, producer_id=7) is None
    assert log.producers.first_unstable_offset(1) is None


def test_sequences_go_on_after_a_marker() -> None:
    log = Log()
    log.append(0, 2, transactional=True)
    log.mark(COMMIT)
    log.append(2, transactional=True)


def test_a_marker_with_a_raised_epoch_starts_sequences_again() -> None:
    log = Log()
    log.append(0, 2, epoch=0, transactional=True)
    log.mark(COMMIT, epoch=1, version=2)
    with refusal(Error.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append(2, epoch=1, transactional=True)
    log.append(0, epoch=1, transactional=True)


def test_markers_are_fenced_by_epoch() -> None:
    log = Log()
    log.append(0, epoch=3, transactional=True)
    with refusal(Error.INVALID_PRODUCER_EPOCH):
        log.mark(COMMIT, epoch=2)
    with refusal(Error.INVALID_PRODUCER_EPOCH):
        log.mark(COMMIT, epoch=3, version=2)
    log.mark(COMMIT, epoch=3)


def test_a_repeated_marker_of_version_two_is_taken_again() -> None:
    log = Log()
    log.append(0, epoch=3, transactional=True)
    assert log.mark(COMMIT, epoch=4, version=2) is not None
    assert log.mark(COMMIT, epoch=4, version=2) is None


def test_a_marker_from_an_old_coordinator_is_fenced() -> None:
    log = Log()
    log.append(0, transactional=True)
    log.mark(EndMarker(ControlType.COMMIT, 5))
    log.append(1, transactional=True)
    with refusal(Error.TRANSACTION_COORDINATOR_FENCED):
        log.mark(EndMarker(ControlType.COMMIT, 4))


def test_silent_producers_are_forgotten_but_not_in_the_middle_of_a_transaction() -> None:
    log = Log()
    log.append(0, producer_id=1)
    log.append(0, producer_id=2, transactional=True)
    assert log.producers.expire(1000 + 499, 500) == 0
    assert log.producers.expire(1000 + 500, 500) == 1
    assert log.producers.entry(1) is None
    assert log.producers.entry(2) is not None
    log.append(77, producer_id=1)


def test_a_transaction_that_nobody_ends_is_late_after_a_time() -> None:
    log = Log()
    log.append(0, producer_id=1)
    log.append(0, producer_id=2, transactional=True)
    entry = log.producers.entry(2)
    assert entry is not None
    written_ms = entry.last_timestamp = 1_000_000
    assert not log.producers.has_late_transaction(written_ms)
    assert log.producers.has_late_transaction(written_ms + 1)
    log.mark(COMMIT, producer_id=2)
    assert not log.producers.has_late_transaction(written_ms + 1)
