"""Settings that any broker of a cluster writes: on top of what the tree says, and with patience."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from moldau.config.config_changes import ConfigChange, ResourceType
from moldau.controller.controller_facts import ConfigsChanged, TopicCreated
from moldau.controller.rules.topic_rules import NewTopic
from moldau.metadata import paths
from moldau.model.errors import ApiError, Error
from moldau.testing.shared_tree import SharedTree
from tests.support.controllers import Contender, eventually


def play(story: Callable[[Contender, Contender], Awaitable[None]]) -> None:
    """With the controller, and with a broker that is not."""

    async def whole() -> None:
        async with asyncio.timeout(30):
            tree, brokers = SharedTree(), cast("dict[int, Contender]", {})
            for node_id in (0, 1):
                await Contender(tree, node_id, brokers).start()
            await eventually(lambda: any(b.is_controller for b in brokers.values()))
            await eventually(lambda: all(len(b.view.image.brokers) == 2 for b in brokers.values()))
            controller = next(b for b in brokers.values() if b.is_controller)
            other = next(b for b in brokers.values() if not b.is_controller)
            await controller.controller.create_topics([NewTopic("t", 1, 2)])
            await eventually(lambda: "t" in other.view.image.topics)
            await story(controller, other)
            for broker in brokers.values():
                await broker.stop()

    asyncio.run(whole())


def setting(key: str, value: str | None) -> list[ConfigChange]:
    return [ConfigChange(ResourceType.TOPIC, "t", {key: value})]


async def settings_of(broker: Contender, topic: str = "t") -> dict[str, str]:
    return paths.decode_config((await broker.session.get(paths.topic_config_path(topic))).data)


def test_a_setting_that_this_broker_has_not_heard_of_is_kept() -> None:
    async def story(one: Contender, other: Contender) -> None:
        # These brokers watch no settings: neither ever hears what the other has written.
        (row,) = await one.controller.alter_configs(setting("retention.ms", "7"))
        assert isinstance(row, ConfigsChanged)
        (row,) = await other.controller.alter_configs(setting("max.message.bytes", "9999"))
        assert isinstance(row, ConfigsChanged)
        assert await settings_of(one) == {"retention.ms": "7", "max.message.bytes": "9999"}
        (row,) = await one.controller.alter_configs(setting("max.message.bytes", None))
        assert await settings_of(one) == {"retention.ms": "7"}

    play(story)


def test_changes_at_the_same_time_are_all_kept() -> None:
    async def story(one: Contender, other: Contender) -> None:
        keys = ("retention.ms", "retention.bytes", "segment.ms", "flush.ms", "file.delete.delay.ms")
        rows = await asyncio.gather(
            *(
                (one, other)[n % 2].controller.alter_configs(setting(key, "9999"))
                for n, key in enumerate(keys)
            )
        )
        assert all(isinstance(row, ConfigsChanged) for (row,) in rows)
        assert await settings_of(one) == dict.fromkeys(keys, "9999")

    play(story)


def test_a_setting_written_while_the_store_reconnects_is_answered_when_it_has() -> None:
    async def story(one: Contender, other: Contender) -> None:
        other.session.cut_off()
        asked = asyncio.create_task(other.controller.alter_configs(setting("retention.ms", "7")))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asked.done()
        other.session.reconnect(expired=False)
        (row,) = await asked
        assert isinstance(row, ConfigsChanged)
        assert await settings_of(one) == {"retention.ms": "7"}

    play(story)


def test_a_request_with_many_changes_waits_for_the_store_once() -> None:
    async def story(one: Contender, other: Contender) -> None:
        other.patience_ms = 300
        other.session.cut_off()
        changes = setting("retention.ms", "7") * 500
        begun = asyncio.get_running_loop().time()
        rows = await other.controller.alter_configs(changes)
        assert asyncio.get_running_loop().time() - begun < 20
        errors = [row.error for row in rows if isinstance(row, ApiError)]
        assert errors == [Error.KAFKA_STORAGE_ERROR] * 500
        other.session.reconnect(expired=False)

    play(story)


def test_what_cannot_be_is_refused_without_the_store() -> None:
    async def story(one: Contender, other: Contender) -> None:
        other.session.cut_off()
        (row,) = await other.controller.alter_configs(setting("retention.ms", "soon"))
        assert isinstance(row, ApiError)
        assert row.error is Error.INVALID_CONFIG
        other.session.reconnect(expired=False)

    play(story)


def test_settings_without_a_topic_and_a_topic_without_settings_end_no_term() -> None:
    async def story(one: Contender, other: Contender) -> None:
        left = paths.encode_config({"retention.ms": "1"})
        await one.session.create(paths.topic_config_path("a"), left)
        await one.session.create(paths.topic_config_path("b"), left)
        new = [NewTopic("a", 1, 1), NewTopic("b", 1, 1, configs={"retention.ms": "9"})]
        rows = await one.controller.create_topics(new)
        assert all(isinstance(row, TopicCreated) for row in rows)
        assert await settings_of(one, "a") == {}
        assert await settings_of(one, "b") == {"retention.ms": "9"}
        await one.session.delete(paths.topic_config_path("t"))
        assert await one.controller.delete_topics(["t", "b"]) == [None, None]
        while await one.session.children(paths.TOPICS) != ["a"]:
            await asyncio.sleep(0.01)
        assert one.is_controller
        assert (await one.session.get(paths.CONTROLLER_EPOCH)).data == b"1"

    play(story)
