"""Thousands of random interleavings of clients, lost answers, time-outs and restarts.

Each world is one seed: several clients of all ages join, sync, commit, vanish and return while the
coordinator is restarted under them. After every step what must always hold is checked. A failure
prints the seed; `MOLDAU_SEED=… pytest` replays that world alone.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from moldau.engine.machine import Token
from moldau.groups import group_commands, group_facts
from moldau.groups.classic.classic_group import GROUP_BYTES, ClassicGroup, State
from moldau.groups.classic.classic_members import MEMBER_BYTES
from moldau.groups.group_facts import Protocol
from moldau.groups.group_machine import GroupMachine
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from tests.support import seeds
from tests.support.group_coordinator import GROUP, Coordinator, subscription

WORLDS = 250
STEPS = 200
PARTITIONS = 6
TOPIC_ID = b"t" * 16
RANGE = Protocol("range", subscription("orders"))
STICKY = Protocol("sticky", subscription("orders"))
PROTOCOLS = ((RANGE,), (RANGE, STICKY), (STICKY, RANGE))
EXPIRE_LATER = group_commands.ExpireOffsets()
"""The same job, when the wall clock was set past every retention."""


class Client:
    """A consumer as it sees itself: it knows only the answers that have reached it."""

    def __init__(self, number: int, draw: random.Random) -> None:
        self.name = f"client{number}"
        self.instance_id = f"instance{number}" if draw.random() < 0.3 else None
        self.is_modern = draw.random() < 0.7
        self.forget()

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.must_join = True
        self.is_synced = False
        self.join: Token = 0
        self.sync: Token = 0
        self.others: tuple[str, ...] = ()
        self.leads = False
        self.owned: tuple[int, ...] = ()


class World:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.coordinator = Coordinator(
            initial_rebalance_delay_ms=self.draw.choice((0, 3_000)),
            members_max=self.draw.choice((3, 100, 100)),
        )
        self.clients = [Client(number, self.draw) for number in range(5)]
        self.owners: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
        """Who was told to own which partition, by life of the group and generation."""
        self.committed: dict[int, tuple[int, int]] = {}
        """Offset and number of the commit, by partition: what must be found."""
        self.in_transaction: dict[int, dict[int, tuple[int, int]]] = {}
        self.commits = 0
        self.shadow = GroupMachine(self.coordinator.settings)
        self.seen_durable = 0
        self.actions: list[Callable[[Client], None]] = [
            *[self.live] * 60,
            *[self.wait] * 4,
            self.join,
            self.sync,
            self.leave,
            self.vanish,
            *[self.commit_in_transaction] * 2,
            *[self.end_transaction] * 2,
            self.administer,
            self.restart,
        ]

    def run(self) -> None:
        for _ in range(STEPS):
            self.draw.choice(self.actions)(self.draw.choice(self.clients))
            self.coordinator.pass_ms(self.draw.randrange(200))
            self.check()
        self.end()

    def live(self, client: Client) -> None:
        """What a client that works would do next."""
        self.listen(client)
        if client.join or client.sync:
            return
        if client.must_join:
            self.join(client)
        elif not client.is_synced:
            self.sync(client)
        elif self.draw.random() < 0.5:
            self.commit(client)
        else:
            self.heartbeat(client)

    def join(self, client: Client) -> None:
        if client.join:
            return
        client.join = self.coordinator.join(
            client.member_id,
            new_member_id=self.coordinator.new_member_id(client.name),
            instance_id=client.instance_id,
            member_id_required=client.is_modern,
            knows_skip_assignment=client.is_modern,
            protocols=self.draw.choice(PROTOCOLS) if self.draw.random() < 0.3 else PROTOCOLS[1],
            rebalance_timeout_ms=self.draw.choice((8_000, 30_000)),
        )

    def listen(self, client: Client) -> None:
        """Take what has been answered; now and then it was lost on the way."""
        answers = self.coordinator.answers
        if client.join in answers:
            answer, client.join = answers[client.join], 0
            if self.draw.random() < 0.9:
                self.hear_join(client, answer)
        if client.sync in answers:
            answer, client.sync = answers[client.sync], 0
            if self.draw.random() < 0.9:
                self.hear_sync(client, answer)

    def hear_join(self, client: Client, answer: Any) -> None:
        if answer.error is Error.NONE or answer.error is Error.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            client.generation = answer.generation
            client.must_join = answer.error is Error.MEMBER_ID_REQUIRED
            client.is_synced = False
            client.leads = answer.leader == answer.member_id and not answer.skip_assignment
            client.others = tuple(member.member_id for member in answer.members)
        elif answer.error is not Error.REBALANCE_IN_PROGRESS:
            client.forget()

    def hear_sync(self, client: Client, answer: Any) -> None:
        if answer.error is Error.NONE:
            client.owned = tuple(answer.assignment)
            client.is_synced = True
        elif answer.error is Error.REBALANCE_IN_PROGRESS:
            client.must_join = True
        else:
            client.forget()

    def sync(self, client: Client) -> None:
        if client.sync or client.generation < 0:
            return
        assignments: dict[str, bytes] = {}
        if client.leads and client.others:
            for partition in range(PARTITIONS):
                owner = client.others[partition % len(client.others)]
                assignments[owner] = assignments.get(owner, b"") + bytes((partition,))
        client.sync = self.coordinator.sync(client.member_id, client.generation, assignments)

    def heartbeat(self, client: Client) -> None:
        answer = self.coordinator.heartbeat(client.member_id, client.generation, client.instance_id)
        if answer is not None and answer.error is Error.REBALANCE_IN_PROGRESS:
            client.must_join = True
        elif answer is not None:
            client.forget()

    def commit(self, client: Client) -> None:
        for partition in client.owned:
            offset = self.committed.get(partition, (0, 0))[0] + self.draw.randrange(3)
            place = TopicPartition("orders", partition)
            answer = self.coordinator.commit(
                offset, client.member_id, client.generation, place=place, topic_id=TOPIC_ID
            )
            if not isinstance(answer, ApiError):
                self.commits += 1
                self.committed[partition] = offset, self.commits

    def wait(self, client: Client) -> None:
        self.coordinator.pass_ms(self.draw.choice((1, 200, 1_000, 3_000, 11_000)))

    def leave(self, client: Client) -> None:
        self.coordinator.leave(client.member_id, "stranger")
        client.forget()

    def vanish(self, client: Client) -> None:
        """The process is gone; a new one starts from nothing."""
        client.forget()

    def commit_in_transaction(self, client: Client) -> None:
        producer_id, partition = self.draw.randrange(3), self.draw.randrange(PARTITIONS)
        offset = self.committed.get(partition, (0, 0))[0] + 1
        row = group_commands.OffsetRow(TopicPartition("orders", partition), offset)
        answer = self.coordinator.ask(
            group_commands.CommitTransactionalOffsets(
                GROUP,
                producer_id,
                0,
                (row,),
                client.generation,
                client.member_id,
            )
        )
        if not isinstance(answer, ApiError):
            self.commits += 1
            self.in_transaction.setdefault(producer_id, {})[partition] = offset, self.commits

    def end_transaction(self, client: Client) -> None:
        producer_id, committed = self.draw.randrange(3), self.draw.random() < 0.7
        self.coordinator.ask(group_commands.EndTransaction(producer_id, 0, 0, committed))
        for partition, value in self.in_transaction.pop(producer_id, {}).items():
            if committed and self.committed.get(partition, (0, 0))[1] < value[1]:
                self.committed[partition] = value

    def administer(self, client: Client) -> None:
        place = TopicPartition("orders", self.draw.randrange(PARTITIONS))
        command = self.draw.choice(
            (
                group_commands.DeleteGroup(GROUP),
                group_commands.DeleteOffsets(GROUP, (place,)),
                group_commands.ExpireOffsets(),
                EXPIRE_LATER,
                group_commands.DescribeGroup(GROUP),
                group_commands.ListGroups(),
            )
        )
        before = len(self.coordinator.durable)
        if command is EXPIRE_LATER:
            self.coordinator.wall_step_ms += 8 * 24 * 3_600_000
        self.coordinator.ask(command)
        for fact in self.coordinator.durable[before:]:
            if isinstance(fact, group_facts.OffsetsRemoved):
                for gone in fact.places:
                    self.committed.pop(gone.partition, None)
                    for held in self.in_transaction.values():
                        held.pop(gone.partition, None)

    def restart(self, client: Client) -> None:
        self.check_replay()
        waiting = {each.join for each in self.clients} | {each.sync for each in self.clients}
        self.coordinator.restart()
        for each in self.clients:
            each.join = each.sync = 0
        assert all(token in self.coordinator.answers for token in waiting - {0})

    def check(self) -> None:
        for fact in self.coordinator.durable[self.seen_durable :]:
            self.shadow.apply(fact)
            if isinstance(fact, group_facts.GroupStored):
                self.check_owners(fact)
        self.seen_durable = len(self.coordinator.durable)
        self.check_offsets()
        self.check_bytes()
        group = self.coordinator.machine.groups.get(GROUP)
        if group is not None:
            self.check_group(group)

    def check_owners(self, fact: group_facts.GroupStored) -> None:
        """One owner per partition per generation; a static member is the same under any id."""
        lives = len(self.coordinator.happened(group_facts.GroupDeleted))
        owners = self.owners[lives, fact.generation]
        for member in fact.members:
            for partition in member.assignment:
                owner = member.instance_id or member.member_id
                assert owners.setdefault(partition, owner) == owner, (partition, fact)

    def check_offsets(self) -> None:
        placed = self.coordinator.machine.offsets.of_group(GROUP)
        found = {place.partition: stored.value.offset for place, stored in placed.items()}
        assert found == {partition: value[0] for partition, value in self.committed.items()}

    def check_bytes(self) -> None:
        """What is counted is what is kept."""
        kept_bytes = 0
        for group in self.coordinator.machine.groups.values():
            kept_bytes += GROUP_BYTES + len(group.group_id)
            kept_bytes += sum(member.kept_bytes for member in group.members.values())
            kept_bytes += sum(MEMBER_BYTES + len(member_id) for member_id in group.pending)
            assert min(group.protocol_counts.values(), default=1) > 0
        assert self.coordinator.machine.kept_bytes == kept_bytes

    def check_group(self, group: ClassicGroup) -> None:
        members = group.members
        assert group.joining_count == sum(member.is_joining for member in members.values())
        assert (group.leader in members) if members else group.leader is None
        assert set(group.unsynced) <= set(members)
        assert not set(group.pending) & set(members)
        statics = {member.instance_id: name for name, member in members.items() if member.is_static}
        assert group.static_members == statics
        for protocol in (RANGE, STICKY):
            known = sum(member.metadata(protocol.name) is not None for member in members.values())
            assert group.protocol_counts[protocol.name] == known
        waits = {member.join_token for member in members.values()}
        waits |= {member.sync_token for member in members.values()}
        assert waits - {0} == self.coordinator.waiting, "somebody waits for nothing"
        if group.state is not State.PREPARING_REBALANCE:
            assert group.joining_count == 0
        if group.state is not State.COMPLETING_REBALANCE:
            assert not any(member.is_syncing for member in members.values())
        if group.state is State.EMPTY:
            assert not members
        if group.state is State.STABLE:
            assert durable_view(group) == durable_view(self.shadow.groups[GROUP])
        self.check_timers(group)

    def check_timers(self, group: ClassicGroup) -> None:
        """Nothing can be stuck: whoever is waited for has a time-out."""
        timers = self.coordinator.timers
        for member in group.members.values():
            assert member.is_known_to_live or ("session", GROUP, member.member_id) in timers
        for member_id in group.pending:
            assert ("session", GROUP, member_id) in timers
        assert (group.state is State.PREPARING_REBALANCE) == (("join", GROUP) in timers)
        if group.state is State.COMPLETING_REBALANCE:
            assert ("sync", GROUP) in timers

    def check_replay(self) -> None:
        replayed = self.coordinator.replayed()
        assert replayed.groups.keys() == self.shadow.groups.keys()
        for group_id, group in self.shadow.groups.items():
            assert durable_view(replayed.groups[group_id]) == durable_view(group)
        live = self.coordinator.machine.offsets
        assert replayed.offsets.committed == live.committed
        assert list(replayed.offsets.in_transactions()) == list(live.in_transactions())

    def end(self) -> None:
        """Everybody is gone: every token is answered, and the group is empty."""
        self.check_replay()
        self.coordinator.pass_ms(3_600_000)
        self.check()
        assert not self.coordinator.waiting
        group = self.coordinator.machine.groups.get(GROUP)
        assert group is None or group.state is State.EMPTY
        assert not self.coordinator.timers
        self.check_replay()


def durable_view(group: ClassicGroup) -> tuple[object, ...]:
    """What a restart must not forget."""
    return (
        group.state,
        group.state_timestamp_ms,
        group.protocol_type,
        group.generation,
        group.protocol,
        group.leader,
        [
            (
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                member.metadata(group.protocol),
                member.assignment,
            )
            for member in group.members.values()
        ],
    )


def test_random_interleavings_keep_every_promise() -> None:
    for seed in seeds.several(WORLDS):
        World(seed).run()
