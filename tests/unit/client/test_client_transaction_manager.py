"""The rules of a transactional producer, as a table and in words."""

from __future__ import annotations

import pytest

from moldau.client.producer.transaction_manager import (
    FENCED_TEXT,
    MOVES,
    Remedy,
    TransactionMachine,
    TransactionState,
    coordinator_error,
    remedy_for,
)
from moldau.client.shared import client_errors as errors
from moldau.model.errors import Error
from moldau.model.names import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
S = TransactionState


def ready(*, is_v2: bool = False) -> TransactionMachine:
    machine = TransactionMachine("id")
    machine.is_v2 = is_v2
    machine.begin_initializing()
    machine.initialized()
    return machine


def in_transaction(*, is_v2: bool = False) -> TransactionMachine:
    machine = ready(is_v2=is_v2)
    machine.begin()
    return machine


def test_every_state_can_end_in_a_fatal_error_and_only_there_is_no_way_out() -> None:
    assert all(S.FATAL_ERROR in targets for targets in MOVES.values())
    assert MOVES[S.FATAL_ERROR] == {S.FATAL_ERROR}
    assert set(MOVES) == set(S)


def test_a_transaction_goes_round_from_ready_to_ready() -> None:
    machine = in_transaction()
    machine.check_send()
    machine.begin_commit()
    machine.ended()
    assert machine.state is S.READY
    machine.begin()
    machine.begin_abort()
    machine.ended()
    assert machine.state is S.READY


@pytest.mark.parametrize("call", ["begin", "begin_commit", "begin_abort", "check_send"])
def test_nothing_works_before_init_transactions(call: str) -> None:
    with pytest.raises(errors.IllegalStateError):
        getattr(TransactionMachine("id"), call)()


def test_records_are_refused_outside_a_transaction() -> None:
    with pytest.raises(errors.IllegalStateError, match="READY"):
        ready().check_send()


def test_transactions_do_not_nest() -> None:
    machine = in_transaction()
    with pytest.raises(errors.IllegalStateError, match="from state IN_TRANSACTION"):
        machine.begin()


def test_waiting_for_an_end_may_go_on_after_a_time_out() -> None:
    machine = in_transaction()
    machine.begin_commit()
    machine.begin_commit()
    with pytest.raises(errors.IllegalStateError):
        machine.begin_abort()
    assert machine.state is S.COMMITTING_TRANSACTION


def test_after_a_lost_record_only_an_abort_is_possible() -> None:
    machine = in_transaction()
    machine.batch_failed(errors.error_for(Error.MESSAGE_TOO_LARGE))
    assert machine.state is S.ABORTABLE_ERROR
    for call in (machine.check_send, machine.begin_commit, machine.begin):
        with pytest.raises(errors.KafkaError):
            call()
    machine.begin_abort()
    assert machine.needs_new_epoch
    machine.begin_new_epoch()
    machine.initialized()
    machine.begin()


def test_under_version_two_the_end_of_the_transaction_brings_the_new_epoch() -> None:
    machine = in_transaction(is_v2=True)
    machine.batch_failed(errors.error_for(Error.MESSAGE_TOO_LARGE))
    assert not machine.needs_new_epoch


def test_being_fenced_is_final_and_keeps_its_name() -> None:
    machine = in_transaction()
    machine.batch_failed(coordinator_error(Error.INVALID_PRODUCER_EPOCH))
    assert machine.is_fatal
    for call in (machine.check_send, machine.begin_commit, machine.begin_abort, machine.begin):
        with pytest.raises(errors.ProducerFencedError, match="old epoch"):
            call()


def test_errors_while_aborting_do_not_matter_unless_fatal() -> None:
    machine = in_transaction()
    machine.begin_abort()
    machine.fail(errors.error_for(Error.MESSAGE_TOO_LARGE), is_fatal=False)
    assert machine.state is S.ABORTING_TRANSACTION
    machine.fail(errors.error_for(Error.PRODUCER_FENCED), is_fatal=True)
    assert machine.is_fatal


def test_version_one_tells_the_coordinator_of_partitions_before_anything_is_sent() -> None:
    machine = in_transaction()
    machine.add_partition(T0)
    assert machine.new_partitions == {T0}
    assert not machine.may_send_to(T0)
    assert not machine.is_started
    machine.partitions_added([T0])
    assert machine.may_send_to(T0)
    assert machine.is_started
    machine.add_partition(T0)
    assert not machine.new_partitions


def test_version_two_leaves_that_to_the_brokers() -> None:
    machine = in_transaction(is_v2=True)
    machine.add_partition(T0)
    assert not machine.new_partitions
    assert machine.may_send_to(T0)
    assert machine.is_started


def test_each_transaction_starts_without_partitions() -> None:
    machine = in_transaction()
    machine.partitions_added([T0])
    machine.begin_commit()
    machine.ended()
    assert not machine.partitions
    assert not machine.is_started


def test_an_attached_producer_is_in_the_transaction_of_the_other() -> None:
    machine = TransactionMachine("id")
    machine.attach([T0])
    machine.check_send()
    assert machine.may_send_to(T0)
    machine.add_partition(T1)
    assert machine.new_partitions == {T1}


def test_an_owner_knows_of_a_transaction_that_only_others_wrote_to() -> None:
    machine = in_transaction()
    machine.join([])
    assert not machine.is_started
    machine.join([T1])
    assert machine.is_started


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (Error.NOT_COORDINATOR, Remedy.FIND_COORDINATOR),
        (Error.COORDINATOR_NOT_AVAILABLE, Remedy.FIND_COORDINATOR),
        (Error.CONCURRENT_TRANSACTIONS, Remedy.RETRY),
        (Error.COORDINATOR_LOAD_IN_PROGRESS, Remedy.RETRY),
        (Error.TRANSACTION_ABORTABLE, Remedy.ABORT),
        (Error.TOPIC_AUTHORIZATION_FAILED, Remedy.ABORT),
        (Error.ILLEGAL_GENERATION, Remedy.ABORT),
        (Error.PRODUCER_FENCED, Remedy.GIVE_UP),
        (Error.INVALID_TXN_STATE, Remedy.GIVE_UP),
        (Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Remedy.GIVE_UP),
    ],
)
def test_every_error_of_a_coordinator_has_its_remedy(code: Error, remedy: Remedy) -> None:
    assert remedy_for(code) is remedy


def test_refusals_are_told_in_kafkas_words() -> None:
    assert str(coordinator_error(Error.PRODUCER_FENCED)) == FENCED_TEXT
    assert isinstance(coordinator_error(Error.ILLEGAL_GENERATION), errors.CommitFailedError)
