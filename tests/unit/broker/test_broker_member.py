"""A member on a shared tree: registered once, again after its session, told of settings."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.broker.system_clock import SystemClock
from moldau.cluster.controlled_shutdown import hand_over
from moldau.cluster.lone_controller import draw_topic_id
from moldau.cluster.membership import DuplicateBroker, Member
from moldau.cluster.tree import tree_layout
from moldau.config.broker_config import BrokerConfig
from moldau.controller.rules.topic_rules import NewTopic
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.store import Create, Delete, StoreUnavailable, Write
from moldau.model.cluster import BrokerNode, ClusterImage, Endpoint
from moldau.model.errors import ApiError, Error
from moldau.net.peers import PeerUnreachable
from moldau.testing.shared_tree import SharedTree, TreeSession
from moldau.wire.messages.replication import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from moldau.wire.messages.topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.support.controllers import eventually
from tests.support.services import turns

NODE = BrokerNode(1, (Endpoint("PLAINTEXT", "here", 9092),))


class Peers:
    """Answers from a list, and keeps what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def call(self, broker: int, request: Any, **options: Any) -> Any:
        self.asked.append((broker, request))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def forget(self, broker: int) -> None:
        self.asked.append((broker, "forgotten"))


class World:
    def __init__(self, tree: SharedTree, peers: Peers | None = None, **settings: str) -> None:
        self.session: TreeSession = tree.session()
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        self.config, _ = BrokerConfig.parse({"node.id": "1", **properties})
        self.timers = Timers(SystemClock(), asyncio.get_running_loop().call_later)
        self.images: list[ClusterImage] = []
        self.peers = peers or Peers()
        self.member = Member(
            self.session,
            1,
            "cluster",
            config=lambda: self.config,
            clock=SystemClock(),
            timers=self.timers,
            follow=lambda old, new: self.images.append(new),
            random_bytes=os.urandom,
            draw_id=lambda: draw_topic_id(os.urandom),
            peers=self.peers,
        )

    async def start(self) -> World:
        await tree_layout.lay_out(self.session)
        await self.member.load()
        return self

    async def stop(self) -> None:
        await self.member.close()
        await self.session.close()
        self.timers.close()


