"""The ISR with a change of it under way: what counts for the high watermark, and who decides."""

from __future__ import annotations

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.replication.in_sync_replicas import AfterRefusal, IsrAnswer, IsrProposal
from moldau.replication.partition import Partition

ID = bytes(16)
LAG_MS = 1_000


def leading(
    *isr: int, offset_end: int = 10, high_watermark: int = 0, min_insync_replicas: int = 1
) -> Partition:
    partition = Partition(
        TopicPartition("t", 0),
        1,
        offset_end=offset_end,
        high_watermark=high_watermark,
        lag_max_ms=LAG_MS,
        min_insync_replicas=min_insync_replicas,
    )
    partition.change(PartitionImage(1, 5, (1, 2, 3), isr, 20), now=0)
    return partition


def granted(proposal: IsrProposal, partition_epoch: int = 21) -> IsrAnswer:
    return IsrAnswer(Error.NONE, proposal.leader_epoch, partition_epoch, proposal.isr)


def test_a_follower_may_join_when_it_has_what_is_committed_and_what_the_epoch_began_with() -> None:
    partition = leading(1, offset_end=10, high_watermark=4)
    partition.follower_fetched(2, 9, now=1)
    assert not partition.may_join(2)
    partition.follower_fetched(2, 10, now=2)
    assert partition.may_join(2)


def test_who_is_proposed_counts_before_the_controller_has_answered() -> None:
    partition = leading(1)
    partition.follower_fetched(2, 10, now=0)
    partition.propose_join(2, ID, now=0)
    assert not partition.appended(15)
    assert partition.isr == {1}
    assert partition.follower_fetched(2, 15, now=1) == 15


def test_one_change_is_under_way_at_a_time() -> None:
    partition = leading(1)
    partition.follower_fetched(2, 10, now=0)
    partition.follower_fetched(3, 10, now=0)
    proposal = partition.propose_join(2, ID, now=0)
    assert not partition.may_join(3)
    assert partition.answered(proposal, granted(proposal), now=1) is None
    assert partition.isr == {1, 2}
    assert partition.partition_epoch == 21
    assert partition.may_join(3)


def test_who_is_to_leave_counts_until_the_controller_agrees() -> None:
    partition = leading(1, 2, 3)
    partition.follower_fetched(2, 10, now=0)
    partition.appended(12)
    partition.follower_fetched(2, 12, now=LAG_MS + 1)
    lagging = partition.lagging(LAG_MS + 1, LAG_MS)
    assert lagging == {3}
    proposal = partition.propose_shrink(lagging, ID)
    assert proposal.isr == (1, 2)
    assert partition.high_watermark == 0
    partition.answered(proposal, granted(proposal), now=LAG_MS + 2)
    assert partition.high_watermark == 12


def test_a_lone_leader_commits_once_the_others_have_left() -> None:
    partition = leading(1, 2, 3)
    proposal = partition.propose_shrink(partition.lagging(LAG_MS + 1, LAG_MS), ID)
    assert proposal.isr == (1,)
    partition.answered(proposal, granted(proposal), now=LAG_MS + 1)
    assert partition.high_watermark == 10


def test_a_follower_that_is_level_never_lags_however_long_nothing_was_written() -> None:
    partition = leading(1, 2)
    partition.follower_fetched(2, 10, now=0)
    assert partition.lagging(10 * LAG_MS, LAG_MS) == frozenset()


def test_a_refusal_that_was_surely_not_applied_is_taken_back() -> None:
    partition = leading(1)
    partition.follower_fetched(2, 10, now=0)
    proposal = partition.propose_join(2, ID, now=0)
    answer = IsrAnswer(Error.INELIGIBLE_REPLICA)
    assert partition.answered(proposal, answer, now=0) is AfterRefusal.REVERT
    assert not partition.is_isr_pending
    assert not partition.may_join(2)
    partition.follower_fetched(2, 10, now=1)
    assert partition.may_join(2)


def test_writes_do_not_wait_for_a_follower_that_may_not_join() -> None:
    """It died while its joining was proposed, a moment after it had caught up."""
    partition = leading(1)
    partition.follower_fetched(2, 10, now=0)
    proposal = partition.propose_join(2, ID, now=0)
    assert not partition.appended(12)
    assert not partition.look_again(0, gone=(2,)), "it counts while it may have joined"
    partition.answered(proposal, IsrAnswer(Error.INELIGIBLE_REPLICA), now=0)
    assert partition.high_watermark == 12


