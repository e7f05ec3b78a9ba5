"""The controller's decisions where there are several brokers: Kafka's ZooKeeper mode.

Pure. What clients ask is decided as for one broker; here stands what brokers, the tree and time
bring. Each decision changes partitions, and what brokers have to be told follows from its facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.controller import cluster_commands as commands
from moldau.controller.broker_requests.announcements import Announcements, StoppedReplica
from moldau.controller.broker_requests.state_requests import RequestWriter
from moldau.controller.cluster_facts import (
    AdminNodeRemoved,
    DeletionsQueued,
    Liveness,
    LivenessChanged,
    MovesFollowed,
    PreferredElected,
    TookOver,
    UncleanDefaultChanged,
)
from moldau.controller.cluster_state import (
    UNCLEAN_ELECTION,
    ClusterState,
    has_state,
    is_true,
    places_of,
)
from moldau.controller.controller_facts import (
    ConfigKind,
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from moldau.controller.controller_machine import (
    ControllerMachine,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
)
from moldau.controller.rules import topic_deletions
from moldau.controller.rules.changed_partitions import ChangedPartitions
from moldau.controller.rules.isr_rules import altered, check_broker
from moldau.controller.rules.leader_elections import Election, elect
from moldau.controller.rules.leader_selection import relieved, settled
from moldau.controller.rules.outside_changes import (
    added,
    forgotten,
    grown,
    reading_begun,
    seen,
    untouched,
)
from moldau.controller.rules.preferred_leaders import imbalanced
from moldau.controller.rules.reassignment_rules import Move, done_if_in_sync, is_moving, reassign
from moldau.engine.machine import NO_TOKEN, Decision, Reply, Timer, Token, Volatile
from moldau.metadata import paths
from moldau.model.clock import Now
from moldau.model.cluster import PartitionImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, TopicPartition

MOVES_DUE = "moves"


class ClusterMachine(ControllerMachine):
    state: ClusterState

    def __init__(self, state: ClusterState, writer: RequestWriter) -> None:
        super().__init__(state)
        self._writer = writer

    def decide(self, command: object, token: Token, now: Now) -> Decision:
        decision = self._decide(command, token, now)
        facts = tuple(f.fact if isinstance(f, Volatile) else f for f in decision.facts)
        announcements = Announcements(self.state, self._writer).add(facts)
        self._announce_more(command, facts, announcements)
        return decision._replace(sends=announcements.sends())

    def _decide(self, command: object, token: Token, now: Now) -> Decision:
        match command:
            case commands.TakeOver():
                return self._take_over(command, token)
            case commands.ChangeBrokers(brokers):
                return self._change_brokers(self.state.liveness.seeing(brokers), token)
            case commands.AlterPartition():
                return self._alter_partition(command, token, now)
            case commands.ControlledShutdown():
                return self._shut_down(command, token)
            case commands.SeeReplicas(broker, offline, online):
                liveness = self.state.liveness.disks_seen(broker, offline, online)
                fact = LivenessChanged(liveness)
                return self._settle(token, liveness, fact, only={*offline, *online})
            case commands.AskForReplicas():
                return Decision.reply(token, None)
            case commands.BeginReading():
                return reading_begun(self.state, token)
            case commands.TellAgain(broker) if broker in self.state.liveness.brokers:
                return _told(token, Volatile(LivenessChanged(self.state.liveness, (broker,))))
            case commands.TellAgain():
                return Decision.reply(token, None)
            case commands.ContinueMoves(places):
                return self._continue_moves(places, token)
            case commands.RebalanceLeaders(threshold):
                places = imbalanced(self.state, threshold).places
                return self._prefer(places, token)
            case DeleteTopics():
                return self._queue_deletions(command, token)
            case ElectLeaders(Election.PREFERRED, asked):
                return self._said_preferred(super().decide(command, token, now), asked)
            case commands.QueueFoundDeletions(names, is_enabled):
                sure = untouched(self.state, names)
                return _told(token, *topic_deletions.found(self.state, sure, is_enabled))
            case commands.ConfirmDeleted():
                return _told(token, *topic_deletions.confirmed(self.state, command))
            case _:
                return self._see(command, token, now)

    def _see(self, command: object, token: Token, now: Now) -> Decision:
        """What somebody else has written into the tree."""
        match command:
            case commands.AddFoundTopics():
                return _told(token, *added(self.state, command))
            case commands.ForgetTopics(names):
                return _told(token, *forgotten(self.state, names))
            case commands.GrowFoundTopic():
                return _told(token, *grown(self.state, command))
            case commands.SeeStates(states):
                return _told(token, *seen(self.state, states))
            case commands.SeeConfigs(kind, name, overrides):
                fact: object = ConfigsChanged(kind, name, overrides)
                unclean = kind is ConfigKind.TOPIC and is_true(overrides.get(UNCLEAN_ELECTION))
                follow_up = commands.ElectOffline((name,)) if unclean else None
                return _followed(token, Volatile(fact), follow_up, now)
            case commands.SeeUncleanDefault(is_allowed):
                follow_up = commands.ElectOffline() if is_allowed else None
                return _followed(token, Volatile(UncleanDefaultChanged(is_allowed)), follow_up, now)
            case commands.FollowMoves():
                return self._follow_moves(command, token)
            case commands.FollowElections(places):
                decision = self._prefer(places, token)
                node = AdminNodeRemoved(paths.PREFERRED_REPLICA_ELECTION)
                return decision._replace(facts=(*decision.facts, node))
            case commands.ElectOffline(topics):
                return self._elect_offline(topics, token)
            case _:
                return super().decide(command, token, now)

    def _announce_more(
        self, command: object, facts: Iterable[object], announcements: Announcements
    ) -> None:
        """What does not follow from facts alone."""
        match command:
            case commands.AskForReplicas(brokers):
                for broker in brokers:
                    announcements.ask(broker)
            case commands.ControlledShutdown(broker):
                for topic in self.state.cluster.topics.values():
                    for place, partition in places_of(topic):
                        if partition.leader != broker and broker in partition.replicas:
                            epoch = partition.leader_epoch + (broker in partition.isr)
                            announcements.stop(broker, StoppedReplica(place, epoch, delete=False))
        for fact in facts:
            if isinstance(fact, LivenessChanged):
                for (place, broker), epoch in topic_deletions.owed(self.state):
                    if broker in fact.joined or broker in fact.bounced:
                        announcements.stop(broker, StoppedReplica(place, epoch, delete=True))

    # Brokers

    def _take_over(self, command: commands.TakeOver, token: Token) -> Decision:
        wanted = tuple(
            topic_deletions.found(self.state, command.deletions, command.deletion_is_enabled)
        )
        going = set(command.deletions) if command.deletion_is_enabled else set()
        decision = self._settle(token, self.state.liveness, TookOver(), without=going)
        return decision._replace(facts=(*decision.facts, *wanted))

    def _change_brokers(self, after: Liveness, token: Token) -> Decision:
        before = self.state.liveness
        joined = tuple(sorted(after.brokers.keys() - before.brokers.keys()))
        gone = tuple(sorted(before.brokers.keys() - after.brokers.keys()))
        both = sorted(before.brokers.keys() & after.brokers.keys())
        bounced = tuple(b for b in both if before.epoch_of(b) != after.epoch_of(b))
        if after.brokers == before.brokers:
            return Decision.reply(token, None)
        fact = LivenessChanged(after, joined, gone, bounced)
        if bounced:
            # Whoever came back has lost what it was: others lead first, then it may help out.
            alive = {b: live for b, live in after.brokers.items() if b not in bounced}
            return self._settle(token, after, fact, first=after._replace(brokers=alive))
        return self._settle(token, after, fact)

    def _settle(
        self,
        token: Token,
        liveness: Liveness,
        fact: object | None,
        *,
        first: Liveness | None = None,
        only: set[TopicPartition] | None = None,
        without: set[str] | None = None,
    ) -> Decision:
        """Every partition as it should be with those who live."""
        partitions = ChangedPartitions(self.state)
        passed = {*self.state.deleting, *(without or ())}
        for topic in self.state.cluster.topics.values():
            if topic.name in passed:
                continue
            unclean = self.state.allows_unclean(topic.name)
            for place, now in places_of(topic):
                if only is not None and place not in only:
                    continue
                after = now
                if first is not None:
                    after = settled(now, place, first, allows_unclean=unclean)
                    # Kept even if all becomes as it was: that is a new epoch too.
                    partitions.put(topic, place.partition, after)
                after = settled(after, place, liveness, allows_unclean=unclean)
                if is_moving(after):
                    after = done_if_in_sync(after, liveness.brokers)
                partitions.put(topic, place.partition, after)
        volatile = () if fact is None else (Volatile(fact),)
        return _told(token, *volatile, *partitions.facts())

    def _elect_offline(self, topics: Sequence[str] | None, token: Token) -> Decision:
        """Unclean elections have become allowed."""
        names = self.state.cluster.topics if topics is None else topics
        wanted = {
            place
            for name in names
            if (topic := self.state.cluster.topics.get(name)) is not None
            for place, partition in places_of(topic)
            if not self.state.liveness.is_alive(partition.leader, place)
        }
        return self._settle(token, self.state.liveness, None, only=wanted)

    def _shut_down(self, command: commands.ControlledShutdown, token: Token) -> Decision:
        broker, broker_epoch = command.broker, command.broker_epoch
        epoch = self.state.liveness.epoch_of(broker)
        if epoch is None:
            text = f"Broker id {broker} does not exist."
            return Decision.refuse(token, Error.BROKER_NOT_AVAILABLE, text)
        if broker_epoch != -1 and broker_epoch < epoch:
            text = f"Broker {broker} has registered again since, with the epoch {epoch}."
            return Decision.refuse(token, Error.STALE_BROKER_EPOCH, text)
        liveness = self.state.liveness
        liveness = liveness._replace(shutting_down=liveness.shutting_down | {broker})
        partitions = ChangedPartitions(self.state)
        remaining: list[TopicPartition] = []
        for topic, place, now in self._held_by(broker):
            after = relieved(now, place, broker, liveness)
            if after is not now:
                partitions.put(topic, place.partition, after)
            elif now.leader == broker:
                remaining.append(place)
        facts = (Volatile(LivenessChanged(liveness)), *partitions.facts())
        return Decision(facts, replies=(Reply(token, remaining),))

    def _held_by(
        self, broker: BrokerId
    ) -> Iterable[tuple[TopicImage, TopicPartition, PartitionImage]]:
        for topic in self.state.cluster.topics.values():
            if topic.name not in self.state.deleting:
                for place, now in places_of(topic):
                    if broker in now.replicas and len(now.replicas) > 1 and has_state(now):
                        yield topic, place, now

    # Partitions

    def _alter_partition(
        self, command: commands.AlterPartition, token: Token, now: Now
    ) -> Decision:
        try:
            check_broker(self.state, command.broker, command.broker_epoch)
        except ApiError as refusal:
            return Decision.reply(token, refusal)
        partitions = ChangedPartitions(self.state)
        rows: list[PartitionImage | ApiError] = []
        due: list[TopicPartition] = []
        for change in command.changes:
            try:
                after = altered(self.state, partitions, command, change)
            except ApiError as refusal:
                rows.append(refusal.kept())
                continue
            rows.append(after)
            if is_moving(after) and set(after.adding) <= set(after.isr):
                due.append(change.place)
        # Its leader learns of the ISR first; the move is finished right after.
        follow_up = commands.ContinueMoves(tuple(due))
        timers = (Timer((MOVES_DUE, *due), now.monotonic_ms, follow_up),) if due else ()
        return Decision(partitions.facts(), timers, (Reply(token, rows),))

    def _continue_moves(self, places: Iterable[TopicPartition], token: Token) -> Decision:
        partitions = ChangedPartitions(self.state)
        followed = set(self.state.moves_followed)
        for place in places:
            topic = partitions.topic(place.topic)
            now = None if topic is None else partitions.partition(topic, place.partition)
            if topic is None or now is None or not is_moving(now):
                continue
            after = done_if_in_sync(now, self.state.liveness.brokers)
            if after is not now:
                partitions.put(topic, place.partition, after)
                followed.discard(place)
        facts: list[object] = list(partitions.facts())
        if len(followed) < len(self.state.moves_followed):
            facts.append(Volatile(MovesFollowed(tuple(followed))))
            if not followed:
                facts.append(AdminNodeRemoved(paths.REASSIGN_PARTITIONS))
        return _told(token, *facts)

    def _follow_moves(self, command: commands.FollowMoves, token: Token) -> Decision:
        partitions = ChangedPartitions(self.state)
        followed: list[TopicPartition] = []
        for move in command.moves:
            place = TopicPartition(move.topic, move.partition)
            try:
                reassign(self.state, partitions, move)
            except ApiError:
                continue
            topic = partitions.topic(move.topic)
            after = None if topic is None else partitions.partition(topic, move.partition)
            if after is not None and is_moving(after):
                followed.append(place)
        facts: tuple[object, ...] = partitions.facts()
        if followed:
            return _told(token, *facts, Volatile(MovesFollowed(tuple(followed))))
        return _told(token, *facts, AdminNodeRemoved(paths.REASSIGN_PARTITIONS))

    def _prefer(self, places: Iterable[TopicPartition], token: Token) -> Decision:
        partitions = ChangedPartitions(self.state)
        liveness = self.state.liveness
        online = liveness.brokers.keys() - liveness.shutting_down
        elected: dict[TopicPartition, BrokerId] = {}
        for place in places:
            if place.topic in self.state.deleting:
                continue
            try:
                elect(partitions, place, Election.PREFERRED, online)
            except ApiError:
                continue
            elected[place] = self._preferred(place)
        said = (Volatile(PreferredElected(elected)),) if elected else ()
        return Decision((*partitions.facts(), *said), replies=_replies(token, len(elected)))

    def _said_preferred(self, decision: Decision, asked: Iterable[TopicPartition]) -> Decision:
        (reply,) = decision.replies
        assert isinstance(reply.outcome, list)
        rows = zip(asked, reply.outcome, strict=True)
        elected = {place: self._preferred(place) for place, refusal in rows if refusal is None}
        if not elected:
            return decision
        return decision._replace(facts=(*decision.facts, Volatile(PreferredElected(elected))))

    def _preferred(self, place: TopicPartition) -> BrokerId:
        return self.state.cluster.topics[place.topic].partitions[place.partition].replicas[0]

    # Deletion

    def _queue_deletions(self, command: DeleteTopics, token: Token) -> Decision:
        rows = [None if isinstance(row, TopicDeleted) else row for row in self._delete(command)]
        queued = tuple(
            name
            for name, row in zip(command.names, rows, strict=True)
            if row is None and name not in self.state.deleting
        )
        facts = (DeletionsQueued(queued),) if queued else ()
        return Decision(facts, replies=(Reply(token, rows),))

    def _create(self, command: CreateTopics) -> Sequence[TopicCreated | ApiError]:
        text = "Its node in the metadata store cannot be read."
        there = ApiError(Error.TOPIC_ALREADY_EXISTS, text)
        rows = zip(command.topics, super()._create(command), strict=True)
        return [there if new.name in self.state.unreadable else row for new, row in rows]

    def _grow(self, command: CreatePartitions) -> Sequence[PartitionsAdded | ApiError]:
        going = ApiError(Error.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        rows = zip(command.topics, super()._grow(command), strict=True)
        return [going if more.topic in self.state.deleting else row for more, row in rows]

    def _check_movable(self, move: Move) -> None:
        if move.topic in self.state.deleting:
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, "The topic is queued for deletion.")

    def _check_electable(self, place: TopicPartition) -> None:
        # Brokers whose replicas are gone already would make them anew, empty.
        if place.topic in self.state.deleting:
            raise ApiError(Error.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")


def _told(token: Token, *facts: object) -> Decision:
    return Decision(tuple(facts), replies=_replies(token, None))


def _followed(token: Token, fact: object, follow_up: object, now: Now) -> Decision:
    timers = () if follow_up is None else (Timer(follow_up, now.monotonic_ms, follow_up),)
    return Decision((fact,), timers, _replies(token, None))


def _replies(token: Token, outcome: object) -> tuple[Reply, ...]:
    return () if token == NO_TOKEN else (Reply(token, outcome),)
