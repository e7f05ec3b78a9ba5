"""A broker that starts waits for a store that is silent while it reads what it must know first."""

from __future__ import annotations

import asyncio

import pytest

from moldau.broker.access.security_parts import SecurityParts
from moldau.broker.machine_environment import Surroundings
from moldau.broker.system_clock import SystemClock
from moldau.broker.topic_settings import TopicSettings
from moldau.cluster.tree.metadata_retries import patiently
from moldau.cluster.tree.tree_layout import lay_out
from moldau.config.broker_config import BrokerConfig
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.store import StoreUnavailable
from tests.support.virtual_time import ManualClock

COMPACTED = b'{"version":1,"config":{"cleanup.policy":"compact"}}'


class SilentAtFirst(EmbeddedStore):
    """An ensemble that elects a leader while it is asked."""

    def __init__(self, silent: int) -> None:
        super().__init__()
        self.silent = silent

    async def children(self, path: str) -> list[str]:
        if self.silent > 0:
            self.silent -= 1
            raise StoreUnavailable(path, "ZooKeeper did not answer: ConnectionLoss")
        return await super().children(path)


async def read(silent: int, timeout_ms: int) -> TopicSettings:
    properties = {"node.id": "1", "zookeeper.connection.timeout.ms": str(timeout_ms)}
    config, _ = BrokerConfig.parse(properties)
    store = SilentAtFirst(silent)
    store.open()
    for path in ("/config", paths.TOPIC_CONFIGS, paths.BROKER_CONFIGS):
        await store.create(path, b"")
    await store.create(f"{paths.TOPIC_CONFIGS}/t", COMPACTED)
    clock = SystemClock()
    timers = Timers(clock, asyncio.get_running_loop().call_later)
    return await TopicSettings.read_patiently(config, store, clock, timers)


def test_a_start_waits_for_a_store_that_is_silent_for_a_moment() -> None:
    settings = asyncio.run(read(silent=2, timeout_ms=60_000))
    assert settings.of("t").cleanup_policy == ("compact",)
    assert settings.of("stray").cleanup_policy == ("delete",)


def test_a_start_gives_up_on_a_store_that_stays_silent() -> None:
    with pytest.raises(StoreUnavailable):
        asyncio.run(read(silent=1_000_000, timeout_ms=1))


def test_what_takes_longer_than_a_start_may_wait_is_asked_again_nevertheless() -> None:
    clock = ManualClock(0)
    asked = 0

    async def ask() -> str:
        nonlocal asked
        asked += 1
        clock.now_ms += 60_000
        if asked == 1:
            raise StoreUnavailable("/config/topics/t", "ZooKeeper did not answer: ConnectionLoss")
        return "loaded"

    async def scenario() -> None:
        timers = Timers(SystemClock(), asyncio.get_running_loop().call_later)
        assert await patiently(ask, clock=clock, timers=timers, timeout_ms=2_000) == "loaded"

    asyncio.run(scenario())


def test_a_start_waits_for_users_and_access_control_lists_too() -> None:
    async def scenario() -> None:
        config, _ = BrokerConfig.parse(
            {
                "node.id": "1",
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "zookeeper.connection.timeout.ms": "60000",
            }
        )
        store = SilentAtFirst(0)
        store.open()
        await lay_out(store)
        timers = Timers(SystemClock(), asyncio.get_running_loop().call_later)
        parts = SecurityParts(lambda: config, store, Surroundings(), timers, is_alone=False)
        store.silent = 2
        await parts.open()
        assert store.silent == 0
        assert parts.access_lists is not None and len(parts.access_lists.acls) == 0
        await parts.close()

    asyncio.run(scenario())
