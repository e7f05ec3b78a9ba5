"""The controller's three requests, written from roles: Kafka 3.9's fields at its own versions.

Pure. The large part of a request is the same for every broker and made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from moldau.controller.cluster_facts import Liveness
from moldau.model.cluster import BrokerNode
from moldau.model.names import BrokerId, TopicId
from moldau.wire.messages.replication import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from moldau.controller.broker_requests.announcements import AnnouncedPartition, StoppedReplica

LEADER_DURING_DELETE = -2
"""Tells brokers to forget the partition."""
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
PARTIAL, FULL = 0, 2
"""Types of LeaderAndIsr and UpdateMetadata requests. A full one names all that there is for the
broker; Kafka's brokers heed that only of a KRaft controller, others as of one that tells news."""
VERSIONS: dict[type[Message], int] = {
    LeaderAndIsrRequest: 7,
    UpdateMetadataRequest: 8,
    StopReplicaRequest: 4,
}
"""Kafka's controller does not negotiate: brokers of its release know these."""

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class Metadata(NamedTuple):
    """An UpdateMetadata request but for the broker it goes to."""

    controller: BrokerId
    controller_epoch: int
    topics: list[UpdateMetadataTopicState]
    brokers: list[UpdateMetadataBroker]
    is_full: bool = False

    def to(self, broker_epoch: int) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            controller_id=self.controller,
            controller_epoch=self.controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=self.topics,
            live_brokers=self.brokers,
            type=FULL if self.is_full else PARTIAL,
        )


class RequestWriter(NamedTuple):
    controller: BrokerId
    controller_epoch: int
    listener: str
    """The one that brokers use among themselves."""

    def metadata(self, roles: Iterable[AnnouncedPartition], liveness: Liveness) -> Metadata:
        topics: dict[tuple[str, TopicId], UpdateMetadataTopicState] = {}
        for role in roles:
            place, partition = role.place, role.partition
            key = (place.topic, role.topic_id)
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = UpdateMetadataTopicState(
                    topic_name=place.topic, topic_id=role.topic_id, partition_states=[]
                )
            topic.partition_states.append(
                UpdateMetadataPartitionState(
                    partition_index=place.partition,
                    controller_epoch=self.controller_epoch,
                    leader=LEADER_DURING_DELETE if role.is_deleted else partition.leader,
                    leader_epoch=partition.leader_epoch,
                    isr=list(partition.isr),
                    zk_version=partition.partition_epoch,
                    replicas=list(partition.replicas),
                    offline_replicas=[
                        b for b in partition.replicas if not liveness.is_alive(b, place)
                    ],
                )
            )
        brokers = [_broker(live.node) for _, live in sorted(liveness.brokers.items())]
        return Metadata(self.controller, self.controller_epoch, list(topics.values()), brokers)

    def roles(
        self,
        roles: Iterable[AnnouncedPartition],
        broker: BrokerId,
        broker_epoch: int,
        liveness: Liveness,
    ) -> LeaderAndIsrRequest:
        topics: dict[tuple[str, TopicId], LeaderAndIsrTopicState] = {}
        leaders: set[BrokerId] = set()
        for role in roles:
            key = (role.place.topic, role.topic_id)
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = LeaderAndIsrTopicState(
                    topic_name=role.place.topic, topic_id=role.topic_id, partition_states=[]
                )
            topic.partition_states.append(self._role(role, broker))
            leaders.add(role.partition.leader)
        return LeaderAndIsrRequest(
            controller_id=self.controller,
            controller_epoch=self.controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=list(topics.values()),
            live_leaders=self._leaders(leaders, liveness),
        )

    def _role(self, role: AnnouncedPartition, broker: BrokerId) -> LeaderAndIsrPartitionState:
        partition = role.partition
        return LeaderAndIsrPartitionState(
            partition_index=role.place.partition,
            controller_epoch=self.controller_epoch,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=list(partition.isr),
            partition_epoch=partition.partition_epoch,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding),
            removing_replicas=list(partition.removing),
            is_new=broker in role.is_new,
        )

    def _leaders(
        self, leaders: Iterable[BrokerId], liveness: Liveness
    ) -> list[LeaderAndIsrLiveLeader]:
        rows = []
        for broker in sorted(leaders):
            live = liveness.brokers.get(broker)
            endpoint = None if live is None else live.node.endpoint(self.listener)
            if endpoint is not None:
                rows.append(
                    LeaderAndIsrLiveLeader(
                        broker_id=broker, host_name=endpoint.host, port=endpoint.port
                    )
                )
        return rows

    def stops(self, stops: Iterable[StoppedReplica], broker_epoch: int) -> StopReplicaRequest:
        topics: dict[str, StopReplicaTopicState] = {}
        for stop in stops:
            topic = topics.get(stop.place.topic)
            if topic is None:
                topic = topics[stop.place.topic] = StopReplicaTopicState(
                    topic_name=stop.place.topic, partition_states=[]
                )
            topic.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=stop.place.partition,
                    leader_epoch=stop.leader_epoch,
                    delete_partition=stop.delete,
                )
            )
        return StopReplicaRequest(
            controller_id=self.controller,
            controller_epoch=self.controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=list(topics.values()),
        )


def _broker(node: BrokerNode) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=node.id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=SECURITY_PROTOCOLS.get(endpoint.security_protocol, 0),
            )
            for endpoint in node.endpoints
        ],
        rack=node.rack,
    )


def stopped_for_good(request: StopReplicaRequest) -> Mapping[tuple[str, int], bool]:
    """Which of the request's replicas were to be deleted, and not only stopped."""
    return {
        (topic.topic_name, row.partition_index): row.delete_partition
        for topic in request.topic_states
        for row in topic.partition_states
    }
