"""Brokers that replicate from one another over real sockets, told what to do by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.replication.replica_roles import Role
from moldau.storage.directories.log_store import LogStore
from moldau.storage.storage_faults import StorageFault
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.replication import (
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataRequest,
)
from moldau.wire.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.played_cluster import CONTROLLER, PlayedCluster, play, topic_id_of, until
from tests.support.services import batch

PRODUCE_VERSION = 12


async def produce(
    cluster: PlayedCluster, broker: int, *values: bytes, acks: int = -1, timeout_ms: int = 5000
) -> tuple[Error, int]:
    data = PartitionProduceData(index=0, records=batch(*values))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )
    answer = await cluster.call(broker, request, PRODUCE_VERSION)
    row = answer.responses[0].partition_responses[0]
    return Error(row.error_code), row.base_offset


def ends(cluster: PlayedCluster) -> list[int]:
    return [broker.replica().log.offset_end for broker in cluster.brokers.values()]


def watermarks(cluster: PlayedCluster) -> list[int]:
    return [broker.replica().partition.high_watermark for broker in cluster.brokers.values()]


def test_a_write_with_acks_all_is_answered_when_every_replica_has_it(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        assert set((await cluster.lead(0, 0)).values()) == {Error.NONE}
        assert await produce(cluster, 0, b"a", b"b") == (Error.NONE, 0)
        assert ends(cluster) == [2, 2, 2]

    play(scenario, tmp_path)


def test_followers_learn_the_high_watermark_soon_without_another_write(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        await produce(cluster, 0, b"a")
        began = asyncio.get_running_loop().time()
        await until(lambda: watermarks(cluster) == [1, 1, 1])
        assert asyncio.get_running_loop().time() - began < 5

    # So that only the leader's own haste can bring the news in time.
    play(scenario, tmp_path, replica_fetch_wait_max_ms="20000")


def test_only_the_leader_takes_writes(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        assert (await produce(cluster, 1, b"a"))[0] is Error.NOT_LEADER_OR_FOLLOWER

    play(scenario, tmp_path)


def test_the_next_leader_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        for number in range(20):
            error, _ = await produce(cluster, 0, b"%d" % number)
            assert error is Error.NONE
        await cluster.stop_broker(0, cleanly=False)
        await cluster.lead(1, 1, isr=(1, 2))
        assert await produce(cluster, 1, b"after") == (Error.NONE, 20)
        assert ends(cluster) == [21, 21]

    play(scenario, tmp_path)


def test_a_leader_that_comes_back_drops_what_was_never_committed(tmp_path: Path) -> None:
    """KIP-101: logs that parted become the same again, by epochs and not by watermarks."""

    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        await produce(cluster, 0, b"kept")
        for broker in (1, 2):
            cluster.brokers[broker].fetchers.unfollow([TopicPartition("t", 0)])
        assert await produce(cluster, 0, b"lost", b"lost", acks=1) == (Error.NONE, 1)
        await cluster.lead(1, 1, isr=(1, 2), to=(1, 2))
        assert await produce(cluster, 1, b"new") == (Error.NONE, 1)
        await cluster.lead(1, 2, isr=(1, 2))
        await until(lambda: ends(cluster) == [2, 2, 2], "the old leader follows")
        logs = [
            (tmp_path / str(node) / "t-0" / ("0" * 20 + ".log")).read_bytes() for node in (0, 1, 2)
        ]
        assert b"lost" not in logs[0]
        assert logs[0] == logs[1] == logs[2]

    play(scenario, tmp_path)


def test_a_follower_that_restarts_keeps_what_was_committed(tmp_path: Path) -> None:
    """KIP-101's loss: a follower that forgot its high watermark must not truncate to it, or its
    leader's death would take acknowledged records with it."""

    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0, replicas=(0, 1))
        await produce(cluster, 0, b"a", b"b")
        await cluster.stop_broker(1, cleanly=False)
        cluster.start_broker(1)
        await cluster.lead(0, 1, replicas=(0, 1))
        await cluster.stop_broker(0, cleanly=False)
        await cluster.lead(1, 2, replicas=(0, 1), isr=(1,))
        assert cluster.brokers[1].replica().log.offset_end == 2
        assert await produce(cluster, 1, b"c") == (Error.NONE, 2)

    play(scenario, tmp_path, size=2)


