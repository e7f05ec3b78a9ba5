"""A controller that stands alone, on a store in memory or in a folder."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from moldau.cluster.lone_controller import LoneController
from moldau.config.broker_config import BrokerConfig
from moldau.engine.timers import Timers
from moldau.metadata.embedded import EmbeddedStore
from moldau.model.cluster import BrokerNode, ClusterImage, Endpoint
from tests.support.virtual_time import ManualTime

NODE = BrokerNode(0, (Endpoint("PLAINTEXT", "localhost", 9092),), "rack-1")


class Disk:
    """Syncs at once unless told to fail."""

    def __init__(self) -> None:
        self.is_broken = False

    async def offload(self, work: Callable[[], None]) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, "Input/output error")
        work()


class Cluster:
    def __init__(
        self, path: Path | None = None, store: EmbeddedStore | None = None, **settings: str
    ) -> None:
        self.disk = Disk()
        self.store = store or EmbeddedStore(path, offload=self.disk.offload)
        self.store.open()
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        self.config, _ = BrokerConfig.parse(properties)
        time = ManualTime()
        self.controller = LoneController(
            self.store,
            0,
            config=lambda: self.config,
            clock=time.clock,
            timers=Timers(time.clock, time.call_later),
            random_bytes=os.urandom,
        )
        self.images: list[ClusterImage] = []
        self.controller.on_image(self._note)

    def _note(self, before: ClusterImage, after: ClusterImage) -> None:
        if self.images:
            assert before is self.images[-1]
        self.images.append(after)

    async def start(self) -> Cluster:
        await self.controller.load()
        await self.controller.register(NODE)
        return self

    async def stop(self) -> None:
        await self.controller.close()
        await self.store.close()

    async def text(self, path: str) -> str:
        return (await self.store.get(path)).data.decode()


def run(main: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(main())  # type: ignore[arg-type]
