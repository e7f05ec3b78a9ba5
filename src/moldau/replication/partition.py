"""One partition as one of its replicas sees it: who leads, who is in sync, what is committed.

Pure. The log beside it holds the records; here are only the numbers that decide. The high
watermark never goes back while this broker leads, and never passes what an in-sync replica lacks.
"""

from __future__ import annotations

from moldau.model.cluster import NO_LEADER, PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, Millis, Offset, TopicPartition
from moldau.records.batch import NO_LEADER_EPOCH


class Follower:
    """What the leader knows of another replica: how far it has got, and when it last had all."""

    __slots__ = ("caught_up_ms", "fetched_ms", "leader_end_at_fetch", "offset_end")

    def __init__(self, now: Millis) -> None:
        self.offset_end: Offset = -1
        self.caught_up_ms = now
        self.fetched_ms = now
        self.leader_end_at_fetch: Offset = 0

    def fetched(self, offset_end: Offset, leader_end: Offset, now: Millis) -> None:
        if offset_end >= leader_end:
            self.caught_up_ms = now
        elif offset_end >= self.leader_end_at_fetch:
            # It has what there was when it last asked: under steady writes a follower is never
            # level with the leader at the very moment of its fetch, yet it keeps up.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.offset_end = offset_end
        self.fetched_ms = now
        self.leader_end_at_fetch = leader_end


class Partition:
    __slots__ = (
        "_followers",
        "_min_insync_replicas",
        "has_enough_in_sync",
        "high_watermark",
        "is_leader",
        "isr",
        "leader",
        "leader_epoch",
        "node_id",
        "offset_end",
        "partition_epoch",
        "replicas",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        node_id: BrokerId,
        *,
        offset_end: Offset = 0,
        high_watermark: Offset = 0,
        min_insync_replicas: int = 1,
    ) -> None:
        self.topic_partition = topic_partition
        self.node_id = node_id
        self.offset_end = offset_end
        self.high_watermark = min(high_watermark, offset_end)
        self._min_insync_replicas = min_insync_replicas
        self.has_enough_in_sync = False
        self.is_leader = False
        self.leader: BrokerId = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[BrokerId, ...] = ()
        self.isr: frozenset[BrokerId] = frozenset()
        self._followers: dict[BrokerId, Follower] = {}

    def change(self, image: PartitionImage, now: Millis) -> bool:
        """Take the role that the controller gave; True if a new leader epoch begins with it."""
        is_new_epoch = image.leader_epoch > self.leader_epoch
        if image.leader_epoch < self.leader_epoch:
            return False
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.replicas = image.replicas
        self.isr = frozenset(image.isr)
        self.has_enough_in_sync = len(self.isr) >= self.insync_replicas_needed
        self.is_leader = image.leader == self.node_id
        if not self.is_leader:
            self._followers = {}
            return is_new_epoch
        known = {} if is_new_epoch else self._followers
        self._followers = {
            broker: known.get(broker) or Follower(now)
            for broker in image.replicas
            if broker != self.node_id
        }
        self._advance()
        return is_new_epoch

    def leave(self) -> None:
        """The replica is removed from this broker: whoever still waits for it must give up."""
        self.is_leader = False
        self.leader = NO_LEADER
        self._followers = {}

    # What may be asked of this replica

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a request that speaks of another leader epoch than ours; -1 speaks of none."""
        if current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            error, age = Error.FENCED_LEADER_EPOCH, "older"
        else:
            error, age = Error.UNKNOWN_LEADER_EPOCH, "newer"
        raise ApiError(
            error,
            f"{self.topic_partition} is in leader epoch {self.leader_epoch}; "
            f"{current_leader_epoch} is {age}",
        )

    def check_leader(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> None:
        self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise ApiError(
                Error.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by {self.leader}"
            )

    def check_follower(self, follower: BrokerId, current_leader_epoch: int) -> None:
        """Only a replica of the partition may fetch as one."""
        if follower not in self._followers:
            # A broker that knows the epoch may know of an assignment that we have yet to hear of.
            knows_epoch = current_leader_epoch != NO_LEADER_EPOCH
            raise ApiError(
                Error.UNKNOWN_LEADER_EPOCH if knows_epoch else Error.NOT_LEADER_OR_FOLLOWER,
                f"broker {follower} is no follower of {self.topic_partition}",
            )

    @property
    def insync_replicas_needed(self) -> int:
        """A topic with fewer replicas than `min.insync.replicas` needs all it has."""
        return min(self._min_insync_replicas, len(self.replicas))

    def require_in_sync(self, min_insync_replicas: int) -> bool:
        """The topic's setting has changed; True if the high watermark moved with it."""
        self._min_insync_replicas = min_insync_replicas
        self.has_enough_in_sync = len(self.isr) >= self.insync_replicas_needed
        return self.is_leader and self._advance()

    def check_in_sync(self) -> None:
        if not self.has_enough_in_sync:
            raise ApiError(
                Error.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(self.isr)} replicas in sync and needs "
                f"{self.insync_replicas_needed}",
            )

    # What is committed

    def appended(self, offset_end: Offset) -> bool:
        """The log has grown to here; True if the high watermark moved with it."""
        self.offset_end = offset_end
        if not self._followers:
            self.high_watermark = offset_end
            return True
        return self._advance()

    def truncated(self, offset_end: Offset) -> None:
        self.offset_end = offset_end
        self.high_watermark = min(self.high_watermark, offset_end)

    def follower_fetched(self, follower: BrokerId, offset_end: Offset, now: Millis) -> Offset:
        """A follower has everything before `offset_end`; returns the high watermark after it."""
        self._followers[follower].fetched(offset_end, self.offset_end, now)
        self._advance()
        return self.high_watermark

    def follower_end(self, follower: BrokerId) -> Offset:
        """-1 until it has fetched in this leader epoch."""
        return self._followers[follower].offset_end

    def lagging(self, now: Millis, lag_max_ms: Millis) -> frozenset[BrokerId]:
        """In-sync followers that have not had everything for so long: they leave the ISR."""
        return frozenset(
            broker
            for broker, follower in self._followers.items()
            if broker in self.isr
            and follower.offset_end < self.offset_end
            and now - follower.caught_up_ms > lag_max_ms
        )

    def _advance(self) -> bool:
        # With too few replicas in sync the watermark stands still, so that nothing counts as
        # committed that the topic does not consider safe (KIP-966).
        if not self.has_enough_in_sync:
            return False
        committed = self.offset_end
        for broker, follower in self._followers.items():
            if broker in self.isr and follower.offset_end < committed:
                committed = follower.offset_end
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True
