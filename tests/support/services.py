"""Handlers on a real log store, a controller in memory and time that passes when a test says so.

Requests go through the bytes of their version, both ways, as they would over a connection.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from moldau.broker.coordinator_parts import CoordinatorParts
from moldau.broker.log_opening import logs_of
from moldau.broker.topic_settings import TopicSettings
from moldau.cluster.lone_controller import LoneController
from moldau.cluster.tree.stored_client_quotas import ClientQuotas
from moldau.cluster.tree.stored_scram_credentials import UserCredentials
from moldau.config.broker_config import BrokerConfig
from moldau.controller.rules.topic_rules import NewTopic
from moldau.coordinators.producer_id_source import ProducerIdSource
from moldau.engine.timers import Timers
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import ROUTES
from moldau.handlers.services import Services
from moldau.metadata.embedded import EmbeddedStore
from moldau.model.cluster import BrokerNode, ClusterImage, Endpoint, PartitionImage, TopicImage
from moldau.model.file_regions import FileRegion
from moldau.records.batch_codec import Record, encode_batch
from moldau.replication.delayed_requests import Waiting
from moldau.replication.fetch_sessions import FetchSessions
from moldau.replication.replicas import Replicas
from moldau.security.quotas.quota_filters import Quotas
from moldau.wire.apis import APIS
from moldau.wire.request_framing import (
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from moldau.wire.schema import Message
from tests.support.at_once import AtOnce
from tests.support.virtual_time import ManualTime

NODE_ID = 1
LISTENER = "PLAINTEXT"
SCENARIO_SECONDS_MAX = 30
HERE = Endpoint(LISTENER, "here.example", 9092)


class Levels:
    def levels(self) -> Mapping[str, str]:
        return {"root": "INFO"}

    def has(self, logger: str) -> bool:
        return logger in self.levels()

    def set_level(self, logger: str, level: str | None) -> None:
        pass


class Node:
    """One broker without its network."""

    def __init__(self, directory: Path, **settings: str) -> None:
        """Settings by key, with underscores for the dots."""
        self.loop = asyncio.get_running_loop()
        self.time = ManualTime()
        self.clock = self.time.clock
        self.timers = Timers(self.clock, self.time.call_later)
        self.waiting = Waiting(self.loop, self.timers)
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        properties = {"node.id": str(NODE_ID), "log.dirs": str(directory), **properties}
        self.config, _ = BrokerConfig.parse(properties)
        at_start = TopicSettings(self.config, {}, {})
        self.store = logs_of(lambda: self.config, self.clock, (AtOnce(), AtOnce()), at_start.of)
        numbers = count(1)
        self.tree = EmbeddedStore()
        self.controller = LoneController(
            self.tree,
            NODE_ID,
            config=lambda: self.config,
            clock=self.clock,
            timers=self.timers,
            random_bytes=lambda size: next(numbers).to_bytes(size, "big"),
        )
        self.replicas = Replicas(
            NODE_ID,
            self.store,
            self.waiting,
            self.clock,
            self.config,
            ClusterImage("", NODE_ID),
        )
        producer_ids = ProducerIdSource(self.controller.allocate_producer_ids)
        self.coordinators = self._new_coordinators(producer_ids)
        self.quotas_seen: list[Quotas] = []
        user_credentials = UserCredentials(
            self.tree, clock=self.clock, timers=self.timers, is_alone=True
        )
        client_quotas = self._client_quotas()
        self.on = Services(
            node_id=NODE_ID,
            config=self.config,
            image=lambda: self.controller.image,
            replicas=self.replicas,
            controller=self.controller,
            fetch_sessions=FetchSessions(
                self.config.max_incremental_fetch_session_cache_slots, lambda: next(numbers)
            ),
            producer_ids=producer_ids,
            coordinators=self.coordinators.by_key_type,
            groups=self.coordinators.groups,
            transactions=self.coordinators.transactions,
            markers=self.coordinators.markers,
            transactional_writes=self.coordinators.transactional_writes,
            timers=self.timers,
            clock=self.clock,
            log_levels=Levels(),
            user_credentials=lambda: user_credentials,
            client_quotas=lambda: client_quotas,
        )

    def _client_quotas(self) -> ClientQuotas:
        return ClientQuotas(
            self.tree,
            clock=self.clock,
            timers=self.timers,
            changed=self.quotas_seen.append,
            look_up=self._look_up,
            is_alone=True,
        )

    async def _look_up(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        return {name: (name,) if name[0].isdigit() else () for name in names}

    def _new_coordinators(self, producer_ids: ProducerIdSource) -> CoordinatorParts:
        return CoordinatorParts(
            NODE_ID,
            config=lambda: self.config,
            image=lambda: self.controller.image,
            replicas=self.replicas,
            producer_ids=producer_ids,
            clock=self.clock,
            timers=self.timers,
        )

    def restart_coordinators(self) -> None:
        """All their memory is gone; the logs are what they were."""
        self.coordinators.transactions.stop()
        self.coordinators.groups.stop()
        self.coordinators = self._new_coordinators(self.on.producer_ids)
        self.on.groups = self.coordinators.groups
        self.on.transactions = self.coordinators.transactions
        self.on.markers = self.coordinators.markers
        self.on.transactional_writes = self.coordinators.transactional_writes
        self.coordinators.follow(ClusterImage("", NODE_ID), self.image)

    async def start(self) -> Node:
        self.store.open()
        self.controller.on_image(self.replicas.apply)
        self.controller.on_image(lambda old, new: self.coordinators.follow(old, new))
        await self.controller.load()
        await self.controller.register(BrokerNode(NODE_ID, (HERE,), rack="rack-a"))
        return self

    def stop(self) -> None:
        self.store.close(self.replicas.high_watermarks())

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str | None] | None = None
    ) -> bytes:
        """The new topic's id."""
        (outcome,) = await self.controller.create_topics(
            [NewTopic(name, partitions, 1, configs=configs or {})]
        )
        assert not isinstance(outcome, Exception), outcome
        return self.image.topics[name].id

    def place(self, name: str, *partitions: PartitionImage) -> bytes:
        """A topic as a controller of many brokers might place it; known here only."""
        old = self.image
        topic_id = name.encode().ljust(16, b"-")
        topic = TopicImage(name, topic_id, partitions)
        self.controller.image = replace(
            old,
            topics={**old.topics, name: topic},
            topic_names={**old.topic_names, topic_id: name},
        )
        self.replicas.apply(old, self.controller.image)
        self.coordinators.follow(old, self.controller.image)
        return topic_id

    def begin(
        self, request: Message, version: int, *, listener: str = LISTENER, client_id: str = "test"
    ) -> Coroutine[Any, Any, Any]:
        name = type(request).__name__.removesuffix("Request")
        row = next(api for api in APIS if api.name == name)
        frame = memoryview(bytearray(encode_request(row.key, version, 7, client_id, request)))[4:]
        header = read_request_header(frame)
        body = type(request).decode(frame, version, header.body_position)
        route = ROUTES[row.key]
        assert route.serves(version), f"{name} version {version} is not served"
        ctx = RequestContext(row.key, version, client_id, listener)
        return self._answer(row.key, version, route.function(body, ctx, self.on))

    async def _answer(self, api_key: int, version: int, handling: Any) -> Any:
        response = await handling
        if response is None:
            return None
        chunks = encode_response(api_key, version, 7, response)
        frame = b"".join(region_bytes(chunk) for chunk in chunks)
        return decode_response(api_key, version, frame[4:])

    async def call(self, request: Message, version: int, **options: str) -> Any:
        """The answer to a request that must not have to wait."""
        task = self.loop.create_task(self.begin(request, version, **options))
        await turns()
        assert task.done(), f"{type(request).__name__} waits"
        return task.result()

    def park(self, request: Message, version: int) -> asyncio.Task[Any]:
        return self.loop.create_task(self.begin(request, version))


def play(scenario: Callable[[Node], Awaitable[None]], directory: Path, **settings: str) -> None:
    """Run a scenario on a fresh node."""

    async def whole() -> None:
        async with asyncio.timeout(SCENARIO_SECONDS_MAX):
            node = await Node(directory, **settings).start()
            await scenario(node)
            await node.coordinators.stop()
            node.stop()

    asyncio.run(whole())


def region_bytes(chunk: bytes | FileRegion) -> bytes:
    if isinstance(chunk, FileRegion):
        return os.pread(chunk.file.fileno(), chunk.size_bytes, chunk.position)
    return chunk


async def turns(number: int = 30) -> None:
    """Let the loop run what is ready."""
    for _ in range(number):
        await asyncio.sleep(0)


def batch(*values: bytes | None, key: bytes | None = b"key", **options: Any) -> bytes:
    timestamp = options.pop("timestamp", 1_000_000)
    records: Sequence[Record] = [
        Record(index, timestamp, key, value, ()) for index, value in enumerate(values or (b"v",))
    ]
    return encode_batch(records, **options)
