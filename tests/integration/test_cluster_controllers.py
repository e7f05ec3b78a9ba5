"""Three controllers on one tree: one is active, the others wait, none acts after its time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from moldau.cluster import controller_election
from moldau.config.config_changes import ConfigChange, ResourceType
from moldau.controller import cluster_commands as commands
from moldau.controller.controller_facts import TopicCreated
from moldau.controller.rules.topic_rules import NewTopic
from moldau.engine.machine import Decision
from moldau.metadata import paths
from moldau.metadata.store import Create, Delete, StoreUnavailable
from moldau.model.cluster import BrokerNode, Endpoint
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.testing.shared_tree import SharedTree
from tests.support.controllers import Contender, eventually


class Cluster:
    def __init__(self) -> None:
        self.tree = SharedTree()
        self.brokers: dict[int, Contender] = {}

    async def start(self, *ids: int, **settings: str) -> Cluster:
        for node_id in ids:
            await Contender(self.tree, node_id, self.brokers, **settings).start()
        await eventually(lambda: len(self.active_controllers) == 1, "one controller")
        await eventually(lambda: self.all_know(set(ids)), "all know all")
        return self

    @property
    def alive(self) -> list[Contender]:
        return [broker for broker in self.brokers.values() if broker.is_running]

    @property
    def active_controllers(self) -> list[Contender]:
        return [broker for broker in self.alive if broker.is_controller]

    @property
    def controller(self) -> Contender:
        (controller,) = self.active_controllers
        return controller

    def all_know(self, ids: set[int]) -> bool:
        return all(set(broker.view.image.brokers) == ids for broker in self.alive)

    def state(self, topic: str, partition: int = 0) -> paths.PartitionState:
        node = self.tree.tree.find(paths.partition_state_path(topic, partition))
        assert node is not None
        return paths.decode_partition_state(node.data)

    async def create(self, name: str, partitions: int = 1, factor: int = 3) -> None:
        (row,) = await self.controller.controller.create_topics(
            [NewTopic(name, partitions, factor)]
        )
        assert isinstance(row, TopicCreated), row

    async def stop(self) -> None:
        for broker in self.brokers.values():
            if broker.is_running:
                await broker.stop()
            else:
                await broker.election.close()


def play(story: Callable[[Cluster], Awaitable[None]], **settings: str) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            cluster = await Cluster().start(0, 1, 2, **settings)
            await story(cluster)
            await cluster.stop()

    asyncio.run(whole())


def test_one_of_three_is_in_office_and_the_others_send_clients_to_it() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 3, 2)
        for broker in cluster.alive:
            assert broker.view.image.controller_id == cluster.controller.node_id
            if broker is not cluster.controller:
                with pytest.raises(ApiError) as refused:
                    await broker.controller.create_topics([NewTopic("u")])
                assert refused.value.error is Error.NOT_CONTROLLER
        await eventually(lambda: all("t" in b.view.image.topics for b in cluster.alive))
        held = sum(len(broker.roles) for broker in cluster.alive)
        assert held == 6, "three partitions on two brokers each"

    play(story)


def test_when_the_controller_dies_another_goes_on_and_elects_new_leaders() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 3, 3)
        old = cluster.controller
        epoch = old.election.require_active().term.epoch
        old.crash()
        await eventually(lambda: len(cluster.active_controllers) == 1, "a new controller")
        new = cluster.controller
        assert new.election.require_active().term.epoch == epoch + 1
        alive = {broker.node_id for broker in cluster.alive}
        await eventually(lambda: cluster.all_know(alive))
        for number in range(3):
            state = cluster.state("t", number)
            assert state.leader in alive
            assert old.node_id not in state.isr
        for broker in cluster.alive:
            image = broker.view.image.topics["t"]
            assert {p.leader for p in image.partitions} <= alive

    play(story)


def test_deleting_the_controllers_node_forces_an_election() -> None:
    async def story(cluster: Cluster) -> None:
        before = cluster.controller.election.require_active().term.epoch
        cluster.tree.write([Delete(paths.CONTROLLER)], None)
        await eventually(
            lambda: (
                len(cluster.active_controllers) == 1
                and cluster.controller.election.require_active().term.epoch > before
            ),
            "a later term",
        )
        await cluster.create("t")

    play(story)


def test_a_controller_that_was_replaced_unseen_can_change_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 1, 3)
        zombie = cluster.controller
        leader = cluster.state("t").leader
        # Its session ends, it does not hear of it, and goes on for a while.
        zombie.session.expire()
        zombie.is_running = False
        await eventually(lambda: len(cluster.active_controllers) == 1, "a new controller")
        after = cluster.tree.tree.find(paths.partition_state_path("t", 0))
        zombie.session._is_cut_off = False
        state = zombie.election.require_active().state.cluster.topics["t"].partitions[0]
        change = commands.IsrChange(TopicPartition("t", 0), state.leader_epoch, 0, (leader,))
        epochs = zombie.election.require_active().state.liveness
        command = commands.AlterPartition(leader, epochs.epoch_of(leader) or 0, (change,))
        with pytest.raises(ApiError) as refused:
            await zombie.controller.alter_partition(command)
        assert refused.value.error is Error.NOT_CONTROLLER
        assert cluster.tree.tree.find(paths.partition_state_path("t", 0)) == after
        assert zombie.election.active is None

    play(story)


def test_a_controller_whose_session_expired_resigns_and_the_cluster_goes_on() -> None:
    async def story(cluster: Cluster) -> None:
        old = cluster.controller
        old.session.expire()
        old.session.reconnect(expired=True)
        await eventually(lambda: not old.is_controller or len(cluster.active_controllers) == 1)
        await old.register()
        await eventually(lambda: len(cluster.active_controllers) == 1)
        await eventually(lambda: cluster.all_know({0, 1, 2}), "the broker is back")
        await cluster.create("t")

    play(story)


def test_a_controller_that_is_cut_off_for_a_moment_stays_in_office_and_answers_then() -> None:
    async def story(cluster: Cluster) -> None:
        held = cluster.controller
        epoch = held.election.require_active().term.epoch
        held.session.cut_off()
        asked = [asyncio.create_task(cluster.create(f"t{number}")) for number in range(3)]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in asked)
        held.session.reconnect(expired=False)
        await asyncio.gather(*asked)
        assert cluster.controller is held
        assert held.election.require_active().term.epoch == epoch
        for number in range(3):
            assert cluster.state(f"t{number}").controller_epoch == epoch

    play(story)


def test_a_controller_that_is_cut_off_while_it_takes_over_reads_the_tree_again() -> None:
    async def story(cluster: Cluster) -> None:
        old = cluster.controller
        epoch = old.election.require_active().term.epoch
        refusals = []

        def cut_off_once(broker: Contender) -> None:
            children = broker.session.children

            async def refused(path: str) -> list[str]:
                if path == paths.DELETE_TOPICS and not refusals:
                    refusals.append(broker.node_id)
                    raise StoreUnavailable(path, "ZooKeeper did not answer: ConnectionLoss")
                return await children(path)

            broker.session.children = refused  # type: ignore[method-assign]

        for broker in cluster.alive:
            cut_off_once(broker)
        old.crash()
        await eventually(lambda: len(cluster.active_controllers) == 1, "a new controller")
        assert refusals == [cluster.controller.node_id]
        assert cluster.controller.election.require_active().term.epoch == epoch + 1

    play(story)


def test_a_topic_is_deleted_on_all_brokers_and_in_the_tree() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 2, 3)
        assert await cluster.controller.controller.delete_topics(["t"]) == [None]
        await eventually(lambda: cluster.tree.tree.find(paths.topic_path("t")) is None)
        assert cluster.tree.tree.find(paths.delete_topic_path("t")) is None
        assert all(not broker.roles for broker in cluster.alive)
        await cluster.create("t", 1, 1)

    play(story)


def test_what_tools_write_into_the_tree_is_noticed() -> None:
    async def story(cluster: Cluster) -> None:
        write = cluster.tree.write
        topic = paths.encode_topic(paths.TopicNode(b"i" * 16, ((0, 1), (1, 2))))
        write([Create(paths.topic_path("old"), topic)], None)
        state_path = paths.partition_state_path("old", 1)
        await eventually(lambda: cluster.tree.tree.find(state_path) is not None)
        assert cluster.state("old").leader == 0
        moves = b'{"version":1,"partitions":[{"topic":"old","partition":0,"replicas":[2]}]}'
        write([Create(paths.REASSIGN_PARTITIONS, moves)], None)
        state = cluster.controller.election.require_active().state
        await eventually(lambda: state.cluster.topics["old"].partitions[0].adding == (2,))
        write([Create(paths.delete_topic_path("old"), b"")], None)
        await eventually(lambda: cluster.tree.tree.find(paths.topic_path("old")) is None)

    play(story)


def test_partitions_that_an_old_tool_adds_to_a_topic_get_their_leaders() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 2)
        session = cluster.tree.session()
        node = await session.get(paths.topic_path("t"))
        topic = paths.decode_topic(node.data)
        grown = topic._replace(replicas=(*topic.replicas, (2, 0)))
        await session.set_if_version(paths.topic_path("t"), paths.encode_topic(grown), node.version)
        await eventually(
            lambda: all(len(b.view.image.topics["t"].partitions) == 3 for b in cluster.alive),
            "all know the third partition",
        )
        assert cluster.state("t", 2).leader == 2
        assert cluster.brokers[2].roles["t", 2] == (2, 0)
        assert ("t", 2) not in cluster.brokers[1].roles

    play(story)


def test_a_broker_that_can_be_reached_elsewhere_is_made_known() -> None:
    async def story(cluster: Cluster) -> None:
        moved = Endpoint("PLAINTEXT", "there", 19092)
        data = paths.encode_broker(BrokerNode(1, (moved,)), 0)
        await cluster.tree.session().set_if_version(paths.broker_path(1), data)
        await eventually(
            lambda: all(b.view.image.brokers[1].endpoints == (moved,) for b in cluster.alive),
            "all know the address",
        )

    play(story)


def test_a_broker_that_missed_requests_is_told_everything_anew() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 2)
        (forgetful, *_) = (b for b in cluster.alive if not b.is_controller)
        await eventually(lambda: len(forgetful.roles) == 2, "it has its roles")
        before, forgetful.roles = forgetful.roles, {}
        await cluster.controller.election.require_active().submit(
            commands.TellAgain(forgetful.node_id)
        )
        await eventually(lambda: forgetful.roles == before, "it has them again")
        await cluster.controller.election.require_active().submit(commands.TellAgain(77))

    play(story)


def test_a_failed_disk_moves_leadership_to_another_broker() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 1, 3)
        leader = cluster.state("t").leader
        cluster.brokers[leader].failing = {("t", 0)}
        event = b'{"version":1,"broker":%d,"event":1}' % leader
        cluster.tree.write([Create(paths.LOG_DIR_EVENT_PREFIX, event, sequential=True)], None)
        await eventually(lambda: cluster.state("t").leader != leader)
        assert leader not in cluster.state("t").isr

    play(story)


def test_leadership_returns_to_preferred_replicas_after_a_controlled_shutdown() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 1, 3)
        leader = cluster.state("t").leader
        epoch = cluster.brokers[leader].broker_epoch
        command = commands.ControlledShutdown(leader, epoch)
        assert await cluster.controller.controller.controlled_shutdown(command) == []
        assert cluster.state("t").leader != leader

    play(story)


def test_any_broker_changes_settings_and_hands_out_producer_ids() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t")
        await eventually(lambda: all("t" in b.view.image.topics for b in cluster.alive))
        blocks = [await broker.controller.allocate_producer_ids() for broker in cluster.alive]
        assert [block.start for block in blocks] == [0, 1000, 2000]
        other = next(broker for broker in cluster.alive if not broker.is_controller)
        change = ConfigChange(ResourceType.TOPIC, "t", {"retention.ms": "5"})
        (row,) = await other.controller.alter_configs([change])
        assert not isinstance(row, ApiError)
        node = cluster.tree.tree.find(paths.topic_config_path("t"))
        assert node is not None
        assert paths.decode_config(node.data) == {"retention.ms": "5"}
        (name,) = cluster.tree.tree.children(paths.CONFIG_CHANGES)
        notice = cluster.tree.tree.find(f"{paths.CONFIG_CHANGES}/{name}")
        assert notice is not None
        assert paths.decode_config_change(notice.data) == "topics/t"

    play(story)


# A controller that cannot work


def test_a_controller_that_cannot_read_the_tree_on_gives_its_office_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 1, 3)
        blind = cluster.controller
        machine = blind.election.require_active().machine
        decide = machine.decide

        def fail(command: object, token: int, now_ms: int) -> Decision:
            if isinstance(command, commands.ChangeBrokers):
                raise RuntimeError("a mistake")
            return decide(command, token, now_ms)

        monkeypatch.setattr(machine, "decide", fail)
        victim = next(broker for broker in cluster.alive if broker is not blind)
        victim.crash()
        await eventually(
            lambda: (
                [
                    b
                    for b in cluster.active_controllers
                    if b.election.require_active().machine is not machine
                ]
                != []
            ),
            "another term",
        )
        await eventually(lambda: victim.node_id not in cluster.state("t").isr, "the ISR is right")

    play(story)


def test_a_broker_that_cannot_begin_its_term_leaves_the_office_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: Cluster) -> None:
        old = cluster.controller
        able = next(broker for broker in cluster.alive if broker is not old)
        loading = controller_election.load

        async def load(store: object, cluster_id: str, node_id: int, **more: bool) -> object:
            if node_id != able.node_id:
                raise RuntimeError("a mistake")
            return await loading(store, cluster_id, node_id, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(controller_election, "load", load)
        old.crash()
        await eventually(lambda: cluster.active_controllers == [able], "who can, is the controller")
        await cluster.create("t", 1, 2)

    play(story)


def test_what_a_full_window_refuses_is_asked_again() -> None:
    async def story(cluster: Cluster) -> None:
        held = cluster.controller.election.require_active()
        limit, held.engine._tokens_max = held.engine._tokens_max, 0
        topic = paths.encode_topic(paths.TopicNode(b"i" * 16, ((0, 1),)))
        cluster.tree.write([Create(paths.topic_path("found"), topic)], None)
        (forgetful, *_) = (b for b in cluster.alive if not b.is_controller)
        held.insist(commands.TellAgain(forgetful.node_id))
        await asyncio.sleep(0.05)
        assert "found" not in held.state.cluster.topics
        held.engine._tokens_max = limit
        await eventually(lambda: "found" in held.state.cluster.topics, "it was read again")
        assert cluster.controller.election.require_active() is held

    play(story)


def test_a_list_from_before_a_creation_is_not_held_against_it() -> None:
    async def story(cluster: Cluster) -> None:
        held = cluster.controller.election.require_active()
        events = held.events
        assert events is not None
        for number in range(20):
            # The news of one creation come while the next one is on its way to the tree.
            making = asyncio.create_task(cluster.create(f"t-{number}", 1, 1))
            for _ in range(number % 7):
                await asyncio.sleep(0)
            events.look(paths.TOPICS)
            await making
            assert cluster.controller.election.require_active() is held
        assert len(held.state.cluster.topics) == 20
        assert sum(len(broker.roles) for broker in cluster.alive) == 20

    play(story)