def play(story: Callable[[SharedTree], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(10):
            await story(SharedTree())

    asyncio.run(whole())


def test_a_broker_registers_with_the_transaction_of_its_node_as_its_epoch() -> None:
    async def story(tree: SharedTree) -> None:
        world = await World(tree).start()
        await world.member.join(NODE)
        node = tree.tree.find(paths.broker_path(1))
        assert node is not None
        assert paths.decode_broker(1, node.data) == NODE
        assert world.member.broker_epoch == node.created_by
        await world.stop()
        assert tree.tree.find(paths.broker_path(1)) is None

    play(story)


def test_a_second_broker_with_the_same_id_is_told_what_is_probably_wrong() -> None:
    async def story(tree: SharedTree) -> None:
        other = await World(tree).start()
        await other.member.join(BrokerNode(1, (Endpoint("PLAINTEXT", "elsewhere", 9092),)))
        world = await World(tree).start()
        with pytest.raises(DuplicateBroker, match="already registered on the path /brokers/ids/1"):
            await world.member.join(NODE)
        await world.stop()
        await other.stop()

    play(story)


def test_a_broker_that_restarts_faster_than_its_session_ends_waits_for_its_old_self() -> None:
    async def story(tree: SharedTree) -> None:
        old = await World(tree).start()
        await old.member.join(NODE)
        await old.member.close()
        world = await World(tree).start()
        joining = asyncio.create_task(world.member.join(NODE))
        asking = asyncio.create_task(world.member.registered())
        await asyncio.sleep(0.05)
        assert not joining.done()
        assert not asking.done(), "what controllers ask of it may be meant for its old self"
        old.session.expire()
        await joining
        await asking
        await world.stop()

    play(story)


def test_a_broker_that_registers_knows_which_controllers_are_out_of_office() -> None:
    async def story(tree: SharedTree) -> None:
        world = await World(tree).start()
        await world.session.create(paths.CONTROLLER_EPOCH, paths.encode_controller_epoch(7))
        # Somebody else is the controller: this broker does not become the controller itself.
        await world.session.create(paths.CONTROLLER, paths.encode_controller(2, 0))
        await world.member.join(NODE)
        view = world.member.view
        assert [epoch for epoch in range(5, 10) if view.is_stale(epoch)] == [5, 6]
        await world.stop()

    play(story)


def test_a_broker_that_registers_while_zookeeper_elects_a_leader_tries_again() -> None:
    """The first attempt fails outright, the second one succeeds without anybody hearing of it."""

    async def story(tree: SharedTree) -> None:
        world = await World(tree).start()
        create, faults = world.session.create, ["refused", "lost"]

        async def creating(path: str, *rest: Any, **named: Any) -> str:
            fault = faults.pop(0) if faults and path == paths.broker_path(1) else None
            made = path if fault == "refused" else await create(path, *rest, **named)
            if fault is not None:
                raise StoreUnavailable(path, fault)
            return made

        world.session.create = creating  # type: ignore[method-assign]
        await world.member.join(NODE)
        assert faults == []
        node = tree.tree.find(paths.broker_path(1))
        assert node is not None
        assert world.member.broker_epoch == node.created_by
        await world.stop()

    play(story)


def test_after_a_lost_session_the_broker_registers_again_with_a_new_epoch() -> None:
    async def story(tree: SharedTree) -> None:
        world = await World(tree).start()
        await world.member.join(NODE)
        before = world.member.broker_epoch
        world.session.expire()
        assert tree.tree.find(paths.broker_path(1)) is None
        world.session.reconnect(expired=True)
        await eventually(lambda: world.member.broker_epoch > before, "a new epoch")
        assert tree.tree.find(paths.broker_path(1)) is not None
        await world.stop()

    play(story)


def test_a_registration_of_an_expired_session_is_none_even_while_it_is_still_seen() -> None:
    async def story(tree: SharedTree) -> None:
        world = await World(tree).start()
        await world.member.join(NODE)
        before = world.member.broker_epoch
        # One server says that the session has expired, before the node goes at all of them.
        world.session.cut_off()
        world.session.reconnect(expired=True)
        for _ in range(20):
            await asyncio.sleep(0)
        tree.write([Delete(paths.broker_path(1))], None)
        await eventually(lambda: world.member.broker_epoch > before, "a new epoch")
        assert tree.tree.find(paths.broker_path(1)) is not None
        await world.stop()

    play(story)


def test_settings_are_read_at_the_start_and_when_somebody_leaves_a_note() -> None:
    async def story(tree: SharedTree) -> None:
        first = await World(tree).start()
        config = paths.encode_config({"retention.ms": "5"})
        tree.write([Create(paths.topic_config_path("t"), config)], None)
        world = await World(tree).start()
        assert world.member.image.topic_configs == {"t": {"retention.ms": "5"}}
        assert first.member.image.topic_configs == {}
        await world.member.join(NODE)
        note = Create(
            paths.CONFIG_CHANGE_PREFIX, paths.encode_config_change("topics/t"), sequential=True
        )
        changed = Write(paths.topic_config_path("t"), paths.encode_config({"retention.ms": "6"}))
        tree.write([changed, note], None)
        await eventually(
            lambda: world.member.image.topic_configs == {"t": {"retention.ms": "6"}}, "the change"
        )
        old = Create(
            paths.CONFIG_CHANGE_PREFIX,
            b'{"version":1,"entity_type":"brokers","entity_name":"1"}',
            sequential=True,
        )
        unreadable = Create(paths.CONFIG_CHANGE_PREFIX, b"[", sequential=True)
        dynamic = Create("/config/brokers/1", paths.encode_config({"a": "b"}))
        tree.write([dynamic, unreadable, old], None)
        await eventually(lambda: world.member.image.broker_configs == {"1": {"a": "b"}}, "brokers")
        await world.stop()
        await first.stop()

    play(story)


def test_a_failed_directory_is_told_of_though_the_store_could_not_be_reached_at_first() -> None:
    async def story(tree: SharedTree) -> None:
        world = await World(tree).start()
        await world.member.join(NODE)
        world.session.cut_off()
        telling = asyncio.create_task(world.member.log_dir_failed())
        await asyncio.sleep(0.05)
        assert tree.tree.children(paths.LOG_DIR_EVENTS) == []
        world.session.reconnect(expired=False)
        await telling
        # The controller may have read and removed it already: the number that it got stays.
        folder = tree.tree.put_of(paths.LOG_DIR_EVENTS)
        assert folder is not None
        assert folder.children_made == 1
        await world.stop()

    play(story)


def test_topics_that_get_a_first_replica_here_come_with_their_settings() -> None:
    async def story(tree: SharedTree) -> None:
        world = await World(tree).start()
        config = paths.encode_config({"retention.ms": "5"})
        tree.write([Create(paths.topic_config_path("t"), config)], None)
        await world.member.learn_topics(["t", "u"])
        assert world.member.image.topic_configs == {"t": {"retention.ms": "5"}}
        count = len(world.images)
        await world.member.learn_topics(["t"])
        assert len(world.images) == count, "nothing new, nothing told"
        await world.stop()

    play(story)


def test_topics_that_were_made_while_a_broker_started_come_with_their_settings() -> None:
    """Of a new topic's settings no note tells, and it may have no replica here."""

    async def story(tree: SharedTree) -> None:
        before = paths.encode_config({"retention.ms": "5"})
        await tree_layout.lay_out(tree.session())
        tree.write([Create(paths.topic_config_path("early"), before)], None)
        world = await World(tree).start()
        config = paths.encode_config({"cleanup.policy": "compact"})
        tree.write([Create(paths.topic_config_path("late"), config)], None)
        await world.member.learn_late_topics()
        known = {"early": {"retention.ms": "5"}, "late": {"cleanup.policy": "compact"}}
        assert world.member.image.topic_configs == known
        count = len(world.images)
        await world.member.learn_late_topics()
        assert len(world.images) == count, "nothing new, nothing told"
        await world.stop()

    play(story)


def test_a_broker_without_zookeeper_for_a_moment_takes_its_roles_when_it_is_back() -> None:
    """The controller does not send them again to a broker whose session lives on."""

    async def story(tree: SharedTree) -> None:
        world = await World(tree).start()
        config = paths.encode_config({"retention.ms": "5"})
        tree.write([Create(paths.topic_config_path("t"), config)], None)
        world.session.cut_off()
        learning = asyncio.create_task(world.member.learn_topics(["t"]))
        await turns()
        assert not learning.done()
        world.session.reconnect(expired=False)
        await learning
        assert world.member.image.topic_configs == {"t": {"retention.ms": "5"}}
        await world.stop()

    play(story)


def test_a_broker_whose_session_must_be_over_gives_its_roles_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moldau.cluster.membership.SESSION_SLACK_MS", 0)

    async def story(tree: SharedTree) -> None:
        world = await World(tree, zookeeper_session_timeout_ms="1").start()
        world.session.cut_off()
        with pytest.raises(StoreUnavailable):
            await world.member.learn_topics(["t"])
        await world.stop()

    play(story)


def test_whoever_asks_before_the_controller_has_told_anything_waits_for_it() -> None:
    async def story(tree: SharedTree) -> None:
        world = await World(tree).start()
        asking = asyncio.create_task(world.member.ready())
        await asyncio.sleep(0.01)
        assert not asking.done()
        world.member.publish(ClusterImage("cluster", 1, brokers={1: NODE}))
        await asking
        await world.member.ready()
        await world.stop()

    play(story)


def test_a_broker_that_has_not_joined_knows_of_no_feature_at_a_level() -> None:
    async def story(tree: SharedTree) -> None:
        world = await World(tree).start()
        assert set(world.member.image.features.values()) == {0}
        await world.stop()

    play(story)


def test_transactions_are_of_version_2_while_every_broker_knows_them() -> None:
    """A broker of Apache Kafka 3.9 registers without a feature, and takes the level with it."""

    async def story(tree: SharedTree) -> None:
        def level() -> int:
            return world.member.image.features["transaction.version"]

        world = await World(tree).start()
        await world.member.join(NODE)
        await eventually(lambda: level() == 2)
        epoch = world.member.image.features_epoch
        other = tree.session()
        registration = json.loads(paths.encode_broker(NODE._replace(id=2), 17))
        old = json.dumps({**registration, "features": {}}).encode()
        await other.create(paths.broker_path(2), old, ephemeral=True)
        await eventually(lambda: level() == 0)
        assert world.member.image.features_epoch > epoch
        epoch = world.member.image.features_epoch
        await other.create(paths.broker_path(3), b"nonsense", ephemeral=True)
        await other.delete(paths.broker_path(2))
        await eventually(lambda: world.member.image.features_epoch > epoch)
        assert level() == 0, "nobody knows what the third one can do"
        await other.close()
        await eventually(lambda: level() == 2)
        node = await world.session.exists(paths.FEATURE)
        assert node is None or paths.decode_feature(node.data) == {}, "a 3.9 would not start on it"
        await world.stop()

    play(story)


def test_topics_that_clients_want_are_asked_of_the_controller() -> None:
    async def story(tree: SharedTree) -> None:
        made = CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])
        refused = CreateTopicsResponse(
            topics=[CreatableTopicResult(name="t", error_code=Error.INVALID_REPLICATION_FACTOR)]
        )
        peers = Peers(made, refused, PeerUnreachable("gone"))
        world = await World(tree, peers, request_timeout_ms="20").start()
        world.member.image = ClusterImage(
            "cluster", 7, brokers={b: BrokerNode(b, ()) for b in (1, 7)}
        )
        await world.member.controller.create_missing([NewTopic("t", 2, 3)])
        broker, request = peers.asked[0]
        assert broker == 7
        assert isinstance(request, CreateTopicsRequest)
        assert (request.topics[0].num_partitions, request.topics[0].replication_factor) == (2, 3)
        for error in (Error.INVALID_REPLICATION_FACTOR, Error.COORDINATOR_NOT_AVAILABLE):
            with pytest.raises(ApiError) as refusal:
                await world.member.controller.create_missing([NewTopic("t")])
            assert refusal.value.error is error
        await world.stop()

    play(story)


def test_a_broker_hands_over_and_tries_again_as_often_as_it_may() -> None:
    async def story(tree: SharedTree) -> None:
        remaining = RemainingPartition(topic_name="t", partition_index=0)
        peers = Peers(
            PeerUnreachable("gone"),
            ControlledShutdownResponse(error_code=Error.NOT_CONTROLLER),
            ControlledShutdownResponse(remaining_partitions=[remaining]),
            ControlledShutdownResponse(),
        )
        settings = {"controlled_shutdown_retry_backoff_ms": "1"}
        world = await World(tree, peers, **settings).start()
        world.member.image = ClusterImage(
            "cluster", 7, brokers={b: BrokerNode(b, ()) for b in (1, 7)}
        )
        world.member.broker_epoch = 55
        await hand_over(world.member, 1, world.config, world.timers)
        assert len(peers.asked) == 4
        assert peers.asked[-1][0] == 7
        assert isinstance(peers.asked[-1][1], ControlledShutdownRequest)
        assert peers.asked[-1][1].broker_epoch == 55
        peers.answers = [PeerUnreachable("gone")] * 4
        await hand_over(world.member, 1, world.config, world.timers)
        assert not peers.answers, "once and three times again"
        await world.stop()

    play(story)
