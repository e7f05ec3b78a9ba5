"""Committing, fetching and deleting offsets, inside and outside transactions."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.groups import group_commands, group_facts
from moldau.groups.classic.classic_group import State
from moldau.groups.group_commands import OffsetRow, TopicOffsets
from moldau.groups.group_facts import Protocol
from moldau.groups.group_results import FetchedOffset
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from tests.support.group_coordinator import GROUP, WALL_START_MS, Coordinator, error_of

PLACE = TopicPartition("orders", 0)
OTHER = TopicPartition("payments", 0)
TOPIC_ID = b"t" * 16


def commit_in_transaction(
    coordinator: Coordinator, offset: int, producer_id: int = 7, **options: Any
) -> Any:
    return coordinator.ask(
        group_commands.CommitTransactionalOffsets(
            GROUP,
            producer_id,
            0,
            (OffsetRow(options.pop("place", PLACE), offset),),
            **options,
        )
    )


def end(coordinator: Coordinator, *, committed: bool, producer_id: int = 7) -> None:
    coordinator.ask(group_commands.EndTransaction(producer_id, 0, 0, committed))


def test_a_member_commits_and_finds_what_it_committed() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable()
    (row,) = coordinator.commit(42, member_id, 1, metadata="why")
    assert (row.place, row.error) == (PLACE, Error.NONE)
    assert coordinator.committed() == FetchedOffset(0, 42, 0, "why")


def test_a_consumer_without_a_group_protocol_makes_a_group_by_committing() -> None:
    coordinator = Coordinator()
    coordinator.commit(5)
    assert coordinator.group().state is State.EMPTY
    assert coordinator.group().protocol_type is None
    coordinator.restart()
    assert coordinator.committed().offset == 5


@pytest.mark.parametrize("error", [Error.ILLEGAL_GENERATION, Error.GROUP_ID_NOT_FOUND])
def test_a_member_of_an_unknown_group_is_told_what_its_client_knows(error: Error) -> None:
    answer = Coordinator().commit(5, "me", 3, unknown_group_error=error)
    assert error_of(answer) is error


def test_commits_of_others_than_current_members_are_refused() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable()
    assert error_of(coordinator.commit(5, "stranger", 1)) is Error.UNKNOWN_MEMBER_ID
    assert error_of(coordinator.commit(5, member_id, 0)) is Error.ILLEGAL_GENERATION
    assert error_of(coordinator.commit(5, member_id, -1)) is Error.ILLEGAL_GENERATION
    assert error_of(coordinator.commit(5)) is Error.UNKNOWN_MEMBER_ID
    assert error_of(coordinator.commit(5, instance_id="i")) is Error.UNKNOWN_MEMBER_ID
    assert coordinator.committed() == FetchedOffset(0)


def test_a_group_without_members_takes_commits_of_anybody_without_a_generation() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable()
    coordinator.leave(member_id)
    assert coordinator.commit(6)[0].error is Error.NONE
    assert error_of(coordinator.commit(7, member_id, 1)) is Error.UNKNOWN_MEMBER_ID


def test_a_member_commits_while_it_is_to_join_again_but_not_before_it_has_synced() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable()
    coordinator.join()
    assert coordinator.commit(5, member_id, 1)[0].error is Error.NONE
    coordinator.join(member_id)
    assert coordinator.group().state is State.COMPLETING_REBALANCE
    assert error_of(coordinator.commit(6, member_id, 2)) is Error.REBALANCE_IN_PROGRESS
    assert coordinator.committed().offset == 5


def test_a_note_that_is_too_long_is_refused_without_the_other_rows() -> None:
    coordinator = Coordinator(offset_metadata_max_bytes=4)
    rows = (OffsetRow(PLACE, 1, metadata="12345"), OffsetRow(OTHER, 2, metadata="1234"))
    first, second = coordinator.ask(group_commands.CommitOffsets(GROUP, rows))
    assert (first.error, second.error) == (Error.OFFSET_METADATA_TOO_LARGE, Error.NONE)
    assert list(coordinator.machine.offsets.of_group(GROUP)) == [OTHER]


def test_a_refused_commit_leaves_no_group_behind() -> None:
    coordinator = Coordinator(offset_metadata_max_bytes=4)
    coordinator.commit(1, metadata="12345")
    assert not coordinator.machine.groups


def test_old_clients_say_how_long_their_offsets_are_kept() -> None:
    coordinator = Coordinator()
    coordinator.commit(1, retention_ms=500)
    (fact,) = coordinator.happened(group_facts.OffsetsCommitted)
    assert fact.offsets[0][1].expire_timestamp_ms == WALL_START_MS + 500


def test_fetching_everything_tells_what_the_group_has() -> None:
    coordinator = Coordinator()
    coordinator.commit(1, place=PLACE)
    coordinator.commit(2, place=OTHER)
    coordinator.commit(3, place=TopicPartition("orders", 4))
    topics = coordinator.ask(group_commands.FetchOffsets(GROUP, None))
    told = {(topic.topic, row.partition): row.offset for topic in topics for row in topic.offsets}
    assert told == {("orders", 0): 1, ("payments", 0): 2, ("orders", 4): 3}


def test_what_was_never_committed_is_told_as_minus_one() -> None:
    coordinator = Coordinator()
    asked = (TopicOffsets("orders", (0, 9), TOPIC_ID),)
    (topic,) = coordinator.ask(group_commands.FetchOffsets("nobody", asked))
    assert topic.topic_id == TOPIC_ID
    assert topic.offsets == (FetchedOffset(0), FetchedOffset(9))
    assert coordinator.ask(group_commands.FetchOffsets("nobody", None)) == ()


def test_offsets_of_a_topic_that_was_made_anew_are_not_told() -> None:
    coordinator = Coordinator()
    row = OffsetRow(PLACE, 8, topic_id=TOPIC_ID)
    coordinator.ask(group_commands.CommitOffsets(GROUP, (row,)))
    for topic_id, offset in ((TOPIC_ID, 8), (bytes(16), 8), (b"n" * 16, -1)):
        asked = (TopicOffsets("orders", (0,), topic_id),)
        (topic,) = coordinator.ask(group_commands.FetchOffsets(GROUP, asked))
        assert topic.offsets[0].offset == offset


def test_offsets_in_a_transaction_count_when_it_is_committed() -> None:
    coordinator = Coordinator()
    coordinator.commit(1)
    commit_in_transaction(coordinator, 2)
    assert coordinator.committed().offset == 1
    end(coordinator, committed=True)
    assert coordinator.committed().offset == 2


def test_offsets_in_an_aborted_transaction_never_count() -> None:
    coordinator = Coordinator()
    coordinator.commit(1)
    commit_in_transaction(coordinator, 2)
    end(coordinator, committed=False)
    end(coordinator, committed=True)
    assert coordinator.committed().offset == 1


def test_who_asks_for_stable_offsets_is_told_to_wait_for_the_transaction() -> None:
    coordinator = Coordinator()
    coordinator.commit(1)
    commit_in_transaction(coordinator, 2)
    unstable = coordinator.committed(require_stable=True)
    assert unstable == FetchedOffset(0, error=Error.UNSTABLE_OFFSET_COMMIT)
    assert coordinator.committed(5, require_stable=True) == FetchedOffset(5)
    (topic,) = coordinator.ask(group_commands.FetchOffsets(GROUP, None, require_stable=True))
    assert topic.offsets[0].error is Error.UNSTABLE_OFFSET_COMMIT
    end(coordinator, committed=True)
    assert coordinator.committed(require_stable=True).offset == 2


def test_a_later_commit_outside_the_transaction_is_not_undone_by_its_end() -> None:
    coordinator = Coordinator()
    commit_in_transaction(coordinator, 2)
    coordinator.commit(9)
    end(coordinator, committed=True)
    assert coordinator.committed().offset == 9


def test_transactions_of_several_producers_do_not_mix() -> None:
    coordinator = Coordinator()
    commit_in_transaction(coordinator, 2, producer_id=1)
    commit_in_transaction(coordinator, 3, producer_id=2, place=OTHER)
    end(coordinator, producer_id=1, committed=True)
    end(coordinator, producer_id=2, committed=False)
    placed = coordinator.machine.offsets.of_group(GROUP)
    assert {place: stored.value.offset for place, stored in placed.items()} == {PLACE: 2}
    assert not coordinator.machine.offsets.is_in_transaction(GROUP)


def test_open_transactions_survive_a_restart() -> None:
    coordinator = Coordinator()
    commit_in_transaction(coordinator, 2)
    coordinator.restart()
    assert coordinator.committed(require_stable=True).error is Error.UNSTABLE_OFFSET_COMMIT
    end(coordinator, committed=True)
    coordinator.restart()
    assert coordinator.committed(require_stable=True).offset == 2


def test_a_transaction_commits_for_current_members_only() -> None:
    coordinator = Coordinator()
    assert error_of(commit_in_transaction(coordinator, 1, generation=1)) is (
        Error.ILLEGAL_GENERATION
    )
    (member_id,) = coordinator.stable()
    refused = commit_in_transaction(coordinator, 1, generation=0, member_id=member_id)
    assert error_of(refused) is Error.ILLEGAL_GENERATION
    refused = commit_in_transaction(coordinator, 1, generation=1, member_id="stranger")
    assert error_of(refused) is Error.UNKNOWN_MEMBER_ID
    taken = commit_in_transaction(coordinator, 1, generation=1, member_id=member_id)
    assert taken[0].error is Error.NONE


def test_an_older_producer_that_names_no_member_may_commit_for_any_group() -> None:
    coordinator = Coordinator()
    coordinator.stable()
    assert commit_in_transaction(coordinator, 1)[0].error is Error.NONE


def test_a_transaction_may_commit_in_the_middle_of_a_rebalance() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable()
    coordinator.join()
    coordinator.join(member_id)
    assert coordinator.group().state is State.COMPLETING_REBALANCE
    taken = commit_in_transaction(coordinator, 1, generation=2, member_id=member_id)
    assert taken[0].error is Error.NONE


def test_a_note_that_is_too_long_is_refused_in_a_transaction_too() -> None:
    coordinator = Coordinator(offset_metadata_max_bytes=4)
    row = OffsetRow(PLACE, 1, metadata="12345")
    (answer,) = coordinator.ask(group_commands.CommitTransactionalOffsets(GROUP, 7, 0, (row,)))
    assert answer.error is Error.OFFSET_METADATA_TOO_LARGE
    assert not coordinator.machine.offsets.is_in_transaction(GROUP)


def test_offsets_are_deleted_unless_a_member_reads_the_topic() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable()
    coordinator.commit(1, member_id, 1, place=PLACE)
    coordinator.commit(2, member_id, 1, place=OTHER)
    unknown = TopicPartition("payments", 7)
    rows = coordinator.ask(group_commands.DeleteOffsets(GROUP, (PLACE, OTHER, unknown)))
    assert [row.error for row in rows] == [
        Error.GROUP_SUBSCRIBED_TO_TOPIC,
        Error.NONE,
        Error.NONE,
    ]
    assert coordinator.happened(group_facts.OffsetsRemoved) == [
        group_facts.OffsetsRemoved(GROUP, (OTHER,))
    ]


def test_offsets_of_consumers_that_speak_unintelligibly_are_not_deleted() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable(protocols=(Protocol("range", b"?"),))
    coordinator.commit(1, member_id, 1)
    (row,) = coordinator.ask(group_commands.DeleteOffsets(GROUP, (PLACE,)))
    assert row.error is Error.GROUP_SUBSCRIBED_TO_TOPIC


def test_offsets_of_other_protocols_are_deleted_only_when_nobody_is_there() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable(protocol_type="connect")
    coordinator.commit(1, member_id, 1)
    delete = group_commands.DeleteOffsets(GROUP, (PLACE,))
    assert error_of(coordinator.ask(delete)) is Error.NON_EMPTY_GROUP
    coordinator.leave(member_id)
    assert coordinator.ask(delete)[0].error is Error.NONE
    assert coordinator.committed().offset == -1


def test_offsets_of_an_unknown_group_cannot_be_deleted() -> None:
    answer = Coordinator().ask(group_commands.DeleteOffsets(GROUP, (PLACE,)))
    assert error_of(answer) is Error.GROUP_ID_NOT_FOUND


def test_deleting_an_offset_takes_it_out_of_open_transactions() -> None:
    coordinator = Coordinator()
    commit_in_transaction(coordinator, 2)
    coordinator.ask(group_commands.DeleteOffsets(GROUP, (PLACE,)))
    assert coordinator.committed(require_stable=True).error is Error.NONE
    end(coordinator, committed=True)
    assert coordinator.committed().offset == -1
