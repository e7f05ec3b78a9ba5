"""Consumer groups and transactions of the clients that are programs of their own.

Members and producers live inside the program and are named by a number. What a member saw since
it was last asked comes with each answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tests.compat.clients.group_port import (
    HEARTBEAT_MS,
    METADATA_AGE_MS,
    SESSION_TIMEOUT_MS,
    Change,
    Group,
    GroupMember,
    Member,
    Place,
    Read,
    Subscription,
)
from tests.compat.clients.program import ProgramClient, decoded, encoded
from tests.compat.clients.transaction_port import TRANSACTION_TIMEOUT_MS, Producer

numbers = itertools.count()


class ProgramMember:
    def __init__(self, client: ProgramClient, wanted: Subscription) -> None:
        self.client = client
        self.name = f"member-{next(numbers)}"
        self.seen_changes: list[Change] = []
        self.seen_reads: list[Read] = []
        self.is_stopped = False
        self.ask(
            "member_join",
            **wanted._asdict(),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_ms=HEARTBEAT_MS,
            metadata_age_ms=METADATA_AGE_MS,
        )

    def ask(self, op: str, **arguments: Any) -> Any:
        return self.client.ask(op, member=self.name, **arguments)

    def look(self) -> None:
        if self.is_stopped:
            return
        seen = self.ask("member_seen")
        self.seen_changes += [Change(at, kind, places(rows)) for at, kind, rows in seen["changes"]]
        self.seen_reads += [Read(*row, decoded(value) or b"") for *row, value in seen["reads"]]

    def changes(self) -> list[Change]:
        self.look()
        return list(self.seen_changes)

    def reads(self) -> list[Read]:
        self.look()
        return list(self.seen_reads)

    def commit(self, *, wait: bool) -> None:
        self.ask("member_commit", wait=wait)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self.ask("member_seek", topic=topic, partition=partition, offset=offset)

    def stop(self) -> None:
        if not self.is_stopped:
            self.ask("member_stop")
            self.look()
            self.is_stopped = True


class ProgramGroups:
    deletes_groups = True

    def __init__(self, client: ProgramClient) -> None:
        self.client = client
        is_kafkajs = client.name == "kafkajs"
        self.has_static_members = not is_kafkajs
        self.is_cooperative = not is_kafkajs
        self.notices_new_topics = not is_kafkajs

    def join(self, subscription: Subscription) -> Member:
        return ProgramMember(self.client, subscription)

    def groups(self) -> set[str]:
        return set(self.client.ask("groups"))

    def describe(self, group: str) -> Group:
        state, members = self.client.ask("describe_group", group=group)
        rows = (GroupMember(client_id, places(assigned)) for client_id, assigned in members)
        return Group(state.lower(), tuple(rows))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        offsets = self.client.ask("committed", group=group, topic=topic)
        return {int(partition): offset for partition, offset in offsets.items()}

    def reset(self, group: str, topic: str, partition: int, offset: int) -> None:
        place = {"topic": topic, "partition": partition, "offset": offset}
        self.client.ask("reset_group", group=group, **place)

    def delete(self, group: str) -> None:
        self.client.ask("delete_group", group=group)


class ProgramProducer:
    def __init__(self, client: ProgramClient, transactional_id: str) -> None:
        self.client = client
        self.name = f"producer-{next(numbers)}"
        wanted = {"transactional_id": transactional_id, "timeout_ms": TRANSACTION_TIMEOUT_MS}
        self.ask("producer_init", **wanted)

    def ask(self, op: str, **arguments: Any) -> None:
        self.client.ask(op, producer=self.name, **arguments)

    def begin(self) -> None:
        self.ask("producer_begin")

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        rows = [encoded(value) for value in values]
        self.ask("producer_send", topic=topic, partition=partition, values=rows)

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        rows = {str(partition): offset for partition, offset in offsets.items()}
        self.ask("producer_offsets", group=group, topic=topic, offsets=rows)

    def commit(self) -> None:
        self.ask("producer_commit")

    def abort(self) -> None:
        self.ask("producer_abort")

    def close(self) -> None:
        self.ask("producer_close")


class ProgramTransactions:
    def __init__(self, client: ProgramClient) -> None:
        self.client = client
        self.sends_offsets_alone = client.name != "franz-go"

    def producer(self, transactional_id: str) -> Producer:
        return ProgramProducer(self.client, transactional_id)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return ProgramGroups(self.client).committed(group, topic)


def places(rows: Sequence[Sequence[Any]]) -> frozenset[Place]:
    return frozenset((topic, partition) for topic, partition in rows)
