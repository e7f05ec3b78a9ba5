"""One partition as one of its replicas sees it: who leads, who is in sync, what is committed.

Pure. The log beside it holds the records; here are only the numbers that decide. The high
watermark never goes back while this broker leads, and never passes what an in-sync replica lacks.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.model.cluster import NO_LEADER, PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, Millis, Offset, TopicId, TopicPartition
from moldau.records.batch import NO_LEADER_EPOCH
from moldau.replication.in_sync_replicas import (
    NOBODY,
    AfterRefusal,
    Committed,
    IsrAnswer,
    IsrProposal,
    IsrState,
    Pending,
    PendingExpand,
    after_refusal,
    isr_text,
)

NEVER: Millis = -(1 << 62)
LAG_MAX_MS: Millis = 30_000


class Follower:
    """What the leader knows of another replica: how far it has got, and when it last had all."""

    __slots__ = ("caught_up_ms", "fetched_ms", "leader_end_at_fetch", "log_start", "offset_end")

    def __init__(self, caught_up_ms: Millis) -> None:
        self.offset_end: Offset = -1
        self.log_start: Offset = -1
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = NEVER
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

    def keeps_up(self, leader_end: Offset, now: Millis, lag_max_ms: Millis) -> bool:
        return self.offset_end == leader_end or now - self.caught_up_ms <= lag_max_ms


class Partition:
    __slots__ = (
        "_awaited",
        "_followers",
        "_min_insync_replicas",
        "_state",
        "adding",
        "epoch_start",
        "has_enough_in_sync",
        "high_watermark",
        "is_leader",
        "is_moving",
        "is_replicated",
        "isr",
        "lag_max_ms",
        "leader",
        "leader_epoch",
        "node_id",
        "offset_end",
        "partition_epoch",
        "replicas",
        "tenure",
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
        lag_max_ms: Millis = LAG_MAX_MS,
    ) -> None:
        self.topic_partition = topic_partition
        self.node_id = node_id
        self.offset_end = offset_end
        self.high_watermark = min(high_watermark, offset_end)
        self.lag_max_ms = lag_max_ms
        self._min_insync_replicas = min_insync_replicas
        self.has_enough_in_sync = False
        self.is_leader = False
        self.is_replicated = False
        """Whether a write has others to wait for."""
        self.leader: BrokerId = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH
        self.tenure = 0
        """How often this broker has begun to lead. What waits for the high watermark waits in one
        tenure: between two of them the log may have been cut and written anew, by another leader.
        Epochs in a row are one tenure: then nothing was cut."""
        self.epoch_start: Offset = 0
        """Where the log ended when this broker began to lead."""
        self.partition_epoch = -1
        self.replicas: tuple[BrokerId, ...] = ()
        self.adding: tuple[BrokerId, ...] = ()
        """Those of the replicas that a reassignment brings."""
        self.is_moving = False
        """Whether a reassignment is under way."""
        self.isr: frozenset[BrokerId] = NOBODY
        """As the controller said last; `_state` knows of changes under way."""
        self._state: IsrState = Committed()
        self._followers: dict[BrokerId, Follower] = {}
        self._awaited: list[Follower] = []
        """Those that the high watermark waits for."""

    def change(self, image: PartitionImage, now: Millis) -> bool:
        """Take the role that the controller gave; True if a new leader epoch begins with it."""
        is_new_epoch = image.leader_epoch > self.leader_epoch
        if image.leader_epoch < self.leader_epoch:
            return False
        if not is_new_epoch and image.partition_epoch < self.partition_epoch:
            # The answer to a proposal was quicker than this.
            return False
        # Told again what is known already: a proposal under way may still be granted, and whoever
        # is to join by it counts until the controller has said something new.
        is_open = (
            self.is_isr_pending
            and not is_new_epoch
            and image.partition_epoch == self.partition_epoch
        )
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.replicas = image.replicas
        self.adding, self.is_moving = image.adding, bool(image.adding or image.removing)
        was_leader, self.is_leader = self.is_leader, image.leader == self.node_id
        if not self.is_leader:
            self._followers, self._awaited, self.is_replicated = {}, [], False
            self._commit_isr(frozenset(image.isr))
            return is_new_epoch
        self.tenure += not was_leader
        if is_new_epoch:
            self.epoch_start = self.offset_end
        self._know_followers(image, now, is_new_epoch)
        if not is_open:
            self._commit_isr(frozenset(image.isr))
        self._await(now)
        self._advance()
        return is_new_epoch

    def _know_followers(self, image: PartitionImage, now: Millis, is_new_epoch: bool) -> None:
        known = {} if is_new_epoch else self._followers
        followers = {}
        for broker in image.replicas:
            if broker == self.node_id:
                continue
            follower = known.get(broker)
            if follower is None:
                # One that is not in sync must not hold back the high watermark before it fetches.
                follower = Follower(now if broker in image.isr else NEVER)
            followers[broker] = follower
        self._followers = followers
        self.is_replicated = bool(followers)

    def _commit_isr(self, isr: frozenset[BrokerId]) -> None:
        self._state = Committed(isr)
        self.isr = isr
        self.has_enough_in_sync = len(isr) >= self.insync_replicas_needed

    def leave(self) -> None:
        """The replica is removed from this broker: whoever still waits for it must give up."""
        self.is_leader = False
        self.leader = NO_LEADER
        self._followers, self._awaited = {}, []
        # Whatever comes of a proposal is no matter of this replica: without followers it would
        # take all that it has for committed.
        self._commit_isr(self.isr)

    @property
    def is_served(self) -> bool:
        """Whether the replica has a role here; not once it was taken away."""
        return self.is_leader or self.leader != NO_LEADER

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
                f"The size of the current ISR Set({isr_text(sorted(self.isr))}) is insufficient to "
                f"satisfy the min.isr requirement of {self.insync_replicas_needed} for partition "
                f"{self.topic_partition}",
            )

    # What is committed

    def appended(self, offset_end: Offset) -> bool:
        """The log has grown to here; True if the high watermark moved with it."""
        self.offset_end = offset_end
        if not self.is_replicated:
            self.high_watermark = offset_end
            return True
        return self._advance()

    def truncated(self, offset_end: Offset) -> None:
        self.offset_end = offset_end
        self.high_watermark = min(self.high_watermark, offset_end)

    def followed(self, offset_end: Offset, leader_high_watermark: Offset) -> bool:
        """This follower has so much now, and knows what its leader has committed; True if the
        high watermark moved."""
        self.offset_end = offset_end
        committed = min(leader_high_watermark, offset_end)
        if committed <= self.high_watermark:
            # What was committed once stays so, even if a new leader has yet to find out.
            return False
        self.high_watermark = committed
        return True

    def follower_fetched(
        self, follower: BrokerId, offset_end: Offset, now: Millis, log_start: Offset = -1
    ) -> Offset:
        """A follower has everything before `offset_end`; returns the high watermark after it."""
        known = self._followers[follower]
        known.fetched(offset_end, self.offset_end, now)
        known.log_start = log_start
        if known not in self._awaited and known.keeps_up(self.offset_end, now, self.lag_max_ms):
            self._awaited.append(known)
        self._advance()
        return self.high_watermark

    def follower_start(self, follower: BrokerId) -> Offset:
        return self._followers[follower].log_start

    def followers(self) -> dict[BrokerId, Follower]:
        return self._followers

    def low_watermark(self, log_start: Offset) -> Offset:
        """Every follower that fetches has deleted everything before this."""
        starts = [each.log_start for each in self._followers.values() if each.fetched_ms != NEVER]
        return min([log_start, *starts])

    def _await(self, now: Millis) -> None:
        maximal = self._state.maximal
        self._awaited = [
            follower
            for broker, follower in self._followers.items()
            if broker in maximal
            or (
                follower.offset_end >= 0
                and follower.keeps_up(self.offset_end, now, self.lag_max_ms)
            )
        ]

    def _advance(self) -> bool:
        # With too few replicas in sync the watermark stands still, so that nothing counts as
        # committed that the topic does not consider safe (KIP-966).
        if not self.has_enough_in_sync:
            return False
        committed = self.offset_end
        for follower in self._awaited:
            if follower.offset_end < committed:
                committed = follower.offset_end
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    # Who is in sync

    @property
    def isr_state(self) -> IsrState:
        return self._state

    @property
    def is_isr_pending(self) -> bool:
        return not isinstance(self._state, Committed)

    @property
    def has_enough_to_commit(self) -> bool:
        return len(self._state.maximal) >= self.insync_replicas_needed

    def lagging(self, now: Millis, lag_max_ms: Millis) -> frozenset[BrokerId]:
        """In-sync followers that have not had everything for so long: they leave the ISR."""
        return frozenset(
            broker
            for broker, follower in self._followers.items()
            if broker in self.isr and not follower.keeps_up(self.offset_end, now, lag_max_ms)
        )

    def may_join(self, follower: BrokerId) -> bool:
        """Whether it has all that is committed. What earlier leaders committed may be above our
        high watermark yet, but not above where we began."""
        if follower in self.isr or not isinstance(self._state, Committed):
            return False
        offset_end = self._followers[follower].offset_end
        return offset_end >= self.high_watermark and offset_end >= self.epoch_start

    def propose_join(self, follower: BrokerId, topic_id: TopicId, now: Millis) -> IsrProposal:
        assert isinstance(self._state, Committed), f"{self._state} is under way"
        state = self._state = self._state.expand(follower)
        self._await(now)
        return self._proposal(state, topic_id)

    def propose_shrink(self, lagging: frozenset[BrokerId], topic_id: TopicId) -> IsrProposal:
        assert isinstance(self._state, Committed), f"{self._state} is under way"
        state = self._state = self._state.shrink(lagging)
        return self._proposal(state, topic_id)

    def _proposal(self, state: Pending, topic_id: TopicId) -> IsrProposal:
        return IsrProposal(
            self.topic_partition,
            topic_id,
            self.leader_epoch,
            self.partition_epoch,
            tuple(broker for broker in self.replicas if broker in state.proposed),
            state,
        )

    def answered(
        self, proposal: IsrProposal, answer: IsrAnswer, now: Millis
    ) -> AfterRefusal | None:
        """What the controller said of a proposal; None if that settles it. `high_watermark` may
        have moved afterwards."""
        if self._state is not proposal.state:
            return None
        if answer.error is not Error.NONE:
            after = after_refusal(answer.error)
            if after is AfterRefusal.REVERT:
                self._state = proposal.state.committed
                if isinstance(proposal.state, PendingExpand):
                    # It is going or gone: whoever is not waits here again with its next fetch.
                    self._forget(proposal.state.joining)
                self._await(now)
                self._advance()
            return after
        if (
            answer.leader_epoch != self.leader_epoch
            or answer.partition_epoch < self.partition_epoch
        ):
            return AfterRefusal.AWAIT
        self.partition_epoch = answer.partition_epoch
        self._commit_isr(frozenset(answer.isr))
        self._await(now)
        self._advance()
        return None

    def look_again(self, now: Millis, gone: Collection[BrokerId] = ()) -> bool:
        """Time has passed or brokers went away: who was waited for only because it kept up may be
        so no longer. True if the high watermark moved."""
        for broker in gone:
            if broker in self._followers and broker not in self._state.maximal:
                self._forget(broker)
        self._await(now)
        return self._advance()

    def _forget(self, broker: BrokerId) -> None:
        """Not in sync, and it may never fetch again: writes must not wait until it lags."""
        follower = self._followers[broker]
        follower.caught_up_ms = NEVER
        follower.offset_end = -1
