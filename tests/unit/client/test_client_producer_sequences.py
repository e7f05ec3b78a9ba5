"""Sequences: in order, without gaps, and a new epoch where a gap cannot be closed."""

from __future__ import annotations

from moldau.client.producer.producer_batch import ProducerBatch
from moldau.client.producer.sequence_numbers import EPOCH_LAST, SequenceBook
from moldau.model.errors import Error
from moldau.model.names import TopicPartition

GAP = Error.OUT_OF_ORDER_SEQUENCE_NUMBER
T0 = TopicPartition("t", 0)


def book(*, is_transactional: bool = False) -> SequenceBook:
    made = SequenceBook(is_transactional=is_transactional)
    made.set_identity(7, 0)
    made.established.add(T0)
    return made


def batch(count: int = 10, partition: int = 0) -> ProducerBatch:
    made = ProducerBatch("t", partition, 1000, 0)
    for _ in range(count):
        made.add(b"", None, (), 0, 12)
    made.seal()
    return made


def sent(sequences: SequenceBook, *counts: int) -> list[ProducerBatch]:
    batches = [batch(count) for count in counts]
    for each in batches:
        assert sequences.may_send(each)
        sequences.assign(each)
    return batches


def test_nothing_is_sent_before_the_producer_has_an_id() -> None:
    assert not SequenceBook().may_send(batch())


def test_sequences_follow_one_another_per_partition() -> None:
    sequences = book()
    first, second = sent(sequences, 10, 5)
    other = batch(3, partition=1)
    sequences.assign(other)
    assert [first.base_sequence, second.base_sequence, other.base_sequence] == [0, 10, 0]
    assert sequences.next_sequences() == {T0: 15, TopicPartition("t", 1): 3}


def test_sequences_start_again_after_the_largest_number() -> None:
    sequences = book()
    sequences.adopt({T0: 2**31 - 5})
    first, second = sent(sequences, 10, 5)
    assert second.base_sequence == 5
    sequences.acked(first, 0)
    sequences.acked(second, 10)
    assert sequences.partitions[T0].acked_end == 10


def test_a_partition_gets_one_batch_until_its_leader_has_answered() -> None:
    sequences = SequenceBook()
    sequences.set_identity(7, 0)
    (first,) = sent(sequences, 10)
    assert not sequences.may_send(batch())
    sequences.acked(first, 0)
    sent(sequences, 10, 10, 10)


def test_only_the_oldest_batch_is_sent_again_and_nothing_new_before_it_is_through() -> None:
    sequences = book()
    first, second = sent(sequences, 10, 10)
    assert sequences.may_send(first)
    assert not sequences.may_send(second)
    sequences.acked(first, 0)
    assert sequences.may_send(second)


def test_no_more_is_sent_than_a_leader_remembers_while_the_oldest_batch_is_open() -> None:
    sequences = book()
    first, *others = sent(sequences, 10, 10, 10, 10, 10)
    assert not sequences.may_send(batch())
    for each in others:
        # They are in the log after the first, and push it out of what the leader remembers.
        sequences.acked(each, 0)
        assert not sequences.may_send(batch())
    sequences.acked(first, 0)
    sent(sequences, 10, 10, 10, 10, 10)
    assert not sequences.may_send(batch())


def test_a_batch_behind_one_that_is_sent_again_is_retried_without_a_new_epoch() -> None:
    sequences = book()
    _, second = sent(sequences, 10, 10)
    assert sequences.retries_sequence_error(second, GAP)
    assert not sequences.broken


def test_a_gap_that_cannot_be_explained_starts_a_new_epoch_from_zero() -> None:
    sequences = book()
    (done,) = sent(sequences, 10)
    sequences.acked(done, 0)
    first, second = sent(sequences, 10, 10)
    assert sequences.retries_sequence_error(first, GAP)
    assert not sequences.bump_if_broken()
    assert sequences.producer_epoch == 1
    assert [(b.producer_epoch, b.base_sequence) for b in (first, second)] == [(1, 0), (1, 10)]
    assert sequences.next_sequences() == {T0: 20}


def test_a_batch_that_was_overtaken_gets_a_new_epoch_instead_of_waiting_forever() -> None:
    sequences = book()
    first, second = sent(sequences, 10, 10)
    sequences.acked(second, 10)
    assert sequences.retries_sequence_error(first, GAP)
    sequences.bump_if_broken()
    assert (first.producer_epoch, first.base_sequence) == (1, 0)


def test_other_partitions_take_over_the_new_epoch_when_their_old_batches_are_done() -> None:
    sequences = book()
    sequences.established.add(TopicPartition("t", 1))
    old = batch(5, partition=1)
    sequences.assign(old)
    (first,) = sent(sequences, 10)
    sequences.retries_sequence_error(first, GAP)
    sequences.bump_if_broken()
    new = batch(5, partition=1)
    assert not sequences.may_send(new)
    sequences.acked(old, 0)
    assert sequences.may_send(new)
    sequences.assign(new)
    assert (new.producer_epoch, new.base_sequence) == (1, 0)


def test_after_the_last_epoch_a_new_producer_id_is_needed() -> None:
    sequences = book()
    sequences.set_identity(7, EPOCH_LAST)
    (first,) = sent(sequences, 10)
    sequences.retries_sequence_error(first, GAP)
    assert sequences.bump_if_broken()
    assert not sequences.has_identity
    assert not first.has_sequence


def test_a_batch_of_unknown_fate_stops_its_partition_until_the_rest_is_answered() -> None:
    sequences = book()
    first, second = sent(sequences, 10, 10)
    sequences.failed(first, is_refused=False)
    assert not sequences.may_send(batch())
    sequences.acked(second, 10)
    assert sequences.may_send(batch())
    assert not sequences.broken


def test_if_nothing_tells_the_fate_of_a_batch_the_epoch_changes() -> None:
    sequences = book()
    (first,) = sent(sequences, 10)
    sequences.failed(first, is_refused=False)
    sequences.bump_if_broken()
    (second,) = sent(sequences, 10)
    assert (second.producer_epoch, second.base_sequence) == (1, 0)


def test_in_a_transaction_what_follows_a_refused_batch_moves_up() -> None:
    sequences = book(is_transactional=True)
    first, second = sent(sequences, 10, 5)
    sequences.failed(first, is_refused=True)
    assert second.base_sequence == 0
    assert sequences.next_sequences() == {T0: 5}


def test_in_a_transaction_a_real_gap_is_not_retried() -> None:
    sequences = book(is_transactional=True)
    (first,) = sent(sequences, 10)
    assert not sequences.retries_sequence_error(first, GAP)
    assert not sequences.retries_sequence_error(first, Error.UNKNOWN_PRODUCER_ID)


def test_a_split_batch_hands_its_place_to_its_parts() -> None:
    sequences = book()
    first, second = sent(sequences, 10, 5)
    parts = first.split(61 + 5 * 12)
    sequences.replace(first, parts)
    assert [part.base_sequence for part in parts] == [0, 5]
    assert sequences.may_send(parts[0])
    sequences.acked(parts[0], 0)
    sequences.acked(parts[1], 5)
    assert sequences.may_send(second)


def test_another_process_can_go_on_with_the_sequences() -> None:
    sequences = book(is_transactional=True)
    sent(sequences, 10)
    other = SequenceBook(is_transactional=True)
    other.set_identity(7, 0)
    other.adopt(sequences.next_sequences())
    (next_one,) = sent(other, 5)
    assert next_one.base_sequence == 10
    assert next_one.is_transactional
