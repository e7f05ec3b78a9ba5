"""Whether a leader may change who is in sync (AlterPartition, KIP-497), with Kafka 3.9's answers.

Pure. The order of the checks matters: a leader that asks twice for what it already got is told so,
whichever version it names.
"""

from __future__ import annotations

from moldau.controller.cluster_commands import AlterPartition, IsrChange
from moldau.controller.cluster_facts import Liveness
from moldau.controller.cluster_state import ClusterState, has_state
from moldau.controller.rules.changed_partitions import ChangedPartitions
from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId

UNKNOWN_EPOCH = -1


def check_broker(state: ClusterState, broker: BrokerId, broker_epoch: int) -> None:
    if state.liveness.epoch_of(broker) != broker_epoch:
        raise ApiError(
            Error.STALE_BROKER_EPOCH,
            f"Broker {broker} is not registered with the epoch {broker_epoch}.",
        )


def altered(
    state: ClusterState, partitions: ChangedPartitions, command: AlterPartition, change: IsrChange
) -> PartitionImage:
    """The partition as it is now or will be; raises the refusal."""
    topic = partitions.topic(change.place.topic)
    if topic is None:
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)
    now = partitions.partition(topic, change.place.partition)
    if now is None or not has_state(now):
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)
    if change.partition_epoch > now.partition_epoch or change.leader_epoch > now.leader_epoch:
        # The leader knows more than we do: somebody else has become the controller.
        raise ApiError(Error.NOT_CONTROLLER)
    if change.leader_epoch < now.leader_epoch:
        raise ApiError(Error.FENCED_LEADER_EPOCH)
    if now.leader == command.broker and set(change.isr) == set(now.isr):
        return now
    if change.partition_epoch != now.partition_epoch:
        raise ApiError(Error.INVALID_UPDATE_VERSION)
    if now.leader != command.broker or command.broker not in change.isr or change.is_recovering:
        raise ApiError(Error.INVALID_REQUEST)
    if not set(change.isr) <= set(now.replicas):
        raise ApiError(Error.INVALID_REQUEST)
    ineligible = _ineligible(change, state.liveness)
    if ineligible:
        raise ApiError(
            Error.INELIGIBLE_REPLICA if command.knows_ineligible else Error.OPERATION_NOT_ATTEMPTED,
            f"Replicas {ineligible} of {change.place} may not be in sync.",
        )
    return partitions.put_isr(topic, change.place.partition, change.isr)


def _ineligible(change: IsrChange, liveness: Liveness) -> list[BrokerId]:
    """Brokers that are gone or about to go (KIP-841), and those that were restarted since the
    leader saw them catch up (KIP-903)."""
    rows = zip(change.isr, change.isr_epochs or (UNKNOWN_EPOCH,) * len(change.isr), strict=True)
    return [
        broker
        for broker, epoch in rows
        if not liveness.is_online(broker, change.place)
        or epoch not in (UNKNOWN_EPOCH, liveness.epoch_of(broker))
    ]
