"""Roles, epochs, in-sync replicas and the high watermark, without any log."""

from __future__ import annotations

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.replication.partition import Partition

ORDERS = TopicPartition("orders", 0)


def image(
    leader: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    leader_epoch: int = 5,
) -> PartitionImage:
    return PartitionImage(leader, leader_epoch, replicas, replicas if isr is None else isr)


def leading(
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    offset_end: int = 0,
    high_watermark: int = 0,
    min_insync_replicas: int = 1,
) -> Partition:
    partition = Partition(
        ORDERS,
        1,
        offset_end=offset_end,
        high_watermark=high_watermark,
        min_insync_replicas=min_insync_replicas,
    )
    partition.change(image(replicas=replicas, isr=isr), now=0)
    return partition


def refusal(call: object, *arguments: object) -> Error:
    assert callable(call)
    with pytest.raises(ApiError) as caught:
        call(*arguments)
    return caught.value.error


def test_a_lone_replica_commits_what_it_writes_at_once() -> None:
    partition = leading(replicas=(1,))
    assert partition.appended(10)
    assert partition.high_watermark == 10


def test_a_lone_replica_that_starts_to_lead_has_committed_all_it_has() -> None:
    assert leading(replicas=(1,), offset_end=7).high_watermark == 7


def test_records_are_committed_only_when_every_in_sync_replica_has_them() -> None:
    partition = leading(offset_end=10)
    assert partition.follower_fetched(2, offset_end=10, now=0) == 0
    assert partition.follower_fetched(3, offset_end=10, now=0) == 10


def test_a_follower_out_of_sync_does_not_hold_back_the_high_watermark() -> None:
    partition = leading(isr=(1, 2), offset_end=10)
    assert partition.follower_fetched(2, offset_end=10, now=0) == 10


def test_the_high_watermark_never_goes_back_while_the_broker_leads() -> None:
    partition = leading(isr=(1, 2), offset_end=10)
    partition.follower_fetched(2, offset_end=10, now=0)
    assert partition.follower_fetched(2, offset_end=4, now=1) == 10


def test_the_high_watermark_stands_still_while_too_few_replicas_are_in_sync() -> None:
    partition = leading(isr=(1,), offset_end=10, min_insync_replicas=2)
    assert not partition.appended(12)
    assert partition.high_watermark == 0


def test_the_high_watermark_catches_up_when_the_topic_asks_for_fewer_replicas() -> None:
    partition = leading(isr=(1,), offset_end=10, min_insync_replicas=2)
    assert partition.require_in_sync(1)
    assert partition.high_watermark == 10


def test_a_write_that_wants_all_is_refused_while_too_few_replicas_are_in_sync() -> None:
    partition = leading(isr=(1,), min_insync_replicas=2)
    assert refusal(partition.check_in_sync) == Error.NOT_ENOUGH_REPLICAS


def test_a_topic_with_fewer_replicas_than_it_wants_in_sync_needs_all_it_has() -> None:
    leading(replicas=(1,), min_insync_replicas=2).check_in_sync()


def test_an_older_leader_epoch_is_fenced_and_a_newer_one_unknown() -> None:
    partition = leading()
    partition.check_leader(5)
    partition.check_leader(-1)
    assert refusal(partition.check_leader, 4) == Error.FENCED_LEADER_EPOCH
    assert refusal(partition.check_leader, 6) == Error.UNKNOWN_LEADER_EPOCH


def test_a_follower_refuses_what_only_a_leader_may_do() -> None:
    partition = Partition(ORDERS, 1)
    partition.change(image(leader=2), now=0)
    assert refusal(partition.check_leader) == Error.NOT_LEADER_OR_FOLLOWER
    assert refusal(partition.check_leader, 4) == Error.FENCED_LEADER_EPOCH


def test_only_a_replica_of_the_partition_may_fetch_as_a_follower() -> None:
    partition = leading(replicas=(1, 2))
    partition.check_follower(2, 5)
    assert refusal(partition.check_follower, 9, 5) == Error.UNKNOWN_LEADER_EPOCH
    assert refusal(partition.check_follower, 9, -1) == Error.NOT_LEADER_OR_FOLLOWER
    assert refusal(partition.check_follower, 1, 5) == Error.UNKNOWN_LEADER_EPOCH


def test_a_new_leader_epoch_forgets_how_far_followers_were() -> None:
    partition = leading(offset_end=10)
    partition.follower_fetched(2, offset_end=10, now=0)
    assert partition.change(image(leader_epoch=6), now=5)
    assert partition.followers()[2].offset_end == -1


def test_a_change_within_an_epoch_keeps_how_far_followers_are() -> None:
    partition = leading(offset_end=10)
    partition.follower_fetched(2, offset_end=10, now=0)
    assert not partition.change(image(isr=(1, 2)), now=5)
    assert partition.high_watermark == 10


def test_an_image_from_an_older_epoch_changes_nothing() -> None:
    partition = leading()
    assert not partition.change(image(leader=2, leader_epoch=4), now=5)
    assert partition.is_leader


def test_truncation_takes_the_high_watermark_along() -> None:
    partition = leading(replicas=(1,), offset_end=10)
    partition.truncated(6)
    assert (partition.offset_end, partition.high_watermark) == (6, 6)


def test_a_removed_replica_answers_nobody() -> None:
    partition = leading(replicas=(1,))
    partition.leave()
    assert refusal(partition.check_leader) == Error.NOT_LEADER_OR_FOLLOWER


def test_a_follower_that_stops_fetching_lags_after_the_allowed_time() -> None:
    partition = leading(offset_end=10)
    partition.follower_fetched(2, offset_end=10, now=0)
    partition.follower_fetched(3, offset_end=10, now=0)
    partition.appended(11)
    partition.follower_fetched(2, offset_end=11, now=900)
    assert partition.lagging(now=1000, lag_max_ms=1000) == frozenset()
    assert partition.lagging(now=1001, lag_max_ms=1000) == {3}


def test_a_follower_that_has_what_there_was_at_its_last_fetch_keeps_up() -> None:
    partition = leading(replicas=(1, 2), offset_end=10)
    partition.follower_fetched(2, offset_end=5, now=900)
    partition.appended(20)
    partition.follower_fetched(2, offset_end=10, now=1500)
    assert partition.lagging(now=1800, lag_max_ms=1000) == frozenset()


def test_a_reassignment_is_known_while_it_is_under_way() -> None:
    partition = leading()
    assert (partition.is_moving, partition.adding) == (False, ())
    partition.change(PartitionImage(1, 6, (1, 2, 4), (1, 2), 1, (4,), (2,)), now=0)
    assert (partition.is_moving, partition.adding) == (True, (4,))
    partition.change(PartitionImage(1, 7, (1, 4), (1, 4), 2), now=0)
    assert (partition.is_moving, partition.adding) == (False, ())
