"""Notes about changed settings: read once, and cleared away when they are old."""

from __future__ import annotations

import asyncio

from moldau.cluster.tree import tree_layout
from moldau.cluster.tree.config_watch import NOTES_KEPT_MS, ConfigWatch
from moldau.cluster.tree.tree_loading import UNREADABLE_SETTINGS
from moldau.controller.controller_facts import ConfigKind
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.testing.shared_tree import SharedTree
from tests.support.controllers import eventually
from tests.support.virtual_time import ManualTime


def test_notes_are_cleared_away_after_a_quarter_of_an_hour() -> None:
    async def story() -> None:
        session = SharedTree().session()
        await tree_layout.lay_out(session)
        time = ManualTime()
        seen: list[str] = []

        def changed(kind: ConfigKind, name: str, overrides: dict[str, str]) -> None:
            seen.append(name)

        async def change(topic: str) -> None:
            data = paths.encode_config_change(f"topics/{topic}")
            await session.create(paths.CONFIG_CHANGE_PREFIX, data, sequential=True)
            await eventually(lambda: seen[-1:] == [topic], f"the change of {topic}")

        watch = ConfigWatch(session, time.clock, Timers(time.clock, time.call_later), changed)
        await watch.load()
        watch.start()
        await change("a")
        time.pass_ms(NOTES_KEPT_MS)
        await change("b")
        assert len(await session.children(paths.CONFIG_CHANGES)) == 2
        # The first is older than that now, the second is not.
        time.pass_ms(1)
        await change("c")
        assert len(await session.children(paths.CONFIG_CHANGES)) == 2
        assert seen == ["a", "b", "c"]
        await watch.stop()

    asyncio.run(story())


def test_settings_that_cannot_be_followed_or_read_do_not_keep_others_from_being_read() -> None:
    async def story() -> None:
        session = SharedTree().session()
        await tree_layout.lay_out(session)
        time = ManualTime()
        seen: list[str] = []

        def changed(kind: ConfigKind, name: str, overrides: dict[str, str]) -> None:
            if name == "poison":
                raise RuntimeError("a mistake")
            seen.append(name)

        async def note(topic: str) -> None:
            data = paths.encode_config_change(f"topics/{topic}")
            await session.create(paths.CONFIG_CHANGE_PREFIX, data, sequential=True)

        watch = ConfigWatch(session, time.clock, Timers(time.clock, time.call_later), changed)
        await watch.load()
        watch.start()
        await session.create(paths.topic_config_path("bad"), b"{")
        for topic in ("bad", "poison", "good"):
            await note(topic)
        for _ in range(20):
            await asyncio.sleep(0.01)
            time.pass_ms(100)
        await eventually(lambda: seen == ["good"], "what can be followed")
        assert await watch.topics(["bad"]) == {"bad": dict(UNREADABLE_SETTINGS)}
        await watch.stop()

    asyncio.run(story())
