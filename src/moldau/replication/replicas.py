"""All replicas of this broker: made, changed and removed as the cluster image says.

Owns the map from partition to replica. The image is applied before the controller's reply leaves,
so a topic that was just created can be written to at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from moldau.config.broker import BrokerConfig
from moldau.config.topic import TopicConfig
from moldau.model.clock import Clock
from moldau.model.cluster import ClusterImage, PartitionImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, BrokerId, Offset, TopicId, TopicPartition
from moldau.replication.fetch_sessions import FetchedPartition
from moldau.replication.future_replicas import ALTER_RATE, FutureReplicas
from moldau.replication.new_replicas import NewReplicas
from moldau.replication.partition import Partition
from moldau.replication.replica import IsrChanges, Replica
from moldau.replication.roles import EPOCH_OF_DELETION, NO_EPOCH, Followers, Role, Stop
from moldau.replication.throttle import FOLLOWER_RATE, LEADER_RATE, Throttle, rate_of
from moldau.replication.waiting import Waiting
from moldau.storage.faults import StorageFault
from moldau.storage.log_directory import LogDirectory
from moldau.storage.log_store import LogStore

log = logging.getLogger("kafka.server.ReplicaManager")


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
        self._node_id = node_id
        self._store = store
        self._clock = clock
        self._config = config
        self._image = image
        self._replicas: dict[tuple[str, int], Replica] = {}
        self._offline: dict[tuple[str, int], str] = {}
        """Replicas that should be here but whose log cannot be opened, and why."""
        self._followers: Followers | None = None
        self._isr_changes: IsrChanges | None = None
        self.leader_throttle = Throttle()
        self._follower_throttle = Throttle()
        self._new_replicas = NewReplicas(node_id, store)
        self.moves = FutureReplicas(
            store,
            current=lambda place: self._replicas.get(place),
            rate=lambda: rate_of(ALTER_RATE, node_id, self._image.broker_configs),
        )

    def join_cluster(self, followers: Followers, isr_changes: IsrChanges) -> None:
        """From now on replicas may follow others. Called before the first role is taken."""
        self._followers, self._isr_changes = followers, isr_changes
        config = self._config
        samples = config.replication_quota_window_num
        sample_ms = config.replication_quota_window_size_seconds * 1000
        self.leader_throttle = Throttle(samples, sample_ms)
        self._follower_throttle = Throttle(samples, sample_ms)
        followers.slow_down(self._follower_throttle)

    def __len__(self) -> int:
        return len(self._replicas)

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._replicas.values())

    # Finding

    def find(self, topic: str, partition: int) -> Replica:
        replica = self._replicas.get((topic, partition))
        if replica is None:
            raise self._absence(topic, partition)
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

    def _absence(self, topic: str, partition: int) -> ApiError:
        """Why a partition is not served here."""
        fault = self._offline.get((topic, partition))
        if fault is not None:
            return ApiError(Error.KAFKA_STORAGE_ERROR, fault)
        known = self._image.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return ApiError(
                Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}"
            )
        return ApiError(
            Error.NOT_LEADER_OR_FOLLOWER,
            f"{topic}-{partition} is led by {known.partitions[partition].leader}",
        )

    def leader_of(self, topic: str, partition: int) -> tuple[BrokerId, int]:
        """(leader, leader epoch) as far as known here; (-1, -1) if not at all."""
        replica = self._replicas.get((topic, partition))
        if replica is not None:
            return replica.partition.leader, replica.partition.leader_epoch
        known = self._image.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return -1, -1
        return known.partitions[partition].leader, known.partitions[partition].leader_epoch

    def high_watermarks(self) -> Mapping[TopicPartition, Offset]:
        """For the checkpoint that a restart begins with."""
        return {
            replica.partition.topic_partition: replica.partition.high_watermark
            for replica in self._replicas.values()
        }

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
        wanted = [role for role in roles if role.topic_partition not in self._offline]
        await self._new_replicas.prepare(wanted, self._settings_of)

    def _settings_of(self, topic: str) -> TopicConfig:
        return TopicConfig.of(self._config, self._image.topic_configs.get(topic, {}))

    def take_roles(self, roles: Sequence[Role]) -> dict[TopicPartition, Error]:
        """What the controller asks for, and what became of each."""
        return {role.topic_partition: self._take_role(role) for role in roles}

    def _take_role(self, role: Role) -> Error:
        place, state = role.topic_partition, role.state
        if place in self._offline:
            return Error.KAFKA_STORAGE_ERROR
        if self._node_id not in state.replicas:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        existing = self._store.get(place)
        if existing is None:
            if self._is_lost(place, role.is_new):
                return Error.KAFKA_STORAGE_ERROR
        elif existing.topic_id not in (role.topic_id, NO_TOPIC_ID) and role.topic_id != NO_TOPIC_ID:
            return Error.INCONSISTENT_TOPIC_ID
        replica = self._replicas.get(place)
        if replica is not None and state.leader_epoch < replica.partition.leader_epoch:
            return Error.STALE_CONTROLLER_EPOCH
        settings = self._settings_of(place.topic)
        before = -1 if replica is None else replica.partition.leader_epoch
        if self._followers is not None and state.leader_epoch > before:
            self._followers.unfollow((place,))
        topic_id = role.topic_id
        if existing is not None and topic_id == NO_TOPIC_ID:
            # An old controller names no ids: that is no reason to take the log for another one.
            topic_id = existing.topic_id
        self._place(place, topic_id, state, settings)
        replica = self._replicas.get(place)
        if replica is None or place in self._offline:
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
        if place in self._offline:
            return Error.KAFKA_STORAGE_ERROR
        replica = self._replicas.get(place)
        has_epoch = stop.leader_epoch not in (EPOCH_OF_DELETION, NO_EPOCH)
        known_epoch = NO_EPOCH if replica is None else replica.partition.leader_epoch
        if has_epoch and stop.leader_epoch <= known_epoch:
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
            self._remove(place)
        elif self._store.get(place) is not None:
            try:
                self._store.delete(place)
            except StorageFault as fault:
                log.error("log not deleted partition=%s: %s", place, fault)
                return Error.KAFKA_STORAGE_ERROR
        return Error.NONE

    def see(self, image: ClusterImage) -> None:
        """Names, settings and brokers as they are now; roles come by themselves."""
        old, self._image = self._image, image
        for throttle, key in (
            (self.leader_throttle, LEADER_RATE),
            (self._follower_throttle, FOLLOWER_RATE),
        ):
            throttle.limit_bytes_per_second = rate_of(key, self._node_id, image.broker_configs)
        gone = old.brokers.keys() - image.brokers.keys()
        if gone:
            now = self._clock.monotonic_ms()
            for replica in self._replicas.values():
                if replica.partition.is_leader and replica.partition.look_again(now, gone):
                    self.waiting.changed(replica)
        if image.topic_configs is old.topic_configs:
            return
        for name in {place[0] for place in self._replicas}:
            overrides = image.topic_configs.get(name, {})
            if overrides != old.topic_configs.get(name, {}):
                settings = TopicConfig.of(self._config, overrides)
                for place, replica in self._replicas.items():
                    if place[0] == name:
                        replica.configure(settings)

    def put_offline(self, replica: Replica, fault: StorageFault) -> None:
        """The disk under one replica is broken: it serves nobody until the broker restarts."""
        place = replica.partition.topic_partition
        if self._followers is not None:
            self._followers.unfollow((place,))
        self._replicas.pop(place, None)
        replica.partition.leave()
        self._put_offline(place, str(fault))
        self.waiting.disturb(replica)

    def _put_offline(self, place: TopicPartition, reason: str) -> None:
        self._offline[place] = reason
        log.error("replica offline partition=%s: %s", place, reason)

    @property
    def offline(self) -> Mapping[tuple[str, int], str]:
        return self._offline

    # Changing

    def apply(self, old: ClusterImage, new: ClusterImage) -> None:
        """Follow the cluster from one image to the next."""
        self._image = new
        if new.topics is old.topics and new.topic_configs is old.topic_configs:
            return
        for name, topic in old.topics.items():
            successor = new.topics.get(name)
            if successor is None or successor.id != topic.id:
                self._remove_topic(topic)
        for name, topic in new.topics.items():
            overrides = new.topic_configs.get(name, {})
            if topic is not old.topics.get(name):
                settings = TopicConfig.of(self._config, overrides)
                self._place_topic(topic, settings, is_new=bool(old.cluster_id))
            elif overrides != old.topic_configs.get(name, {}):
                self._configure_topic(topic, TopicConfig.of(self._config, overrides))
        if not old.cluster_id and (strays := self.strays()):
            # Deleting them would be final, and a lost metadata file looks just like this.
            log.warning(
                "%d logs belong to no topic of the cluster and are not served, the first is %s; "
                "remove their directories if they are not needed",
                len(strays),
                strays[0],
            )

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

    def _is_lost(self, place: TopicPartition, is_new: bool) -> bool:
        """Its log may lie in a directory that is offline: an empty one elsewhere would pass for
        all it has."""
        faulty = [each.path for each in self._store.directories if each.fault is not None]
        if not faulty or self._store.get(place) is not None:
            return False
        if is_new and place not in self._offline:
            return False
        self._put_offline(place, f"{place} may be in the log directory {faulty[0]}")
        return True

    def _place_topic(self, topic: TopicImage, settings: TopicConfig, is_new: bool) -> None:
        for partition, image in enumerate(topic.partitions):
            topic_partition = TopicPartition(topic.name, partition)
            if self._node_id in image.replicas:
                if not self._is_lost(topic_partition, is_new):
                    self._place(topic_partition, topic.id, image, settings)
            else:
                self._remove(topic_partition)

    def _place(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        image: PartitionImage,
        settings: TopicConfig,
    ) -> None:
        replica = self._replicas.get(topic_partition)
        try:
            if replica is None:
                replica = self._open(topic_partition, topic_id, settings)
            else:
                replica.configure(settings)
            if replica.partition.change(image, self._clock.monotonic_ms()):
                if replica.partition.is_leader:
                    replica.log.assign_epoch(image.leader_epoch, replica.log.offset_end)
                self.waiting.disturb(replica)
            else:
                # Fewer may be in sync now, so that more is committed.
                self.waiting.changed(replica)
        except StorageFault as fault:
            self._put_offline(topic_partition, str(fault))
            return
        self._offline.pop(topic_partition, None)
        self._replicas[topic_partition] = replica

    def _open(
        self, topic_partition: TopicPartition, topic_id: TopicId, settings: TopicConfig
    ) -> Replica:
        earlier = self._store.get(topic_partition)
        if earlier is not None and earlier.topic_id not in (topic_id, NO_TOPIC_ID):
            # The topic was deleted and made anew while this broker was not looking.
            log.warning("deleting the log of an earlier topic partition=%s", topic_partition)
            self._store.delete(topic_partition)
        checkpointed = self._store.high_watermarks.get(topic_partition, 0)
        partition_log = self._store.create(topic_partition, topic_id, settings)
        partition = Partition(
            topic_partition,
            self._node_id,
            offset_end=partition_log.offset_end,
            high_watermark=max(checkpointed, partition_log.log_start_offset),
            min_insync_replicas=settings.min_insync_replicas,
            lag_max_ms=self._config.replica_lag_time_max_ms,
        )
        return Replica(partition, partition_log, settings, self.waiting, self._isr_changes)

    def _remove_topic(self, topic: TopicImage) -> None:
        for partition in range(len(topic.partitions)):
            self._remove(TopicPartition(topic.name, partition))

    def _remove(self, topic_partition: TopicPartition) -> None:
        self._offline.pop(topic_partition, None)
        replica = self._replicas.pop(topic_partition, None)
        if replica is None:
            return
        replica.partition.leave()
        try:
            self._store.delete(topic_partition)
        except StorageFault as fault:
            log.error("log not deleted partition=%s: %s", topic_partition, fault)
        self.waiting.disturb(replica)
