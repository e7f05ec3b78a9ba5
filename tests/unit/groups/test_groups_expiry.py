"""When offsets and groups are forgotten."""

from __future__ import annotations

import pytest

from moldau.groups import group_commands, group_facts, offset_expiry
from moldau.groups.group_commands import DeletedTopic, OffsetRow
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from tests.support.group_coordinator import GROUP, Coordinator, error_of

RETENTION_MS = 1_000_000
PLACE = TopicPartition("orders", 0)
OTHER = TopicPartition("payments", 0)


def coordinator() -> Coordinator:
    return Coordinator(offsets_retention_ms=RETENTION_MS)


def expire_after(coordinator: Coordinator, delay_ms: int) -> None:
    coordinator.wall_step_ms = delay_ms
    coordinator.ask(group_commands.ExpireOffsets())
    coordinator.wall_step_ms = 0


def test_a_group_that_became_empty_keeps_its_offsets_for_the_retention_time() -> None:
    readers = coordinator()
    (member_id,) = readers.stable()
    readers.commit(5, member_id, 1)
    readers.pass_ms(5_000)
    readers.leave(member_id)
    expire_after(readers, RETENTION_MS - 1)
    assert readers.committed().offset == 5
    expire_after(readers, RETENTION_MS)
    assert readers.committed().offset == -1
    assert readers.happened(group_facts.GroupDeleted) == [group_facts.GroupDeleted(GROUP, 2)]
    readers.restart()
    assert not readers.machine.groups


def test_offsets_of_a_working_group_are_kept_however_old_they_are() -> None:
    readers = coordinator()
    (member_id,) = readers.stable()
    readers.commit(5, member_id, 1)
    expire_after(readers, 10 * RETENTION_MS)
    assert readers.committed().offset == 5


def test_offsets_of_topics_that_no_member_reads_any_more_expire() -> None:
    readers = coordinator()
    (member_id,) = readers.stable()
    readers.commit(5, member_id, 1, place=OTHER)
    readers.commit(6, member_id, 1, place=PLACE)
    expire_after(readers, RETENTION_MS)
    assert list(readers.machine.offsets.of_group(GROUP)) == [PLACE]
    assert readers.group().members


def test_nothing_expires_during_a_rebalance() -> None:
    readers = coordinator()
    (member_id,) = readers.stable()
    readers.commit(5, member_id, 1, place=OTHER)
    readers.join()
    expire_after(readers, RETENTION_MS)
    assert readers.machine.offsets.of_group(GROUP)


def test_nothing_of_other_protocols_expires_while_there_are_members() -> None:
    readers = coordinator()
    (member_id,) = readers.stable(protocol_type="connect")
    readers.commit(5, member_id, 1)
    expire_after(readers, RETENTION_MS)
    assert readers.committed().offset == 5


def test_offsets_of_a_group_without_members_expire_one_by_one_after_their_commit() -> None:
    simple = coordinator()
    simple.commit(1, place=PLACE)
    simple.pass_ms(500_000)
    simple.commit(2, place=OTHER)
    expire_after(simple, RETENTION_MS - 500_000)
    assert list(simple.machine.offsets.of_group(GROUP)) == [OTHER]
    expire_after(simple, RETENTION_MS)
    assert not simple.machine.groups


def test_an_offset_with_a_time_of_its_own_expires_then() -> None:
    simple = coordinator()
    simple.commit(1, retention_ms=500)
    expire_after(simple, 499)
    assert simple.committed().offset == 1
    expire_after(simple, 500)
    assert simple.committed().offset == -1


def test_offsets_in_an_open_transaction_keep_the_group() -> None:
    readers = coordinator()
    readers.commit(1)
    row = OffsetRow(PLACE, 2)
    readers.ask(group_commands.CommitTransactionalOffsets(GROUP, 7, 0, (row,)))
    expire_after(readers, RETENTION_MS)
    assert readers.committed().offset == 1
    readers.ask(group_commands.EndTransaction(7, 0, 0, committed=False))
    expire_after(readers, RETENTION_MS)
    assert not readers.machine.groups


def test_a_group_that_somebody_is_about_to_join_is_kept() -> None:
    readers = coordinator()
    readers.join(new_member_id="c-1", member_id_required=True)
    expire_after(readers, RETENTION_MS)
    assert "c-1" in readers.group().pending


def test_many_offsets_expire_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_expiry, "REMOVALS_MAX", 3)
    readers = coordinator()
    for number in range(4):
        for partition in range(2):
            place = TopicPartition("orders", partition)
            readers.commit(1, place=place, group_id=f"group{number}")
    readers.wall_step_ms = RETENTION_MS
    readers.ask(group_commands.ExpireOffsets())
    assert len(readers.machine.groups) == 3
    readers.pass_ms(0)
    assert not readers.machine.groups
    assert not readers.machine.offsets.committed
    assert not readers.timers


