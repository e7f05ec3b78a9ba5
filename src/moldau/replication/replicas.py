"""All replicas of this broker: made, changed and removed as the cluster image says.

Owns the map from partition to replica. The image is applied before the controller's reply leaves,
so a topic that was just created can be written to at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from moldau.config.broker_config import BrokerConfig
from moldau.config.topic_config import TopicConfig
from moldau.engine.side_thread import SideThread
from moldau.metrics.traffic_cells import Traffic
from moldau.model.clock import Clock
from moldau.model.cluster import ClusterImage, PartitionImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, BrokerId, Offset, TopicId, TopicPartition
from moldau.replication.changed_settings import configure_changed
from moldau.replication.delayed_requests import Waiting
from moldau.replication.fetch_sessions import FetchedPartition
from moldau.replication.following.future_replicas import ALTER_RATE, FutureReplicas
from moldau.replication.following.replication_throttle import Throttles, rate_of
from moldau.replication.log_preparation import NewReplicas, PendingLogs, RemovedLogs, make_way
from moldau.replication.long_batches import LongBatches
from moldau.replication.offline_replicas import LostReplicas, known_partition, warn_of_strays
from moldau.replication.offset_lookup import OffsetLookUp
from moldau.replication.partition import Partition
from moldau.replication.regained_logs import RegainedLogs
from moldau.replication.replica import IsrChanges, Replica
from moldau.replication.replica_loading import adopt
from moldau.replication.replica_roles import Followers, Role, Stop, is_stale, role_refusal
from moldau.storage.directories.log_directory import LogDirectory
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.new_logs import NewLog
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.server.ReplicaManager")

PLACED_AT_ONCE_MAX = 8
"""Partitions that one change makes or removes; for more a thread sees to the logs, not to hold up
the loop."""


class Replicas:
    def __init__(
        self,
        node_id: BrokerId,
        store: LogStore,
        waiting: Waiting,
        clock: Clock,
        config: BrokerConfig,
        image: ClusterImage,
    ) -> None:
        """`image` may be empty; the first one to hold something is applied like any change."""
        self.waiting = waiting
        self.long_batches = LongBatches()
        self.offset_look_up = OffsetLookUp()
        self.for_old_consumers = SideThread("old-consumers")
        self._node_id = node_id
        self._store = store
        self._clock = clock
        self._config = config
        self._image = image
        self._replicas: dict[tuple[str, int], Replica] = {}
        self.traffic = Traffic()
        self._lost = LostReplicas()
        self._followers: Followers | None = None
        self._isr_changes: IsrChanges | None = None
        window_ms = config.replication_quota_window_size_seconds * 1000
        self._throttles = Throttles(config.replication_quota_window_num, window_ms)
        self.leader_throttle = self._throttles.leader
        self._new_replicas = NewReplicas(node_id, store)
        self.pending = PendingLogs(store, self._place_made)
        self.removed = RemovedLogs(store)
        self.regained = RegainedLogs(store, self._lost)
        store.on_failure.append(self._directory_failed)
        store.on_loaded.append(partial(adopt, self._replicas))
        self.moves = FutureReplicas(
            store,
            current=lambda place: self._replicas.get(place),
            rate=lambda: rate_of(ALTER_RATE, node_id, self._image.broker_configs),
        )

    def join_cluster(self, followers: Followers, isr_changes: IsrChanges) -> None:
        """From now on replicas may follow others. Called before the first role is taken."""
        self._followers, self._isr_changes = followers, isr_changes
        followers.slow_down(self._throttles.follower)

    def __len__(self) -> int:
        return len(self._replicas)

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._replicas.values())

    # Finding

    def find(self, topic: str, partition: int) -> Replica:
        replica = self._replicas.get((topic, partition))
        if replica is None:
            raise self._lost.absence(topic, partition, self._image)
        return replica

    def find_fetched(self, wanted: FetchedPartition) -> Replica:
        """By topic id where the client gives one: the name may belong to a new topic by now."""
        if wanted.topic_id == NO_TOPIC_ID:
            return self.find(wanted.topic, wanted.partition)
        replica = self.find(self.name_of(wanted.topic_id), wanted.partition)
        if replica.log.topic_id != wanted.topic_id:
            raise ApiError(
                Error.INCONSISTENT_TOPIC_ID,
                f"the log of {replica.partition.topic_partition} is of another topic",
            )
        return replica

    def name_of(self, topic_id: TopicId) -> str:
        name = self._image.topic_names.get(topic_id)
        if name is None:
            raise ApiError(Error.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id.hex()}")
        return name

    def known_name(self, topic_id: TopicId) -> str:
        """Empty if no topic has the id."""
        return self._image.topic_names.get(topic_id, "")

    def leader_of(self, topic: str, partition: int) -> tuple[BrokerId, int]:
        """(leader, leader epoch) as far as known here; (-1, -1) if not at all."""
        replica = self._replicas.get((topic, partition))
        if replica is not None:
            return replica.partition.leader, replica.partition.leader_epoch
        known = known_partition(self._image, topic, partition)
        return (-1, -1) if known is None else (known.leader, known.leader_epoch)

    def high_watermarks(self) -> Mapping[TopicPartition, Offset]:
        """For the checkpoint that a restart begins with."""
        partitions = (replica.partition for replica in self._replicas.values())
        return {each.topic_partition: each.high_watermark for each in partitions}

    def high_watermark(self, topic_partition: TopicPartition) -> Offset | None:
        replica = self._replicas.get(topic_partition)
        return None if replica is None else replica.partition.high_watermark

    @property
    def directories(self) -> list[LogDirectory]:
        return self._store.directories

    def strays(self) -> list[TopicPartition]:
        """Logs on disk that belong to no topic of the cluster: not served, and not deleted."""
        return [place for place in self._store.logs if place not in self._replicas]

    def led(self, topic: str) -> dict[int, int]:
        """Partitions of the topic that this broker leads, and in which leader epoch."""
        return {
            place[1]: replica.partition.leader_epoch
            for place, replica in self._replicas.items()
            if place[0] == topic and replica.partition.is_leader
        }

    # Roles in a cluster

    async def prepare(self, roles: Sequence[Role]) -> None:
        """Have the logs that these roles need made in a thread, before they are taken."""
        wanted = [role for role in roles if role.topic_partition not in self._lost]
        await self._new_replicas.prepare(wanted, self._settings_of)

    def _settings_of(self, topic: str) -> TopicConfig:
        return TopicConfig.of(self._config, self._image.topic_configs.get(topic, {}))

    def take_roles(self, roles: Sequence[Role]) -> dict[TopicPartition, Error]:
        """What the controller asks for, and what became of each."""
        return {role.topic_partition: self._take_role(role) for role in roles}

    def _take_role(self, role: Role) -> Error:
        place, state = role.topic_partition, role.state
        if place in self._lost:
            return Error.KAFKA_STORAGE_ERROR
        existing, replica = self._store.get(place), self._replicas.get(place)
        refusal = role_refusal(role, self._node_id, existing, replica)
        if refusal is not Error.NONE:
            return refusal
        if existing is None and self._lost.is_lost(place, self._store, is_new=role.is_new):
            return Error.KAFKA_STORAGE_ERROR
        settings = self._settings_of(place.topic)
        before = -1 if replica is None else replica.partition.leader_epoch
        if self._followers is not None and state.leader_epoch > before:
            self._followers.unfollow((place,))
        topic_id = role.topic_id
        if existing is not None and topic_id == NO_TOPIC_ID:
            # An old controller names no ids: that is no reason to take the log for another one.
            topic_id = existing.topic_id
        self._place(place, topic_id, state, settings, is_new=role.is_new)
        replica = self._replicas.get(place)
        if replica is None or place in self._lost:
            return Error.KAFKA_STORAGE_ERROR
        partition = replica.partition
        if self._followers is not None and not partition.is_leader and partition.leader >= 0:
            self._followers.follow(replica)
        return Error.NONE

    def stop(self, stops: Sequence[Stop]) -> dict[TopicPartition, Error]:
        """Replicas that leave this broker; their logs go too where the controller says so."""
        return {each.topic_partition: self._stop(each) for each in stops}

    def _stop(self, stop: Stop) -> Error:
        place = stop.topic_partition
        if place in self._lost:
            return Error.KAFKA_STORAGE_ERROR
        replica = self._replicas.get(place)
        if is_stale(stop, replica):
            return Error.FENCED_LEADER_EPOCH
        if self._followers is not None:
            self._followers.unfollow((place,))
        if stop.deletes:
            return self._delete(place)
        if replica is not None and replica.partition.is_leader:
            # The log stays, and with it the roles that may come again.
            replica.partition.leave()
            self.waiting.disturb(replica)
        return Error.NONE

    def _delete(self, place: TopicPartition) -> Error:
        if place in self._replicas:
            return self._remove(place)
        return Error.NONE if self._store.get(place) is None else self._delete_log(place)

    def _delete_log(self, place: TopicPartition) -> Error:
        try:
            self._store.delete(place)
        except StorageFault as fault:
            log.error("log not deleted partition=%s: %s", place, fault)
            return Error.KAFKA_STORAGE_ERROR
        return Error.NONE

    def see(self, image: ClusterImage) -> None:
        """Names, settings and brokers as they are now; roles come by themselves."""
        old, self._image = self._image, image
        self._throttles.see(self._node_id, image.broker_configs)
        gone = old.brokers.keys() - image.brokers.keys()
        if gone:
            now = self._clock.monotonic_ms()
            for replica in self._replicas.values():
                if replica.partition.is_leader and replica.partition.look_again(now, gone):
                    self.waiting.changed(replica)
        configure_changed(self._replicas, self._config, old, image)

    # Disks that fail

    def put_offline(self, replica: Replica, fault: StorageFault) -> None:
        """The disk is broken under one replica, or under all in the same directory: they serve
        nobody until the broker starts again."""
        self._store.suspect(replica.log, fault)
        place = replica.partition.topic_partition
        if self._replicas.get(place) is replica:
            self._lost.put(place, str(fault))
            self._take_away(replica)

    def _broken(self, replica: Replica, fault: StorageFault) -> None:
        """Alone, a broker goes on with a replica that may be well again, as after a full disk; in
        a cluster another one leads."""
        if self._isr_changes is not None:
            self._isr_changes.lose(replica, fault)
        else:
            self._store.suspect(replica.log, fault)

    def _directory_failed(self, directory: LogDirectory, lost: Sequence[TopicPartition]) -> None:
        self._lost.put_all(lost, str(directory.fault))
        for place in lost:
            replica = self._replicas.get(place)
            if replica is not None:
                self._take_away(replica)
        for place, future in list(self.moves.futures.items()):
            if future.parent == directory.path:
                self.moves.cancel(place)

    def _take_away(self, replica: Replica) -> None:
        place = replica.partition.topic_partition
        if self._followers is not None:
            self._followers.unfollow((place,))
        del self._replicas[place]
        self.traffic.leave(place.topic)
        replica.partition.leave()
        self.waiting.disturb(replica)

    @property
    def offline(self) -> Mapping[tuple[str, int], str]:
        return self._lost

    # Changing

    def apply(self, old: ClusterImage, new: ClusterImage) -> None:
        """Follow the cluster from one image to the next."""
        self._image = new
        if new.topics is old.topics and new.topic_configs is old.topic_configs:
            return
        self._remove_all(
            [
                TopicPartition(name, partition)
                for name, topic in old.topics.items()
                if (successor := new.topics.get(name)) is None or successor.id != topic.id
                for partition in range(len(topic.partitions))
            ]
        )
        missing: list[NewLog] = []
        for name, topic in new.topics.items():
            overrides = new.topic_configs.get(name, {})
            if topic is not old.topics.get(name):
                settings = TopicConfig.of(self._config, overrides)
                missing += self._place_topic(topic, settings, is_new=bool(old.cluster_id))
            elif overrides != old.topic_configs.get(name, {}):
                self._configure_topic(topic, TopicConfig.of(self._config, overrides))
        self._make(missing)
        if not old.cluster_id:
            warn_of_strays(self.strays())

    def _make(self, missing: Sequence[NewLog]) -> None:
        """A few at once, many beside the loop."""
        if len(missing) > PLACED_AT_ONCE_MAX:
            self.pending.make(missing)
            return
        for wanted in missing:
            self._place_made(wanted.topic_partition)

    def reconfigure(self, config: BrokerConfig) -> None:
        """The broker's own settings have changed, and with them the defaults of every topic."""
        self._config = config
        for name, topic in self._image.topics.items():
            overrides = self._image.topic_configs.get(name, {})
            self._configure_topic(topic, TopicConfig.of(config, overrides))

    def _configure_topic(self, topic: TopicImage, settings: TopicConfig) -> None:
        for partition in range(len(topic.partitions)):
            replica = self._replicas.get((topic.name, partition))
            if replica is not None:
                replica.configure(settings)

    def _place_topic(
        self, topic: TopicImage, settings: TopicConfig, is_new: bool
    ) -> Sequence[NewLog]:
        """Gives back what has to be made first."""
        missing = []
        for partition, image in enumerate(topic.partitions):
            place = TopicPartition(topic.name, partition)
            if self._node_id not in image.replicas:
                self._remove(place)
            elif place in self.pending or self._lost.is_lost(place, self._store, is_new=is_new):
                continue
            elif is_new and not self._store.has(place):
                # A mirror's epochs are those in its records.
                epoch = None if settings.mirror_source else image.leader_epoch
                missing.append(NewLog(place, topic.id, settings, epoch))
            else:
                self._place(place, topic.id, image, settings, is_new=is_new)
        return missing

    def _place_made(self, place: TopicPartition) -> None:
        """Its log was made meanwhile; the topic may have changed, or be gone."""
        topic = self._image.topics.get(place.topic)
        if topic is None or place.partition >= len(topic.partitions):
            self._store.forget_made(place)
            return
        image = topic.partitions[place.partition]
        self._place(place, topic.id, image, self._settings_of(place.topic), is_new=True)

    def _place(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        image: PartitionImage,
        settings: TopicConfig,
        *,
        is_new: bool,
    ) -> None:
        replica = self._replicas.get(topic_partition)
        try:
            if replica is None:
                make_way(self._store, topic_partition, topic_id, is_new=is_new)
                replica = self._open(topic_partition, topic_id, settings)
            else:
                replica.configure(settings)
            if replica.partition.change(image, self._clock.monotonic_ms()):
                if replica.partition.is_leader and not replica.is_mirror:
                    replica.log.assign_epoch(image.leader_epoch, replica.log.offset_end)
                self.waiting.disturb(replica)
            else:
                # Fewer may be in sync now, so that more is committed.
                self.waiting.changed(replica)
        except StorageFault as fault:
            self._lost.put(topic_partition, str(fault))
            wanted = NewLog(topic_partition, topic_id, settings, None)
            if self._followers is not None:
                self.regained.put_off(wanted, fault)
            elif is_new:
                self.pending.put_off(wanted, fault)
            return
        self._lost.pop(topic_partition, None)
        before = self._replicas.get(topic_partition)
        if before is None:
            replica.counts = self.traffic.join(topic_partition.topic)
        else:
            replica.counts = before.counts
        self._replicas[topic_partition] = replica

    def _open(
        self, topic_partition: TopicPartition, topic_id: TopicId, settings: TopicConfig
    ) -> Replica:
        partition_log = self._store.create(topic_partition, topic_id, settings)
        checkpointed = self._store.high_watermarks.get(topic_partition, 0)
        partition = Partition(
            topic_partition,
            self._node_id,
            offset_end=partition_log.offset_end,
            high_watermark=max(checkpointed, partition_log.log_start_offset),
            min_insync_replicas=settings.min_insync_replicas,
            lag_max_ms=self._config.replica_lag_time_max_ms,
        )
        return Replica(
            partition, partition_log, settings, self.waiting, self._isr_changes, self._broken
        )

    def _remove(self, topic_partition: TopicPartition) -> Error:
        self._lost.pop(topic_partition, None)
        replica = self._replicas.pop(topic_partition, None)
        if replica is None:
            return Error.NONE
        self.traffic.leave(topic_partition.topic)
        replica.partition.leave()
        outcome = self._delete_log(topic_partition)
        self.waiting.disturb(replica)
        return outcome

    def _remove_all(self, places: Sequence[TopicPartition]) -> None:
        """A few at once, of many the logs beside the loop."""
        if len(places) <= PLACED_AT_ONCE_MAX:
            for place in places:
                self._remove(place)
            return
        leaving = []
        for place in places:
            self._lost.pop(place, None)
            replica = self._replicas.pop(place, None)
            if replica is not None:
                self.traffic.leave(place.topic)
                replica.partition.leave()
                leaving.append(replica)
        self.removed.remove([each.partition.topic_partition for each in leaving])
        for replica in leaving:
            self.waiting.disturb(replica)
