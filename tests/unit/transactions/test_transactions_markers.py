"""Markers on their way: grouping, errors, silence, restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.engine.machine import NO_TOKEN, NOTHING, Timer
from moldau.model.clock import Now
from moldau.model.cluster import NO_LEADER
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.transactions.transaction_commands import (
    EndTransaction,
    Loaded,
    MarkersWritten,
    ResendMarkers,
    RetryMarkers,
    TopicsChanged,
)
from moldau.transactions.transaction_facts import VERSION_2
from moldau.transactions.transaction_machine import TransactionMachine
from moldau.transactions.transaction_settings import TransactionSettings
from moldau.transactions.transaction_states import State
from tests.support.transactions import (
    A0,
    A1,
    B0,
    EPOCH,
    LEADERS,
    NOW,
    WALL,
    all_written,
    machine,
    moved,
    ongoing,
    outcome,
    run,
    sent,
    states,
    topics_of,
    transaction,
)

COMMIT = EndTransaction("tid", 1000, 5, True)
SILENCE_MS = TransactionSettings().markers_timeout_ms
RETRY_MS = TransactionSettings().markers_retry_ms


def open_in(*partitions: TopicPartition, **options: object) -> TransactionMachine:
    leaders = options.pop("leaders", LEADERS)
    assert isinstance(leaders, dict)
    return machine(ongoing(partitions=frozenset(partitions), **options), leaders=leaders)


def waits_for(on: TransactionMachine) -> frozenset[TopicPartition]:
    return on.awaited["tid"].partitions if "tid" in on.awaited else frozenset()


def test_markers_are_grouped_by_the_broker_that_leads() -> None:
    on = open_in(A0, A1, B0)
    messages = sent(run(on, COMMIT))
    assert {broker: m.partitions for broker, m in messages.items()} == {1: (A0, B0), 2: (A1,)}
    assert waits_for(on) == {A0, A1, B0}


def test_the_transaction_is_complete_when_the_last_marker_is_written() -> None:
    on = open_in(A0, A1, B0)
    first, second = run(on, COMMIT).sends
    assert states(run(on, all_written(first))) == []
    assert waits_for(on) == {A1}
    decision = run(on, all_written(second), wall_ms=WALL + 10)
    (after,) = moved(decision)
    assert after.state is State.COMPLETE_COMMIT
    assert after.update_ms == WALL + 10
    assert not on.awaited


@pytest.mark.parametrize(
    "error",
    [
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.REQUEST_TIMED_OUT,
        Error.KAFKA_STORAGE_ERROR,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.NETWORK_EXCEPTION,
        Error.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_marker_that_failed_is_sent_again_after_a_pause_and_the_others_are_not(
    error: Error,
) -> None:
    on = open_in(A0, A1, B0)
    message = sent(run(on, COMMIT))[1]
    decision = run(on, message.answer({A0: error, B0: Error.NONE}))
    (timer,) = decision.timers
    assert timer.at == NOW + RETRY_MS
    assert waits_for(on) == {A0, A1}
    retry = on.decide(timer.command, NO_TOKEN, Now(WALL, NOW + RETRY_MS))
    assert {broker: m.partitions for broker, m in sent(retry).items()} == {1: (A0,)}


def test_a_retry_finds_the_new_leader() -> None:
    on = open_in(A0)
    (send,) = run(on, COMMIT).sends
    (timer,) = run(on, all_written(send, Error.NOT_LEADER_OR_FOLLOWER)).timers
    run(on, TopicsChanged(topics_of({A0: 3})))
    assert set(sent(run(on, timer.command))) == {3}


def test_partitions_without_a_leader_wait_for_one() -> None:
    on = open_in(A0, A1, leaders={A0: NO_LEADER, A1: 2})
    decision = run(on, COMMIT)
    assert set(sent(decision)) == {2}
    (timer,) = decision.timers
    again = run(on, timer.command)
    assert not again.sends
    assert again.timers == (Timer(("markers", "tid"), NOW + RETRY_MS, RetryMarkers("tid", 1)),)
    run(on, TopicsChanged(topics_of({A0: 1, A1: 2})))
    found = run(on, again.timers[0].command)
    assert {broker: m.partitions for broker, m in sent(found).items()} == {1: (A0,)}


def test_partitions_of_a_deleted_topic_need_no_marker() -> None:
    on = open_in(A0, A1, leaders={A0: 1})
    decision = run(on, COMMIT)
    assert {broker: m.partitions for broker, m in sent(decision).items()} == {1: (A0,)}
    assert waits_for(on) == {A0}
    assert states(run(on, all_written(decision.sends[0]))) == [State.COMPLETE_COMMIT]


def test_a_transaction_of_deleted_topics_is_complete_at_once() -> None:
    decision = run(open_in(A0, A1, leaders={}), COMMIT)
    assert states(decision) == [State.PREPARE_COMMIT, State.COMPLETE_COMMIT]
    assert not decision.sends


def test_a_topic_deleted_while_its_marker_is_tried_again_completes_the_transaction() -> None:
    on = open_in(A0)
    (send,) = run(on, COMMIT).sends
    (timer,) = run(on, all_written(send, Error.UNKNOWN_TOPIC_OR_PARTITION)).timers
    run(on, TopicsChanged({}))
    assert states(run(on, timer.command)) == [State.COMPLETE_COMMIT]


@pytest.mark.parametrize("error", [Error.UNSUPPORTED_FOR_MESSAGE_FORMAT, Error.UNSUPPORTED_VERSION])
def test_a_log_that_cannot_hold_markers_is_not_waited_for(error: Error) -> None:
    on = open_in(A0)
    (send,) = run(on, COMMIT).sends
    assert states(run(on, all_written(send, error))) == [State.COMPLETE_COMMIT]


@pytest.mark.parametrize(
    "error", [Error.INVALID_PRODUCER_EPOCH, Error.TRANSACTION_COORDINATOR_FENCED]
)
def test_a_marker_refused_for_somebody_newer_stops_the_sending_until_a_new_load(
    error: Error,
) -> None:
    on = open_in(A0, A1)
    to_1, to_2 = run(on, COMMIT).sends
    run(on, all_written(to_1, error))
    assert not run(on, all_written(to_2)).facts
    assert outcome(run(on, ResendMarkers(), NOW + SILENCE_MS)) == 0
    assert on.transactions["tid"].state is State.PREPARE_COMMIT


def test_answers_that_come_twice_or_for_another_transaction_are_ignored() -> None:
    on = open_in(A0)
    (send,) = run(on, COMMIT).sends
    answer = all_written(send)
    run(on, answer)
    assert not run(on, answer).facts
    assert not run(on, replace(answer, transactional_id="other")).facts
    # The same producer in the same epoch: only the round tells the transactions apart.
    on.apply(run(machine(ongoing(partitions=frozenset({A0}))), COMMIT).facts[0])
    assert not run(on, answer).facts
    assert on.transactions["tid"].state is State.PREPARE_COMMIT


def test_answers_to_an_earlier_coordinator_are_ignored() -> None:
    on = open_in(A0)
    (send,) = run(on, COMMIT).sends
    assert not run(on, replace(all_written(send), coordinator_epoch=EPOCH - 1)).facts


def test_after_silence_all_markers_are_sent_again_and_only_their_answers_count() -> None:
    on = open_in(A0, A1)
    to_1, to_2 = run(on, COMMIT).sends
    run(on, all_written(to_1))
    assert outcome(run(on, ResendMarkers(), NOW + SILENCE_MS - 1)) == 0
    again = run(on, ResendMarkers(), NOW + SILENCE_MS)
    assert outcome(again) == 1
    assert {broker: m.partitions for broker, m in sent(again).items()} == {2: (A1,)}
    # The first message may still be on its way: complete now, and it could end the next one.
    assert not run(on, all_written(to_2)).facts
    assert states(run(on, all_written(again.sends[0]))) == [State.COMPLETE_COMMIT]


def test_rounds_of_several_silent_transactions_are_kept_apart() -> None:
    names = ["gone", "one", "two"]
    leaders = {A0: 1, A1: 2}
    on = machine(
        *(
            transaction(
                State.PREPARE_COMMIT,
                transactional_id=name,
                partitions=frozenset({B0 if name == "gone" else A0}),
            )
            for name in names
        ),
        leaders=leaders,
    )
    decision = run(on, ResendMarkers())
    assert outcome(decision) == 3
    assert on.transactions["gone"].state is State.COMPLETE_COMMIT
    for send in decision.sends:
        assert states(run(on, all_written(send))) == [State.COMPLETE_COMMIT]
    assert not on.awaited


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_a_loaded_coordinator_sends_the_markers_of_what_was_decided(state: State) -> None:
    on = machine(
        transaction(state, client_version=VERSION_2),
        ongoing(transactional_id="open"),
        transaction(State.COMPLETE_COMMIT, transactional_id="done"),
    )
    loaded = run(on, Loaded(topics_of(LEADERS)))
    assert outcome(loaded) == 1
    # Each by itself: what one of them may have to write must not hold up the others.
    assert not moved(loaded)
    (timer,) = loaded.timers
    assert timer.at == NOW
    decision = run(on, timer.command)
    for message in sent(decision).values():
        assert message.committed is (state is State.PREPARE_COMMIT)
        assert (message.producer_epoch, message.coordinator_epoch) == (5, EPOCH)
        assert message.transaction_version == VERSION_2
    for send in decision.sends:
        run(on, all_written(send))
    complete = State.COMPLETE_COMMIT if state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
    assert on.transactions["tid"].state is complete
    assert on.transactions["open"].state is State.ONGOING


def test_answers_to_a_coordinator_that_was_loaded_anew_are_ignored() -> None:
    before = open_in(A0)
    run(before, Loaded(topics_of(LEADERS)))
    (send,) = run(before, COMMIT).sends
    on = machine(*before.transactions.values())
    (timer,) = run(on, Loaded(topics_of(LEADERS)), NOW + 1).timers
    (again,) = run(on, timer.command).sends
    assert not run(on, all_written(send)).facts
    assert states(run(on, all_written(again))) == [State.COMPLETE_COMMIT]


def test_a_timer_of_a_transaction_that_is_over_does_nothing() -> None:
    on = open_in(A0)
    (send,) = run(on, COMMIT).sends
    (timer,) = run(on, all_written(send, Error.REQUEST_TIMED_OUT)).timers
    run(on, all_written(send))
    assert on.decide(timer.command, NO_TOKEN, Now(WALL, NOW)) == NOTHING


def test_an_answer_about_partitions_nobody_asked_for_changes_nothing() -> None:
    on = open_in(A0)
    message = sent(run(on, COMMIT))[1]
    answer = MarkersWritten("tid", message.round, EPOCH, {B0: Error.NONE})
    assert not run(on, answer).facts
    assert waits_for(on) == {A0}


def test_a_new_coordinator_does_not_take_for_deleted_what_it_has_yet_to_hear_of() -> None:
    on = machine(transaction(State.PREPARE_COMMIT))
    (timer,) = run(on, Loaded({})).timers
    for step in range(3):
        decision = run(on, timer.command, NOW + step * RETRY_MS)
        assert states(decision) == [], "committed, and no marker anywhere"
        (timer,) = decision.timers
    run(on, TopicsChanged(topics_of(LEADERS)))
    decision = run(on, timer.command, NOW + 3 * RETRY_MS)
    for send in decision.sends:
        last = run(on, all_written(send))
    assert states(last) == [State.COMPLETE_COMMIT]


def test_what_a_coordinator_has_not_heard_of_for_long_is_deleted() -> None:
    on = machine(transaction(State.PREPARE_COMMIT))
    (timer,) = run(on, Loaded({})).timers
    decision = run(on, timer.command, NOW + TransactionSettings().introduced_ms)
    assert states(decision) == [State.COMPLETE_COMMIT]