def test_an_epoch_in_which_nothing_was_written_does_not_confuse_the_next_leader(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        await produce(cluster, 0, b"a")
        await cluster.lead(1, 1)
        await cluster.lead(2, 2)
        assert await produce(cluster, 2, b"b") == (Error.NONE, 1)
        assert ends(cluster) == [2, 2, 2]

    play(scenario, tmp_path)


def test_a_replica_out_of_sync_is_proposed_for_the_isr_once_it_has_caught_up(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0, isr=(0,))
        await until(lambda: len(cluster.brokers[0].replica().partition.isr) == 3)
        assert cluster.proposals[0][0] == TopicPartition("t", 0)
        assert set(cluster.proposals[-1][1]) == {0, 1, 2}

    play(scenario, tmp_path)


def test_a_follower_that_is_cut_off_leaves_the_isr_and_writes_go_on(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        await produce(cluster, 0, b"a")
        await cluster.stop_broker(2)
        leader = cluster.brokers[0]
        waiting = asyncio.create_task(produce(cluster, 0, b"b", timeout_ms=20_000))
        while 2 in leader.replica().partition.isr:
            leader.isr_sender.shrink(leader.replicas)
            await asyncio.sleep(0.05)
        assert await waiting == (Error.NONE, 1)
        assert leader.replica().partition.isr == {0, 1}

    play(scenario, tmp_path, replica_lag_time_max_ms="300", replica_fetch_wait_max_ms="100")


def test_too_few_replicas_in_sync_refuse_a_write_that_wants_all(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.stop_broker(1)
        await cluster.stop_broker(2)
        await cluster.lead(0, 0, isr=(0,))
        assert (await produce(cluster, 0, b"a"))[0] is Error.NOT_ENOUGH_REPLICAS
        assert await produce(cluster, 0, b"a", acks=1) == (Error.NONE, 0)
        assert watermarks(cluster) == [0]

    play(scenario, tmp_path, min_insync_replicas="2")


def test_an_isr_change_that_the_controller_refuses_is_taken_back(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        cluster.refuse_with = Error.INELIGIBLE_REPLICA
        await cluster.lead(0, 0, isr=(0,))
        await until(lambda: len(cluster.proposals) > 1)
        assert cluster.brokers[0].replica().partition.isr == {0}

    play(scenario, tmp_path, replica_fetch_wait_max_ms="50")


def test_an_empty_replica_is_filled_from_the_start(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0, replicas=(0,))
        for number in range(50):
            await produce(cluster, 0, b"%d" % number * 1000)
        await cluster.lead(0, 1, replicas=(0, 1), isr=(0,))
        await until(lambda: ends(cluster) == [50, 50])
        await until(lambda: cluster.brokers[0].replica().partition.isr == {0, 1})

    play(scenario, tmp_path, size=2, replica_fetch_max_bytes="3000")


def test_a_follower_behind_the_leaders_first_record_starts_there(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0, replicas=(0,))
        for _ in range(5):
            await produce(cluster, 0, b"a")
        leader = cluster.brokers[0].replica()
        leader.log.roll()
        leader.delete_records(3)
        await cluster.lead(0, 1, replicas=(0, 1), isr=(0,))
        await until(lambda: ends(cluster) == [5, 5])
        assert cluster.brokers[1].replica().log.log_start_offset == 3

    play(scenario, tmp_path, size=2)


def test_requests_of_an_older_controller_and_for_an_earlier_life_are_refused(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        cluster.controller_epoch = 5
        await cluster.lead(0, 3, replicas=(0,))
        stale: list[tuple[Any, int]] = [
            (LeaderAndIsrRequest(controller_epoch=4, broker_epoch=1), 7),
            (UpdateMetadataRequest(controller_epoch=4, broker_epoch=1), 8),
            (StopReplicaRequest(controller_epoch=4, broker_epoch=1), 4),
        ]
        for request, version in stale:
            answer = await cluster.call(0, request, version)
            assert answer.error_code == Error.STALE_CONTROLLER_EPOCH
            request.controller_epoch, request.broker_epoch = 5, 0
            answer = await cluster.call(0, request, version)
            assert answer.error_code == Error.STALE_BROKER_EPOCH
        assert (await cluster.lead(0, 2, replicas=(0,)))[0] is Error.STALE_CONTROLLER_EPOCH
        errors = await cluster.lead(1, 9, replicas=(1,), to=(0,))
        assert errors[0] is Error.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario, tmp_path, size=1)


def stop_request(epoch: int, *, deletes: bool) -> StopReplicaRequest:
    state = StopReplicaPartitionState(
        partition_index=0, leader_epoch=epoch, delete_partition=deletes
    )
    return StopReplicaRequest(
        controller_id=CONTROLLER,
        controller_epoch=1,
        broker_epoch=1,
        topic_states=[StopReplicaTopicState(topic_name="t", partition_states=[state])],
    )


def test_a_stopped_replica_no_longer_follows_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    async def stop(cluster: PlayedCluster, epoch: int, *, deletes: bool) -> Error:
        answer = await cluster.call(1, stop_request(epoch, deletes=deletes), 4)
        return Error(answer.partition_errors[0].error_code)

    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 4, replicas=(0, 1))
        assert await stop(cluster, 4, deletes=False) is Error.FENCED_LEADER_EPOCH
        assert await stop(cluster, 5, deletes=False) is Error.NONE
        await produce(cluster, 0, b"a", acks=1)
        assert cluster.brokers[1].replica().log.offset_end == 0
        assert await stop(cluster, -2, deletes=True) is Error.NONE
        assert len(cluster.brokers[1].replicas) == 0
        # What is not here any more is stopped and deleted.
        assert await stop(cluster, -2, deletes=True) is Error.NONE

    play(scenario, tmp_path, size=2)


def test_a_deletion_that_failed_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 4, replicas=(0, 1))

        def fail(*_: object) -> None:
            raise StorageFault("rename", "t-0", reason="read-only")

        monkeypatch.setattr(LogStore, "delete", fail)
        answer = await cluster.call(1, stop_request(-2, deletes=True), 4)
        assert answer.partition_errors[0].error_code == Error.KAFKA_STORAGE_ERROR

    play(scenario, tmp_path, size=2)


def test_what_a_full_request_does_not_name_is_not_served_any_more_and_its_log_stays(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 4, replicas=(0, 1))
        await produce(cluster, 0, b"a", acks=1)
        full = LeaderAndIsrRequest(
            controller_id=CONTROLLER, controller_epoch=1, broker_epoch=1, type=2
        )
        assert (await cluster.call(0, full, 7)).error_code == Error.NONE
        replica = cluster.brokers[0].replica()
        assert not replica.partition.is_leader
        assert replica.log.offset_end == 1

    play(scenario, tmp_path, size=2)


def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_served_there(tmp_path: Path) -> None:
    async def fetch(cluster: PlayedCluster, broker: int) -> tuple[int, int]:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            rack_id="rack-1",
            topics=[FetchTopic(topic_id=topic_id_of("t"), partitions=[partition])],
        )
        answer = await cluster.call(broker, request, 13)
        row = answer.responses[0].partitions[0]
        assert row.error_code == 0
        return row.preferred_read_replica, len(row.records or b"")

    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        await produce(cluster, 0, b"a")
        await until(lambda: watermarks(cluster) == [1, 1, 1])
        assert await fetch(cluster, 0) == (1, 0)
        preferred, size_bytes = await fetch(cluster, 1)
        assert preferred == -1
        assert size_bytes > 0

    play(
        scenario,
        tmp_path,
        replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )


def break_disk(cluster: PlayedCluster, broker: int) -> None:
    log = cluster.brokers[broker].replica().log
    log.fault = StorageFault("cannot write", log.directory, reason="the disk is broken")


def test_a_follower_whose_disk_fails_is_offline_and_the_others_go_on(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        await produce(cluster, 0, b"a")
        break_disk(cluster, 2)
        await produce(cluster, 0, b"b", acks=1)
        await until(lambda: len(cluster.brokers[2].replicas) == 0)
        assert (await cluster.lead(0, 1, isr=(0, 1)))[2] is Error.KAFKA_STORAGE_ERROR
        assert await produce(cluster, 0, b"c") == (Error.NONE, 2)

    play(scenario, tmp_path)


def test_a_leader_whose_disk_fails_leads_no_longer(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        await produce(cluster, 0, b"a")
        break_disk(cluster, 0)
        assert (await produce(cluster, 0, b"b"))[0] is Error.KAFKA_STORAGE_ERROR
        assert (await cluster.lead(1, 1, isr=(1, 2)))[0] is Error.KAFKA_STORAGE_ERROR
        assert await produce(cluster, 1, b"b") == (Error.NONE, 1)

    play(scenario, tmp_path)


def test_a_throttled_replica_that_is_not_in_sync_is_held_to_its_rate(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        member = cluster.brokers[0].member
        member.publish(
            member.view.with_configs(
                topic_configs={"t": {"leader.replication.throttled.replicas": "*"}},
                broker_configs={"0": {"leader.replication.throttled.rate": "1000"}},
            )
        )
        await cluster.lead(0, 0, replicas=(0,))
        for _ in range(30):
            await produce(cluster, 0, b"x" * 1000)
        await cluster.lead(0, 1, replicas=(0, 1), isr=(0,))
        leader, follower = cluster.brokers[0], cluster.brokers[1]
        await until(lambda: follower.replica().log.offset_end > 0)
        assert leader.replicas.leader_throttle.is_exceeded(leader.clock.monotonic_ms())
        assert follower.replica().log.offset_end < 30
        member.publish(member.view.with_configs(broker_configs={}))
        await until(lambda: ends(cluster) == [30, 30])

    play(
        scenario,
        tmp_path,
        size=2,
        replica_fetch_max_bytes="2000",
        replica_fetch_wait_max_ms="100",
    )


def test_records_deleted_at_the_leader_are_deleted_everywhere_before_it_says_so(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        for _ in range(5):
            await produce(cluster, 0, b"a")
        row = DeleteRecordsPartition(partition_index=0, offset=3)
        request = DeleteRecordsRequest(
            timeout_ms=5000, topics=[DeleteRecordsTopic(name="t", partitions=[row])]
        )
        answer = await cluster.call(0, request, 2)
        result = answer.topics[0].partitions[0]
        assert (Error(result.error_code), result.low_watermark) == (Error.NONE, 3)
        starts = [broker.replica().log.log_start_offset for broker in cluster.brokers.values()]
        assert starts == [3, 3, 3]

    play(scenario, tmp_path)


def test_a_waiting_write_is_answered_when_the_controller_takes_a_replica_out(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0)
        await produce(cluster, 0, b"a")
        await cluster.stop_broker(2)
        waiting = asyncio.create_task(produce(cluster, 0, b"b", timeout_ms=20_000))
        await until(lambda: cluster.brokers[1].replica().log.offset_end == 2)
        assert not waiting.done()
        await cluster.lead(0, 0, isr=(0, 1))
        assert await waiting == (Error.NONE, 1)

    play(scenario, tmp_path)


def test_a_controller_that_knows_no_topic_ids_costs_no_log(tmp_path: Path) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        await cluster.lead(0, 0, replicas=(0,))
        await produce(cluster, 0, b"a")
        await cluster.stop_broker(0)
        broker = cluster.start_broker(0)
        state = PartitionImage(0, 1, (0,), (0,), 9)
        errors = broker.replicas.take_roles([Role(TopicPartition("t", 0), NO_TOPIC_ID, state)])
        assert list(errors.values()) == [Error.NONE]
        assert broker.replica().log.offset_end == 1
        assert broker.replica().log.topic_id == topic_id_of("t")
        other = Role(TopicPartition("t", 0), topic_id_of("other"), state)
        assert broker.replicas.take_roles([other]) == {
            TopicPartition("t", 0): Error.INCONSISTENT_TOPIC_ID
        }

    play(scenario, tmp_path, size=1)
