"""What a broker takes from the machine it runs on: time, chance, threads, sockets, ZooKeeper.

A process has the real ones; the simulation puts brokers into a world of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from moldau.broker.system_clock import SystemClock
from moldau.config.broker_config import BrokerConfig
from moldau.metadata.store import SharedStore
from moldau.model.clock import Clock
from moldau.net.server import Server
from moldau.storage.directories.storage_threads import OneThread, Threads


class Surroundings:
    clock: Clock = SystemClock()
    random_bytes: Callable[[int], bytes] = staticmethod(os.urandom)
    server_type: type[Server] = Server

    def new_session_id(self) -> int:
        """Random, and never 0, which stands for no session."""
        return int.from_bytes(self.random_bytes(4)) % (2**31 - 1) + 1

    def log_threads(self, loop: asyncio.AbstractEventLoop) -> Threads:
        return OneThread(loop.call_soon_threadsafe)

    def loading_threads(self, loop: asyncio.AbstractEventLoop) -> Threads:
        return OneThread(loop.call_soon_threadsafe, "kafka-log-loader")

    async def open_store(self, config: BrokerConfig) -> SharedStore:
        """The session with ZooKeeper. Raises StoreError."""
        from moldau.metadata.zookeeper import ZooKeeperStore
        from moldau.metadata.zookeeper_access import ZooKeeperAccess

        store = ZooKeeperStore(ZooKeeperAccess.of(config))
        await store.open()
        return store
