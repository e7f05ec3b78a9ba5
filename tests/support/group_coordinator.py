"""A group coordinator on virtual time, without a loop: commands in, answers by token out.

What is journalled goes through the codec, so `restart` comes back with what the bytes say and with
nothing else. Whatever waits then is answered NOT_COORDINATOR, as the engine does.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from moldau.engine.machine import NO_TOKEN, Decision, Timer, Token, Volatile
from moldau.groups import group_commands
from moldau.groups.group_facts import Protocol
from moldau.groups.group_machine import GroupMachine
from moldau.groups.group_record_codec import GroupCodec
from moldau.groups.group_settings import GroupSettings
from moldau.model.clock import Now
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.records.batch import read_header
from moldau.records.batch_codec import decode_batch
from moldau.wire.messages.consumer_protocol import ConsumerProtocolSubscription

GROUP = "readers"
WALL_START_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Coordinator:
    def __init__(self, **settings: int) -> None:
        self.settings = GroupSettings(**settings)
        self.machine = GroupMachine(self.settings)
        self.codec = GroupCodec()
        self.now_ms = 0
        self.wall_step_ms = 0
        """By how much somebody has set the wall clock."""
        self.batches: list[bytes] = []
        self.durable: list[object] = []
        self.facts: list[object] = []
        """Everything that happened, volatile facts unwrapped."""
        self.answers: dict[Token, Any] = {}
        self.waiting: set[Token] = set()
        self.timers: dict[Hashable, Timer] = {}
        self._last_token = NO_TOKEN
        self._random_ids = 0

    @property
    def wall_ms(self) -> int:
        return WALL_START_MS + self.now_ms + self.wall_step_ms

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.now_ms)

    def group(self, group_id: str = GROUP) -> Any:
        return self.machine.groups[group_id]

    def submit(self, command: object) -> Token:
        self._last_token += 1
        self.waiting.add(self._last_token)
        self._carry_out(self.machine.decide(command, self._last_token, self.now))
        return self._last_token

    def ask(self, command: object) -> Any:
        """The answer to a command that must not have to wait."""
        token = self.submit(command)
        assert token not in self.waiting, f"{command} waits"
        return self.answers[token]

    def _carry_out(self, decision: Decision) -> None:
        durable = [fact for fact in decision.facts if not isinstance(fact, Volatile)]
        self.batches += self.codec.encode(durable, self.wall_ms)
        self.durable += durable
        for each in decision.facts:
            fact = each.fact if isinstance(each, Volatile) else each
            self.machine.apply(fact)
            self.facts.append(fact)
        for timer in decision.timers:
            self.timers.pop(timer.key, None)
            if timer.at is not None:
                self.timers[timer.key] = timer
        for token, outcome in decision.replies:
            if token != NO_TOKEN:
                assert token in self.waiting, f"token {token} is answered twice"
                self.waiting.remove(token)
                self.answers[token] = outcome

    def pass_ms(self, delay_ms: int) -> None:
        end_ms = self.now_ms + delay_ms
        while due := [timer for timer in self.timers.values() if (timer.at or 0) <= end_ms]:
            timer = min(due, key=lambda each: each.at or 0)
            del self.timers[timer.key]
            self.now_ms = max(self.now_ms, timer.at or 0)
            self._carry_out(self.machine.decide(timer.command, NO_TOKEN, self.now))
        self.now_ms = end_ms

    def replayed(self) -> GroupMachine:
        """What another broker would know of these groups."""
        machine = GroupMachine(self.settings)
        for batch in self.batches:
            for fact in self.codec.decode(read_header(batch), decode_batch(batch)):
                machine.apply(fact)
        return machine

    def restart(self) -> None:
        for token in self.waiting:
            self.answers[token] = ApiError(Error.NOT_COORDINATOR)
        self.waiting.clear()
        self.timers.clear()
        self.machine = self.replayed()
        self.ask(group_commands.Loaded())

    def new_member_id(self, client_id: str = "consumer") -> str:
        self._random_ids += 1
        return f"{client_id}-{self._random_ids}"

    def join(self, member_id: str = "", **options: Any) -> Token:
        """A join of a client that is added at once; `member_id_required=True` for a modern one."""
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "new_member_id": self.new_member_id(),
            "instance_id": None,
            "client_id": "consumer",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": (Protocol("range", subscription("orders")),),
            "member_id_required": False,
        }
        return self.submit(group_commands.JoinGroup(member_id=member_id, **{**defaults, **options}))

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None
    ) -> Token:
        return self.submit(
            group_commands.SyncGroup(GROUP, generation, member_id, assignments=assignments or {})
        )

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> Any:
        return self.ask(group_commands.Heartbeat(GROUP, generation, member_id, instance_id))

    def leave(self, *member_ids: str) -> Any:
        leavers = tuple(group_commands.Leaver(member_id) for member_id in member_ids)
        return self.ask(group_commands.LeaveGroup(GROUP, leavers))

    def commit(self, offset: int, member_id: str = "", generation: int = -1, **options: Any) -> Any:
        place = options.pop("place", TopicPartition("orders", 0))
        topic_id = options.pop("topic_id", NO_TOPIC_ID)
        row = group_commands.OffsetRow(place, offset, 0, options.pop("metadata", ""), topic_id)
        options = {"group_id": GROUP, **options}
        return self.ask(
            group_commands.CommitOffsets(
                offsets=(row,), member_id=member_id, generation=generation, **options
            )
        )

    def committed(
        self, partition: int = 0, *, group_id: str = GROUP, require_stable: bool = False
    ) -> Any:
        asked = (group_commands.TopicOffsets("orders", (partition,)),)
        (topic,) = self.ask(group_commands.FetchOffsets(group_id, asked, require_stable))
        return topic.offsets[0]

    def stable(self, count: int = 1, **options: Any) -> list[str]:
        """The ids of the members of a group that has just become stable, the leader first."""
        tokens = [self.join(**options) for _ in range(count)]
        self.pass_ms(self.settings.initial_rebalance_delay_ms * (count + 1))
        ids = [self.answers[token].member_id for token in tokens]
        generation = self.answers[tokens[0]].generation
        for member_id in reversed(ids):
            self.sync(member_id, generation, {each: f"for {each}".encode() for each in ids})
        assert not self.waiting
        return ids

    def happened(self, kind: type) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


def subscription(*topics: str) -> bytes:
    return bytes(2) + ConsumerProtocolSubscription(topics=list(topics)).encode(0)


def error_of(outcome: Any) -> Error:
    """Of a refusal, or of a result that carries its error."""
    return outcome.error if outcome is not None else Error.NONE
