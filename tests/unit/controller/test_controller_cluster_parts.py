"""Smaller parts of the cluster's controller: large writes, brokers' answers, log lines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from moldau.cluster.tree.metadata_journal import ControllerEpoch, MetadataJournal
from moldau.controller.broker_requests.broker_answers import command_of
from moldau.controller.broker_requests.controller_log_lines import lines
from moldau.controller.cluster_commands import ConfirmDeleted, SeeReplicas
from moldau.controller.cluster_facts import (
    DeletionsQueued,
    LiveBroker,
    Liveness,
    LivenessChanged,
    PreferredElected,
)
from moldau.controller.controller_facts import TopicCreated
from moldau.engine.machine import JournalFault
from moldau.metadata import paths
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.store import Create, Op, Write
from moldau.model.cluster import BrokerNode, PartitionImage
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.replication import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def committed(self, position: int) -> None:
        self.heard.append(position)

    def failed(self, fault: JournalFault) -> None:
        self.heard.append(fault.error)


class Noting(EmbeddedStore):
    def __init__(self) -> None:
        super().__init__()
        self.multis: list[Sequence[Op]] = []

    async def multi(self, ops):  # type: ignore[no-untyped-def]
        listed = list(ops)
        self.multis.append(listed)
        return await super().multi(listed)


def test_a_change_too_large_for_one_write_goes_in_several_that_are_all_fenced() -> None:
    async def story() -> None:
        store = Noting()
        for path in paths.PERSISTENT_PATHS:
            await store.create(path)
        await store.create(paths.CONTROLLER_EPOCH, b"1")
        store.multis.clear()
        journal = MetadataJournal(store, ControllerEpoch(0, 1, 0), write_bytes_max=2000)
        listener = Listener()
        journal.listen(listener)
        partition = PartitionImage(0, 0, (0,), (0,))
        position = journal.append([TopicCreated("t", b"t" * 16, (partition,) * 50, {})])
        while position not in listener.heard:
            assert Error.NOT_CONTROLLER not in listener.heard
            await asyncio.sleep(0)
        assert len(store.multis) > 3
        assert position == len(store.multis)
        fences = [Write(paths.CONTROLLER_EPOCH, b"1", version) for version in range(position)]
        assert [ops[0] for ops in store.multis] == fences
        made = [op.path for ops in store.multis for op in ops if isinstance(op, Create)]
        assert len(made) == len(set(made)) == 3 + 2 * 50
        await store.set_if_version(paths.CONTROLLER_EPOCH, b"2")
        journal.append([TopicCreated("u", b"u" * 16, (partition,) * 50, {})])
        while Error.NOT_CONTROLLER not in listener.heard:
            await asyncio.sleep(0)
        assert await store.exists(paths.topic_path("u")) is None

    asyncio.run(story())


def test_an_answer_that_a_disk_is_broken_makes_replicas_offline() -> None:
    request = LeaderAndIsrRequest(
        topic_states=[LeaderAndIsrTopicState(topic_name="t", topic_id=b"t" * 16)]
    )
    rows = [
        LeaderAndIsrPartitionError(partition_index=0, error_code=Error.NONE),
        LeaderAndIsrPartitionError(partition_index=1, error_code=Error.KAFKA_STORAGE_ERROR),
        LeaderAndIsrPartitionError(partition_index=2, error_code=Error.STALE_CONTROLLER_EPOCH),
    ]
    topic = LeaderAndIsrTopicError(topic_id=b"t" * 16, partition_errors=rows)
    response = LeaderAndIsrResponse(topics=[topic])
    assert command_of(3, request, response) == SeeReplicas(3, (TopicPartition("t", 1),))
    offline = {(TopicPartition("t", number), 3) for number in range(3)}
    assert command_of(3, request, response, offline) == SeeReplicas(
        3, (TopicPartition("t", 1),), (TopicPartition("t", 0),)
    ), "one that takes a role again has a disk again"
    assert command_of(3, request, LeaderAndIsrResponse()) is None
    assert command_of(3, UpdateMetadataRequest(), UpdateMetadataResponse()) is None


def test_an_answer_to_a_deletion_counts_for_what_was_to_be_deleted() -> None:
    states = [
        StopReplicaPartitionState(partition_index=number, delete_partition=number < 2)
        for number in range(3)
    ]
    request = StopReplicaRequest(
        topic_states=[StopReplicaTopicState(topic_name="t", partition_states=states)]
    )
    failed = StopReplicaPartitionError(
        topic_name="t", partition_index=1, error_code=Error.KAFKA_STORAGE_ERROR
    )
    response = StopReplicaResponse(partition_errors=[failed])
    assert command_of(3, request, response) == ConfirmDeleted(
        3,
        {
            TopicPartition("t", 0): Error.NONE,
            TopicPartition("t", 1): Error.KAFKA_STORAGE_ERROR,
        },
    )


def test_operators_read_kafkas_sentences() -> None:
    live = {b: LiveBroker(BrokerNode(b, ()), b) for b in (0, 1)}
    facts = (
        LivenessChanged(Liveness(live), joined=(1,), gone=(2,)),
        LivenessChanged(Liveness(live, shutting_down=frozenset({1}))),
        DeletionsQueued(("t",)),
        PreferredElected({TopicPartition("t", 2): 1}),
    )
    assert list(lines(facts, 0)) == [
        "Newly added brokers: 1, deleted brokers: 2, bounced brokers: , all live brokers: 0,1",
        "Broker failure callback for 2",
        "New broker startup callback for 1",
        "Shutting down broker 1",
        "Starting topic deletion for topics t",
        "Partition t-2 completed preferred replica leader election. New leader is 1",
    ]