@pytest.mark.parametrize(
    "error", [Error.INVALID_UPDATE_VERSION, Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_TOPIC_ID]
)
def test_a_refusal_for_being_out_of_date_waits_for_the_next_role(error: Error) -> None:
    partition = leading(1)
    partition.follower_fetched(2, 10, now=0)
    proposal = partition.propose_join(2, ID, now=0)
    assert partition.answered(proposal, IsrAnswer(error), now=0) is AfterRefusal.AWAIT
    assert partition.is_isr_pending
    assert not partition.appended(12)
    partition.change(PartitionImage(1, 5, (1, 2, 3), (1,), 25), now=1)
    assert not partition.is_isr_pending


def test_other_errors_are_tried_again() -> None:
    partition = leading(1)
    partition.follower_fetched(2, 10, now=0)
    proposal = partition.propose_join(2, ID, now=0)
    answer = IsrAnswer(Error.UNKNOWN_SERVER_ERROR)
    assert partition.answered(proposal, answer, now=0) is AfterRefusal.RETRY


def test_an_answer_that_comes_after_a_new_role_changes_nothing() -> None:
    partition = leading(1)
    partition.follower_fetched(2, 10, now=0)
    proposal = partition.propose_join(2, ID, now=0)
    partition.change(PartitionImage(1, 6, (1, 2, 3), (1, 3), 30), now=1)
    assert partition.answered(proposal, granted(proposal), now=2) is None
    assert partition.isr == {1, 3}
    assert partition.partition_epoch == 30


@pytest.mark.parametrize("error", [Error.NONE, Error.INELIGIBLE_REPLICA, Error.UNKNOWN_TOPIC_ID])
def test_an_answer_that_comes_after_the_replica_was_taken_away_commits_nothing(
    error: Error,
) -> None:
    partition = leading(1, 3)
    partition.follower_fetched(2, 10, now=0)
    proposal = partition.propose_join(2, ID, now=0)
    assert not partition.appended(15)
    before = partition.high_watermark
    partition.leave()
    answer = granted(proposal)._replace(error=error)
    assert partition.answered(proposal, answer, now=1) is None
    assert partition.high_watermark == before < 15
    assert not partition.is_isr_pending


def test_a_role_that_is_older_than_an_answer_changes_nothing() -> None:
    partition = leading(1)
    partition.follower_fetched(2, 10, now=0)
    proposal = partition.propose_join(2, ID, now=0)
    partition.answered(proposal, granted(proposal), now=1)
    assert not partition.change(PartitionImage(1, 5, (1, 2, 3), (1,), 20), now=2)
    assert partition.isr == {1, 2}


def test_a_role_that_says_nothing_new_leaves_a_proposal_under_way() -> None:
    # The controller may yet grant it: to commit without the one that joins could lose records.
    partition = leading(1)
    partition.follower_fetched(2, 10, now=0)
    proposal = partition.propose_join(2, ID, now=0)
    partition.appended(15)
    partition.change(PartitionImage(1, 5, (1, 2, 3), (1,), 20), now=LAG_MS + 1)
    partition.look_again(2 * LAG_MS + 2)
    assert partition.high_watermark == 10
    assert partition.answered(proposal, granted(proposal), now=2 * LAG_MS + 3) is None
    assert partition.isr == {1, 2}
    partition.change(PartitionImage(1, 5, (1, 2, 3), (1,), 22), now=3 * LAG_MS)
    assert partition.high_watermark == 15


def test_a_follower_that_keeps_up_holds_back_the_watermark_until_it_can_join() -> None:
    # Or under steady writes a leader alone in the ISR would run away from everybody.
    partition = leading(1, offset_end=10)
    partition.follower_fetched(2, 10, now=0)
    partition.appended(20)
    assert partition.high_watermark == 10
    assert partition.look_again(LAG_MS + 1)
    assert partition.high_watermark == 20


def test_a_follower_whose_broker_is_gone_holds_back_nothing() -> None:
    partition = leading(1, offset_end=10)
    partition.follower_fetched(2, 10, now=0)
    partition.appended(20)
    assert partition.look_again(1, gone=[2])
    assert partition.high_watermark == 20


def test_the_refusal_for_too_few_in_sync_names_them() -> None:
    partition = leading(1, min_insync_replicas=2)
    with pytest.raises(ApiError) as caught:
        partition.check_in_sync()
    assert caught.value.error is Error.NOT_ENOUGH_REPLICAS
    assert caught.value.message == (
        "The size of the current ISR Set(1) is insufficient to satisfy the min.isr requirement "
        "of 2 for partition t-0"
    )


def test_a_followers_watermark_never_goes_back_but_by_truncation() -> None:
    partition = Partition(TopicPartition("t", 0), 1)
    partition.change(PartitionImage(2, 5, (1, 2), (1, 2)), now=0)
    assert partition.followed(10, 8)
    # A new leader may know less than the one before it did.
    assert not partition.followed(12, 5)
    assert partition.high_watermark == 8
    partition.truncated(7)
    assert partition.high_watermark == 7
