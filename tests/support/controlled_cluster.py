"""A controller of several brokers for transcripts, and words for what it tells them.

Brokers are told by wire requests; the stories read them back as short words: "lead" for a role in
LeaderAndIsr, "meta" for a row of UpdateMetadata, "stop" for a row of StopReplica.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.controller import cluster_commands as commands
from moldau.controller.broker_requests.state_requests import RequestWriter
from moldau.controller.cluster_facts import (
    LiveBroker,
    Liveness,
    ReadingBegun,
)
from moldau.controller.cluster_machine import ClusterMachine
from moldau.controller.cluster_state import ClusterState
from moldau.controller.controller_facts import (
    TopicCreated,
)
from moldau.model.cluster import BrokerNode, ClusterImage, Endpoint, PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.replication import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from tests.support.transcripts import Transcript

EPOCH = 7
T0 = TopicPartition("t", 0)


def live(*brokers: int, epochs: dict[int, int] | None = None) -> dict[int, LiveBroker]:
    return {
        b: LiveBroker(
            BrokerNode(b, (Endpoint("PLAINTEXT", f"host{b}", 9092),)),
            (epochs or {}).get(b, 100 + b),
        )
        for b in brokers
    }


def cluster(*brokers: int, unclean: bool = False) -> Transcript:
    image = ClusterImage("cluster", 1, brokers={b: row.node for b, row in live(*brokers).items()})
    state = ClusterState(image, Liveness(live(*brokers)), unclean_by_default=unclean)
    return Transcript(ClusterMachine(state, RequestWriter(1, EPOCH, "PLAINTEXT")))


def with_topic(
    *brokers: int,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    leader: int | None = None,
    partitions: int = 1,
    unclean: bool = False,
) -> Transcript:
    isr = replicas if isr is None else isr
    partition = PartitionImage(replicas[0] if leader is None else leader, 5, replicas, isr, 9)
    topic = TopicCreated("t", b"t" * 16, (partition,) * partitions, {})
    return cluster(*brokers, unclean=unclean).given(topic, ReadingBegun())


def state_of(story: Transcript) -> ClusterState:
    assert isinstance(story.machine, ClusterMachine)
    return story.machine.state


def partition(story: Transcript, number: int = 0) -> PartitionImage:
    return state_of(story).cluster.topics["t"].partitions[number]


def told(story: Transcript) -> dict[int, list[str]]:
    """By broker and in order, what each is told."""
    words: dict[int, list[str]] = {}
    for broker, request in story.decision.sends:
        assert isinstance(broker, int)
        words.setdefault(broker, []).extend(words_of(request))
    return words


def words_of(request: object) -> Iterable[str]:
    if isinstance(request, LeaderAndIsrRequest):
        for topic in request.topic_states:
            for row in topic.partition_states:
                new = " new" if row.is_new else ""
                yield f"lead {topic.topic_name}-{row.partition_index} {row.leader}{new}"
    elif isinstance(request, UpdateMetadataRequest):
        yield "brokers " + ",".join(str(row.id) for row in request.live_brokers)
        for state in request.topic_states:
            for each in state.partition_states:
                yield f"meta {state.topic_name}-{each.partition_index} {each.leader}"
    else:
        assert isinstance(request, StopReplicaRequest)
        for stopped in request.topic_states:
            for place in stopped.partition_states:
                kind = "delete" if place.delete_partition else "stop"
                yield f"{kind} {stopped.topic_name}-{place.partition_index} {place.leader_epoch}"


def errors(answer: object) -> list[Error | None]:
    assert isinstance(answer, list)
    return [row.error if isinstance(row, ApiError) else None for row in answer]


def alter(*isr: int, **given: int) -> commands.AlterPartition:
    change = commands.IsrChange(
        T0, given.get("leader_epoch", 5), given.get("partition_epoch", 9), isr
    )
    broker = given.get("broker", 1)
    return commands.AlterPartition(broker, given.get("broker_epoch", 100 + broker), (change,))
