"""What `moldau.Consumer` promises as a member of a group."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau import Admin, Consumer, Producer, TopicPartition, errors
from moldau.client.admin.admin_results import NewPartitions
from moldau.client.consumer.assignment.partition_assignors import Assignment, RebalanceProtocol
from moldau.client.consumer.consumer_membership import MemberState
from tests.support.eventually import eventually
from tests.support.group_members import Event, Member
from tests.support.topics import create_topic, fill

Names = Callable[[str], str]
Make = Callable[..., Member]


@pytest.fixture
def join(bootstrap: str) -> Iterator[Make]:
    members: list[Member] = []

    def member(name: str, topics: list[str], **settings: Any) -> Member:
        settings = {"heartbeat_interval_ms": 100, "metadata_max_age_ms": 500, **settings}
        members.append(Member(name, topics, bootstrap_servers=bootstrap, **settings))
        return members[-1]

    yield member
    for each in members:
        if each.thread.is_alive():
            each.stop()


def shared(*members: Member) -> list[int]:
    return sorted(len(member.owned) for member in members)


def settle(total: int, *members: Member) -> None:
    """Wait until every partition has exactly one owner and nobody is at it any more."""

    def is_settled() -> bool:
        owned = [tp for member in members for tp in member.owned]
        stable = all(m.consumer.member_state is MemberState.STABLE for m in members)
        return stable and len(owned) == total == len(set(owned)) and spread(members)

    def spread(each: tuple[Member, ...]) -> bool:
        sizes = [len(member.owned) for member in each]
        return max(sizes) - min(sizes) <= 1

    eventually(is_settled)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_share_partitions_and_take_over_from_each_other(
    bootstrap: str, join: Make, fresh_name: Names, strategy: str
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("shared"), 6), fresh_name("g")
    options: dict[str, Any] = {"group_id": group, "partition_assignment_strategy": strategy}
    first = join("c0", [topic], **options)
    settle(6, first)
    second = join("c1", [topic], **options)
    third = join("c2", [topic], **options)
    settle(6, first, second, third)
    assert shared(first, second, third) == [2, 2, 2]
    for index in range(6):
        fill(bootstrap, TopicPartition(topic, index), [f"{index}-{n}" for n in range(20)])
    eventually(lambda: sum(len(m.values) for m in (first, second, third)) >= 120)
    second.stop()
    settle(6, first, third)
    for index in range(6):
        fill(bootstrap, TopicPartition(topic, index), [f"{index}-{n}" for n in range(20, 30)])
    wanted = sorted(b"%d-%d" % (index, n) for index in range(6) for n in range(30))
    members = (first, second, third)
    eventually(lambda: sum(len(member.values) for member in members) >= len(wanted))
    assert sorted(value for member in members for value in member.values) == wanted


def test_all_members_let_go_before_any_gets_new_partitions(
    bootstrap: str, join: Make, fresh_name: Names
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("order"), 6), fresh_name("g")
    events: list[Event] = []
    options = {"group_id": group, "events": events, "partition_assignment_strategy": "range"}
    first, second = join("c0", [topic], **options), join("c1", [topic], **options)
    settle(6, first, second)
    del events[:]
    third = join("c2", [topic], **options)
    settle(6, first, second, third)
    kinds = [(who, what) for who, what, _ in events]
    assert {("c0", "revoked"), ("c1", "revoked")} <= set(kinds)
    revoked = max(kinds.index(("c0", "revoked")), kinds.index(("c1", "revoked")))
    assigned = min(place for place, (_, what) in enumerate(kinds) if what == "assigned")
    assert revoked < assigned


def test_cooperative_members_keep_what_stays_theirs(
    bootstrap: str, join: Make, fresh_name: Names
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("coop"), 4), fresh_name("g")
    options = {"group_id": group, "partition_assignment_strategy": "cooperative-sticky"}
    first = join("c0", [topic], **options)
    settle(4, first)
    second = join("c1", [topic], **options)
    settle(4, first, second)
    revoked = [tps for _, what, tps in first.events if what == "revoked"]
    assert [len(tps) for tps in revoked] == [2]
    assert first.owned.isdisjoint(revoked[0])


def test_members_beyond_the_partitions_stay_idle(
    bootstrap: str, join: Make, fresh_name: Names
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("few"), 1), fresh_name("g")
    members = [join(f"c{n}", [topic], group_id=group) for n in range(2)]
    settle(1, *members)
    assert shared(*members) == [0, 1]


def test_members_with_different_strategies_use_the_one_they_share(
    bootstrap: str, join: Make, fresh_name: Names
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("mixed"), 4), fresh_name("g")
    first = join("c0", [topic], group_id=group, partition_assignment_strategy="range,sticky")
    second = join("c1", [topic], group_id=group, partition_assignment_strategy="sticky")
    settle(4, first, second)
    with Consumer(
        bootstrap_servers=bootstrap, group_id=group, partition_assignment_strategy="range"
    ) as odd:
        odd.subscribe([topic])
        with pytest.raises(errors.InconsistentGroupProtocolError):
            odd.poll(10)


class Everything:
    """All partitions to the member that says it is the boss."""

    name = "everything"
    protocols = (RebalanceProtocol.EAGER,)

    def __init__(self, is_boss: bool) -> None:
        self.is_boss = is_boss
        self.told: list[Assignment] = []

    def user_data(self, topics: Any) -> bytes:
        return b"boss" if self.is_boss else b""

    def assign(self, counts: Any, subscriptions: Any) -> dict[str, Assignment]:
        rows = [TopicPartition(topic, p) for topic in counts for p in range(counts[topic])]
        return {
            member: Assignment(tuple(rows) if row.user_data == b"boss" else ())
            for member, row in subscriptions.items()
        }

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self.told.append(assignment)


def test_a_users_own_assignor_shares_out(bootstrap: str, join: Make, fresh_name: Names) -> None:
    topic, group = create_topic(bootstrap, fresh_name("own"), 3), fresh_name("g")
    worker, boss = Everything(False), Everything(True)
    idle = join("c0", [topic], group_id=group, partition_assignment_strategy=[worker])
    busy = join("c1", [topic], group_id=group, partition_assignment_strategy=[boss])
    eventually(lambda: len(busy.owned) == 3 and not idle.owned)
    assert len(boss.told[-1].partitions) == 3


def test_a_pattern_takes_in_topics_that_come_later(
    bootstrap: str, join: Make, fresh_name: Names
) -> None:
    stem, group = fresh_name("p"), fresh_name("g")
    create_topic(bootstrap, f"{stem}-a")
    create_topic(bootstrap, f"other-{stem}-a")
    member = join("c0", [], pattern=f"{stem}-.*", group_id=group)
    settle(1, member)
    create_topic(bootstrap, f"{stem}-b", 2)
    settle(3, member)
    assert member.consumer.subscription() == {f"{stem}-a", f"{stem}-b"}


def test_new_partitions_of_a_topic_are_shared_out(
    bootstrap: str, join: Make, fresh_name: Names
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("grow"), 1), fresh_name("g")
    members = [join(f"c{n}", [topic], group_id=group) for n in range(2)]
    settle(1, *members)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_partitions({topic: NewPartitions(2)}).check()
    settle(2, *members)


def test_a_topic_that_does_not_exist_yet_is_read_once_it_does(
    bootstrap: str, join: Make, fresh_name: Names
) -> None:
    topic = fresh_name("later")
    member = join("c0", [topic], group_id=fresh_name("g"), allow_auto_create_topics=False)
    eventually(lambda: member.consumer.member_state is MemberState.STABLE)
    create_topic(bootstrap, topic)
    settle(1, member)


def test_a_member_that_does_not_poll_in_time_is_out_and_cannot_commit(
    bootstrap: str, fresh_name: Names
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("slow")), fresh_name("g")
    fill(bootstrap, TopicPartition(topic, 0), ["1"])
    told: list[str] = []

    class Listener:
        def on_partitions_lost(self, partitions: Any) -> None:
            told.append("lost")

    with Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_interval_ms=700,
        heartbeat_interval_ms=100,
    ) as consumer:
        consumer.subscribe([topic], Listener())
        assert len(consumer.poll(10)) == 1
        eventually(lambda: consumer.member_state is MemberState.UNJOINED)
        with pytest.raises(errors.CommitFailedError, match=r"max\.poll\.interval\.ms"):
            consumer.commit()
        assert len(consumer.poll(10)) == 1
        assert told == ["lost"]
        consumer.commit()


@pytest.mark.long
def test_heartbeats_keep_a_member_that_works_longer_than_its_session(
    bootstrap: str, fresh_name: Names
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("busy")), fresh_name("g")
    with Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
    ) as consumer:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is not None and bool(consumer.assignment()))
        before = consumer.group_metadata()
        end = time.monotonic() + 7
        eventually(lambda: time.monotonic() > end)
        consumer.poll(0.1)
        assert consumer.group_metadata() == before
        assert consumer.member_state is MemberState.STABLE


def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap: str, join: Make, fresh_name: Names
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("static"), 2), fresh_name("g")
    other = join("c0", [topic], group_id=group, group_instance_id="zero")
    member = join("c1", [topic], group_id=group, group_instance_id="one")
    settle(2, other, member)
    owned, generation = member.owned, other.consumer.group_metadata().generation_id
    member.stop()
    again = join("c1", [topic], group_id=group, group_instance_id="one")
    settle(2, other, again)
    assert again.owned == owned
    assert other.consumer.group_metadata().generation_id == generation


def test_a_second_consumer_with_the_same_instance_id_fences_the_first(
    bootstrap: str, fresh_name: Names
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("fence")), fresh_name("g")
    options: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_instance_id": "one",
        "heartbeat_interval_ms": 100,
    }
    with Consumer(**options) as first, Consumer(**options) as second:
        first.subscribe([topic])
        eventually(lambda: first.poll(0.1) is not None and bool(first.assignment()))
        second.subscribe([topic])
        eventually(lambda: second.poll(0.1) is not None and bool(second.assignment()))

        def is_fenced() -> bool:
            try:
                first.poll(0.1)
            except errors.FencedInstanceIdError:
                return True
            return False

        eventually(is_fenced)


def test_a_listener_may_use_the_consumer(bootstrap: str, fresh_name: Names) -> None:
    topic, group = create_topic(bootstrap, fresh_name("listen")), fresh_name("g")
    tp = TopicPartition(topic, 0)
    fill(bootstrap, tp, ["a", "b", "c"])
    with Consumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
    ) as consumer:

        class Listener:
            def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                for each in partitions:
                    consumer.seek(each, 1)

            def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
                consumer.commit()

        consumer.subscribe([topic], Listener())
        assert [record.value for record in consumer.poll(10)] == [b"b", b"c"]
        consumer.unsubscribe()
        committed = consumer.committed([tp])[tp]
        assert committed is not None
        assert committed.offset == 3


def test_an_error_of_a_listener_comes_out_of_poll(bootstrap: str, fresh_name: Names) -> None:
    topic = create_topic(bootstrap, fresh_name("angry"))

    class Listener:
        def on_partitions_assigned(self, partitions: Any) -> None:
            raise LookupError("angry")

    with Consumer(bootstrap_servers=bootstrap, group_id=fresh_name("g")) as consumer:
        consumer.subscribe([topic], Listener())
        with pytest.raises(LookupError, match="angry"):
            consumer.poll(10)


def test_a_member_that_waits_for_others_to_join_can_neither_commit_nor_be_held_up(
    bootstrap: str, fresh_name: Names
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("parked"), 2), fresh_name("g")
    options: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "partition_assignment_strategy": "cooperative-sticky",
        "heartbeat_interval_ms": 100,
        "auto_offset_reset": "earliest",
    }
    with Consumer(**options) as busy, Consumer(**options) as idle:
        for consumer in (busy, idle):
            consumer.subscribe([topic])

        def is_shared() -> bool:
            for consumer in (busy, idle):
                consumer.poll(0.1)
            return len(busy.assignment()) == len(idle.assignment()) == 1

        eventually(is_shared)
        busy.enforce_rebalance()
        eventually(
            lambda: busy.poll(0.1) is not None and busy.member_state is MemberState.REBALANCING
        )
        with pytest.raises(errors.RebalanceInProgressError, match="undergoing a rebalance"):
            busy.commit(dict.fromkeys(busy.assignment(), 0))
        busy.close()
        # Long before the coordinator would miss the heartbeats of the one that left.
        eventually(lambda: idle.poll(0.1) is not None and len(idle.assignment()) == 2)


def test_a_rebalance_can_be_enforced(bootstrap: str, fresh_name: Names) -> None:
    topic = create_topic(bootstrap, fresh_name("again"))
    with Consumer(bootstrap_servers=bootstrap, group_id=fresh_name("g")) as consumer:
        with pytest.raises(errors.IllegalStateError):
            consumer.enforce_rebalance()
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is not None and bool(consumer.assignment()))
        before = consumer.group_metadata().generation_id
        consumer.enforce_rebalance("because")
        eventually(
            lambda: (
                consumer.poll(0.1) is not None and consumer.group_metadata().generation_id > before
            )
        )


def test_offsets_are_committed_with_a_transaction(bootstrap: str, fresh_name: Names) -> None:
    source = TopicPartition(create_topic(bootstrap, fresh_name("source")), 0)
    fill(bootstrap, source, ["1", "2"])
    with (
        Consumer(
            bootstrap_servers=bootstrap,
            group_id=fresh_name("g"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name("t")) as producer,
    ):
        consumer.subscribe([source.topic])
        producer.init_transactions()
        count = 0
        while count < 2:
            records = consumer.poll(10)
            count += len(records)
        producer.begin_transaction()
        offsets = {source: consumer.position(source)}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
        committed = consumer.committed([source])[source]
        assert committed is not None
        assert committed.offset == 2


def test_the_life_of_a_member_is_logged_as_kafka_does(
    bootstrap: str, fresh_name: Names, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = create_topic(bootstrap, fresh_name("logged")), fresh_name("g")
    with (
        caplog.at_level(logging.INFO, "moldau.consumer"),
        Consumer(bootstrap_servers=bootstrap, group_id=group, client_id="me") as consumer,
    ):
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is not None and bool(consumer.assignment()))
    for text in (
        f"[Consumer clientId=me, groupId={group}] Subscribed to topic(s): {topic}",
        "Discovered group coordinator ",
        " rack: null)",
        "(Re-)joining group",
        "Successfully joined group with generation 1",
        f"Adding newly assigned partitions: {topic}-0",
    ):
        assert text in caplog.text
