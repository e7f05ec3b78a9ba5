"""What brokers are told after a decision: LeaderAndIsr, UpdateMetadata and StopReplica requests.

Pure; everything follows from the facts. A broker hears of a changed replica it holds before the
whole cluster hears of the change; a broker that has just joined, and everybody when a controller
takes over, first learns who lives, and is told everything that it has: what is not named there it
has no longer. Requests carry the epochs of the controller and of the broker's
registration, so that neither an old controller nor a broker that came back can be misled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.controller.broker_requests.state_requests import FULL, PARTIAL, RequestWriter
from moldau.controller.cluster_facts import (
    DeletionsQueued,
    LivenessChanged,
    TookOver,
    TopicsForgotten,
)
from moldau.controller.cluster_state import ClusterState, has_state, places_of
from moldau.controller.controller_facts import PartitionsAdded, PartitionsChanged, TopicCreated
from moldau.engine.machine import Send
from moldau.model.cluster import PartitionImage, TopicImage
from moldau.model.names import BrokerId, TopicId, TopicPartition

EPOCH_DURING_DELETE = -2
"""Given instead of a leader epoch to replicas of a topic that is going: it beats every epoch."""


class AnnouncedPartition(NamedTuple):
    """One partition as brokers are told of it."""

    place: TopicPartition
    topic_id: TopicId
    partition: PartitionImage
    is_new: frozenset[BrokerId] = frozenset()
    """Brokers on which the replica has never been."""
    is_deleted: bool = False


class StoppedReplica(NamedTuple):
    place: TopicPartition
    leader_epoch: int
    delete: bool


class Announcements:
    """Gathers what one decision has to tell, then makes one request per kind and broker."""

    def __init__(self, state: ClusterState, writer: RequestWriter) -> None:
        self._state = state
        self._writer = writer
        self._liveness = state.liveness
        self._changed: dict[TopicPartition, AnnouncedPartition] = {}
        self._roles: dict[BrokerId, dict[TopicPartition, AnnouncedPartition]] = {}
        self._stops: dict[BrokerId, dict[TopicPartition, StoppedReplica]] = {}
        self._introduced: set[BrokerId] = set()
        """Brokers that need to hear of everything."""
        self._tells_all = False

    def add(self, facts: Iterable[object]) -> Announcements:
        facts = tuple(facts)
        for fact in facts:
            if isinstance(fact, LivenessChanged):
                self._liveness = fact.liveness
                self._introduced.update(fact.joined, fact.bounced)
                # Also when one of them can be reached at another address now.
                self._tells_all = fact.liveness.brokers != self._state.liveness.brokers
            elif isinstance(fact, TookOver):
                self._introduced.update(self._liveness.brokers)
                self._tells_all = True
        for fact in facts:
            match fact:
                case TopicCreated(name, topic_id, partitions):
                    self._new(TopicImage(name, topic_id, partitions), 0)
                case PartitionsAdded(name, topic_id, partitions, count_before):
                    self._new(TopicImage(name, topic_id, partitions), count_before)
                case PartitionsChanged():
                    self._change(fact)
                case DeletionsQueued(names):
                    for name in names:
                        self._end(self._state.cluster.topics[name], delete=True)
                case TopicsForgotten(names):
                    for name in names:
                        self._end(self._state.cluster.topics[name], delete=False)
        return self

    def stop(self, broker: BrokerId, stop: StoppedReplica) -> None:
        if broker in self._liveness.brokers:
            self._stops.setdefault(broker, {})[stop.place] = stop

    def ask(self, broker: BrokerId) -> None:
        """Send the broker all its roles again: its answer tells which of them it cannot play."""
        self._introduce(broker)

    def _new(self, topic: TopicImage, first: int) -> None:
        for place, partition in places_of(topic):
            if place.partition >= first and has_state(partition):
                everybody = frozenset(partition.replicas)
                self._tell(
                    AnnouncedPartition(place, topic.id, partition, everybody), partition.replicas
                )

    def _change(self, fact: PartitionsChanged) -> None:
        topic = self._state.cluster.topics.get(fact.topic)
        old = topic.partitions if topic is not None else ()
        for number in fact.changed:
            after = fact.all_partitions[number]
            before = old[number] if number < len(old) else None
            place = TopicPartition(fact.topic, number)
            held = before.replicas if before is not None and has_state(before) else ()
            role = AnnouncedPartition(
                place, fact.id, after, frozenset(after.replicas) - frozenset(held)
            )
            if before is not None and before.leader_epoch == after.leader_epoch:
                self._changed[place] = role  # only the ISR, which its leader knows already
                continue
            stopping = self._liveness.shutting_down - set(after.isr)
            if before is not None:
                stopping -= {before.leader}
            # One that stops and does not lead is stopped, and need not follow any more.
            self._tell(role, (b for b in after.replicas if b not in stopping))
            for broker in held:
                if broker not in after.replicas:
                    self.stop(broker, StoppedReplica(place, after.leader_epoch, delete=True))

    def _tell(self, role: AnnouncedPartition, brokers: Iterable[BrokerId]) -> None:
        self._changed[role.place] = role
        for broker in brokers:
            if broker in self._liveness.brokers:
                self._roles.setdefault(broker, {})[role.place] = role

    def _end(self, topic: TopicImage, *, delete: bool) -> None:
        for place, partition in places_of(topic):
            self._changed[place] = AnnouncedPartition(place, topic.id, partition, is_deleted=True)
            for broker in partition.replicas:
                self.stop(broker, StoppedReplica(place, EPOCH_DURING_DELETE, delete=delete))

    def _introduce(self, broker: BrokerId) -> None:
        roles = self._roles.setdefault(broker, {})
        for topic in self._state.cluster.topics.values():
            if topic.name in self._state.deleting:
                continue
            for place, partition in places_of(topic):
                after = self._changed.get(place)
                role = after or AnnouncedPartition(place, topic.id, partition)
                if role.is_deleted or not has_state(role.partition):
                    continue
                if broker in role.partition.replicas:
                    roles.setdefault(place, role)

    def sends(self) -> tuple[Send, ...]:
        for broker in self._introduced:
            self._introduce(broker)
        everything = self._everything() if self._introduced else {}
        write = self._writer
        sends: list[Send] = []
        metadata = write.metadata(self._changed.values(), self._liveness)
        # What a broker is not told of, it does not have any more: unless nobody knows of it.
        is_full = not self._state.unreadable
        whole = write.metadata(everything.values(), self._liveness)._replace(is_full=is_full)
        for broker, live in sorted(self._liveness.brokers.items()):
            is_introduced = broker in self._introduced
            if is_introduced:
                sends.append(Send(broker, whole.to(live.epoch)))
            elif self._introduced:
                sends.append(Send(broker, write.metadata((), self._liveness).to(live.epoch)))
            roles = self._roles.get(broker)
            if roles or is_introduced:
                rows = () if roles is None else roles.values()
                request = write.roles(rows, broker, live.epoch, self._liveness)
                request.type = FULL if is_introduced and is_full else PARTIAL
                sends.append(Send(broker, request))
            if (self._changed or self._tells_all) and broker not in self._introduced:
                sends.append(Send(broker, metadata.to(live.epoch)))
            stops = self._stops.get(broker)
            if stops:
                sends.append(Send(broker, write.stops(stops.values(), live.epoch)))
        return tuple(sends)

    def _everything(self) -> Mapping[TopicPartition, AnnouncedPartition]:
        roles: dict[TopicPartition, AnnouncedPartition] = {}
        for topic in self._state.cluster.topics.values():
            if topic.name not in self._state.deleting:
                for place, partition in places_of(topic):
                    if has_state(partition):
                        roles[place] = AnnouncedPartition(place, topic.id, partition)
        roles.update(self._changed)
        return roles