def test_offsets_of_deleted_topics_are_forgotten() -> None:
    readers = coordinator()
    old, new = b"o" * 16, b"n" * 16
    rows = (
        OffsetRow(PLACE, 1, topic_id=old),
        OffsetRow(TopicPartition("orders", 1), 1, topic_id=new),
        OffsetRow(TopicPartition("orders", 2), 1),
        OffsetRow(OTHER, 1, topic_id=old),
    )
    readers.ask(group_commands.CommitOffsets(GROUP, rows))
    in_transaction = OffsetRow(TopicPartition("orders", 3), 1, topic_id=old)
    readers.ask(group_commands.CommitTransactionalOffsets(GROUP, 7, 0, (in_transaction,)))
    readers.ask(group_commands.ForgetTopics((DeletedTopic("orders", old),)))
    assert list(readers.machine.offsets.of_group(GROUP)) == [TopicPartition("orders", 1), OTHER]
    assert not readers.machine.offsets.is_in_transaction(GROUP)


def test_very_many_offsets_of_a_deleted_topic_are_forgotten_in_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offset_expiry, "REMOVALS_MAX", 3)
    readers = coordinator()
    rows = tuple(OffsetRow(TopicPartition("orders", n), 1) for n in range(5))
    for group_id in ("a", "b"):
        readers.ask(group_commands.CommitOffsets(group_id, (*rows, OffsetRow(OTHER, 1))))
    # The same places once more: they are removed together with what is committed there.
    readers.ask(group_commands.CommitTransactionalOffsets("a", 7, 0, rows))
    readers.ask(group_commands.ForgetTopics((DeletedTopic("orders", b"o" * 16),)))
    removed = readers.happened(group_facts.OffsetsRemoved)
    assert sum(len(fact.places) for fact in removed) == 3
    for _ in range(5):
        readers.pass_ms(0)
    assert not readers.timers
    for group_id in ("a", "b"):
        assert list(readers.machine.offsets.of_group(group_id)) == [OTHER]
    assert not readers.machine.offsets.is_in_transaction("a")


def test_a_group_with_very_many_offsets_is_deleted_in_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offset_expiry, "REMOVALS_MAX", 3)
    readers = coordinator()
    rows = tuple(OffsetRow(TopicPartition("orders", n), 1) for n in range(7))
    readers.ask(group_commands.CommitOffsets(GROUP, rows))
    assert readers.ask(group_commands.DeleteGroup(GROUP)) is False
    readers.restart()
    assert len(readers.machine.offsets.of_group(GROUP)) == 4
    assert readers.ask(group_commands.DeleteGroup(GROUP)) is False
    assert readers.ask(group_commands.DeleteGroup(GROUP)) is True
    assert not readers.machine.groups
    readers.restart()
    assert not readers.machine.groups


def test_a_group_is_deleted_on_request_with_all_that_it_had() -> None:
    readers = coordinator()
    readers.commit(1)
    row = OffsetRow(OTHER, 2)
    readers.ask(group_commands.CommitTransactionalOffsets(GROUP, 7, 0, (row,)))
    readers.join(new_member_id="c-1", member_id_required=True)
    assert readers.ask(group_commands.DeleteGroup(GROUP)) is True
    assert not readers.machine.groups
    assert not readers.timers
    readers.restart()
    assert not readers.machine.groups
    readers.ask(group_commands.EndTransaction(7, 0, 0, committed=True))
    assert readers.committed().offset == -1


def test_only_empty_groups_can_be_deleted() -> None:
    readers = coordinator()
    assert error_of(readers.ask(group_commands.DeleteGroup(GROUP))) is Error.GROUP_ID_NOT_FOUND
    readers.stable()
    assert error_of(readers.ask(group_commands.DeleteGroup(GROUP))) is Error.NON_EMPTY_GROUP


def test_a_deleted_group_starts_again_from_nothing() -> None:
    readers = coordinator()
    (member_id,) = readers.stable()
    readers.leave(member_id)
    readers.ask(group_commands.DeleteGroup(GROUP))
    token = readers.join()
    readers.pass_ms(3_000)
    assert readers.answers[token].generation == 1


def test_an_offset_that_is_to_be_kept_longer_than_time_can_tell_is_kept_for_ever() -> None:
    simple = coordinator()
    simple.commit(1, retention_ms=2**63 - 1)
    expire_after(simple, 100 * RETENTION_MS)
    assert simple.committed().offset == 1
    simple.restart()
    assert simple.committed().offset == 1
