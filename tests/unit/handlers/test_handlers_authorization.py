"""The authorizer and the keeper of quotas are asked on every way a request can take."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.dispatch import Dispatch
from moldau.handlers.authorization import OPEN_AUTHORIZER, Authorizer, Count, Resource, once
from moldau.handlers.quota_keeping import NO_MUTATIONS, OPEN_QUOTAS, Mutations, QuotaKeeper
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import ROUTES
from moldau.handlers.topic_data.produce_fast_path import PRODUCE, ProduceLane
from moldau.model.errors import ApiError, Error
from moldau.net.acceptor import Listener
from moldau.net.server import Server, SocketSettings
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.security.quotas.budgets import RateBudget, Window
from moldau.security.quotas.client_share import Share
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.wire.messages.snapshots import (
    CreateSnapshotRequest,
    DeleteSnapshotRequest,
    DescribeSnapshotsRequest,
)
from moldau.wire.messages.transactions import InitProducerIdRequest
from moldau.wire.request_framing import decode_response, encode_request
from moldau.wire.schema import Message
from tests.support.services import LISTENER, Node, batch, play

FETCH, INIT_PRODUCER_ID, LIST_CONFIG_RESOURCES = 1, 22, 74


class OnlyMine:
    """Everybody may do what he wants to topics that are called `mine`, and nothing else."""

    is_open = False
    memory: object = None

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []

    def allows(
        self,
        ctx: RequestContext,
        operation: Operation,
        resource: Resource,
        *,
        count: Count = once,
        is_logged: bool = True,
        logs_denial: bool = True,
    ) -> bool:
        self.asked.append((str(ctx.principal), operation.name, resource.name))
        return resource.type == ResourceType.TOPIC and resource.name == "mine"

    def allows_somewhere(
        self, ctx: RequestContext, operation: Operation, type: ResourceType
    ) -> bool:
        return False


class Slow:
    """Everybody has to wait after what the test says."""

    is_open = False

    def __init__(self, throttle_ms: int) -> None:
        self._throttle_ms = throttle_ms
        self.charged: list[tuple[int, int, bool]] = []

    def settle(self, ctx: RequestContext, outcome: Message | ApiError | None) -> int:
        assert ctx.usage is not None
        self.charged.append((ctx.api_key, ctx.usage.request_bytes, ctx.usage.local_ns > 0))
        return self._throttle_ms

    def share_of(self, ctx: RequestContext) -> Share:
        return Share(RateBudget(Window()))

    def settle_produce(self, ctx: RequestContext, request_bytes: int, now_ns: int) -> int:
        self.charged.append((ctx.api_key, request_bytes, now_ns > 0))
        return self._throttle_ms

    def settle_fetch(self, ctx: RequestContext, response_bytes: int) -> int:
        return 0

    def fetch_bytes_max(self, ctx: RequestContext) -> int:
        return 10

    def mutations(self, ctx: RequestContext, *, is_strict: bool) -> Mutations:
        return NO_MUTATIONS


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def ask(self, key: int, version: int, request: Message) -> Any:
        self.writer.write(encode_request(key, version, 1, "tester", request))
        return await self.answer(key, version)

    async def answer(self, key: int, version: int) -> Any:
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return decode_response(key, version, await self._reader.readexactly(size))


@contextlib.asynccontextmanager
async def serving(
    node: Node, authorizer: Authorizer = OPEN_AUTHORIZER, quotas: QuotaKeeper = OPEN_QUOTAS
) -> AsyncIterator[Client]:
    node.on.authorizer, node.on.quotas = authorizer, quotas
    lanes = {PRODUCE: ProduceLane(node.on)}
    dispatch = Dispatch(ROUTES, node.on, node.loop, lanes, authorizer=authorizer, quotas=quotas)
    server = Server(node.loop, SocketSettings(), dispatch, frozenset({PRODUCE}))
    port = server.bind(Listener(LISTENER, "127.0.0.1", 0)).port
    server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        server.stop()


def written(*names: str, records: bytes | None = None, **fields: Any) -> ProduceRequest:
    rows = [PartitionProduceData(index=0, records=records or batch(b"x"))]
    topics = [TopicProduceData(name=name, partition_data=rows) for name in names]
    return ProduceRequest(acks=fields.pop("acks", 1), timeout_ms=100, topic_data=topics, **fields)


def read(*names: str, **fields: Any) -> FetchRequest:
    rows = [FetchPartition(partition=0, partition_max_bytes=1000)]
    topics = [FetchTopic(topic=name, partitions=rows) for name in names]
    return FetchRequest(max_bytes=1000, topics=topics, **fields)


def errors(response: Any) -> dict[str, int]:
    return {topic.name: topic.partition_responses[0].error_code for topic in response.responses}


def test_the_short_way_remembers_what_is_allowed_until_a_list_changes(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        for name in ("mine", "yours"):
            await node.create_topic(name)
        authorizer = OnlyMine()
        authorizer.memory = first = object()
        async with serving(node, authorizer) as client:

            async def asked(name: str, error: Error) -> int:
                before = len(authorizer.asked)
                assert errors(await client.ask(PRODUCE, 9, written(name))) == {name: error}
                return len(authorizer.asked) - before

            assert await asked("mine", Error.NONE) == 1
            assert await asked("mine", Error.NONE) == 0
            # A denial is asked for again each time: by the short way and by the ordinary one.
            for _ in range(2):
                assert await asked("yours", Error.TOPIC_AUTHORIZATION_FAILED) == 2
            authorizer.memory = object()
            assert await asked("mine", Error.NONE) == 1
            authorizer.memory = first
            assert await asked("mine", Error.NONE) == 1
            authorizer.memory = None
            for _ in range(2):
                assert await asked("mine", Error.NONE) == 1

    play(scenario, tmp_path)


def test_the_short_way_of_produce_asks_too(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        for name in ("mine", "yours"):
            await node.create_topic(name)
        authorizer = OnlyMine()
        async with serving(node, authorizer) as client:
            for _ in range(2):
                response = await client.ask(PRODUCE, 9, written("mine"))
                assert errors(response) == {"mine": 0}
                response = await client.ask(PRODUCE, 9, written("yours"))
                assert errors(response) == {"yours": Error.TOPIC_AUTHORIZATION_FAILED}
            both = await client.ask(PRODUCE, 9, written("yours", "mine", "nowhere"))
            assert errors(both) == {
                "yours": Error.TOPIC_AUTHORIZATION_FAILED,
                "mine": 0,
                "nowhere": Error.TOPIC_AUTHORIZATION_FAILED,
            }
        assert node.replicas.find("mine", 0).log.offset_end == 3
        assert node.replicas.find("yours", 0).log.offset_end == 0
        assert ("User:ANONYMOUS", "WRITE", "yours") in authorizer.asked

    play(scenario, tmp_path)


def test_a_transactional_batch_needs_leave_whatever_its_request_says(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("mine")
        records = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        async with serving(node, OnlyMine()) as client:
            for transactional_id in (None, "tx"):
                request = written("mine", records=records, transactional_id=transactional_id)
                response = await client.ask(PRODUCE, 9, request)
                wanted = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                assert errors(response) == {"mine": wanted}
        assert node.replicas.find("mine", 0).log.offset_end == 0

    play(scenario, tmp_path)


def test_a_denied_write_that_wants_no_answer_ends_the_connection(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("yours")
        async with serving(node, OnlyMine()) as client:
            client.writer.write(encode_request(PRODUCE, 9, 1, "t", written("yours", acks=0)))
            with contextlib.suppress(ConnectionResetError):
                assert await client._reader.read() == b""

    play(scenario, tmp_path)


def test_a_fetch_reads_what_is_allowed_also_by_its_session(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        for name in ("mine", "yours"):
            await node.create_topic(name)
            await node.call(written(name), 9)
        denied = Error.TOPIC_AUTHORIZATION_FAILED
        async with serving(node, OnlyMine()) as client:
            request = read("mine", "yours", "nowhere", session_epoch=0)
            response = await client.ask(FETCH, 12, request)
            rows = {topic.topic: topic.partitions[0] for topic in response.responses}
            assert {name: row.error_code for name, row in rows.items()} == {
                "mine": 0,
                "yours": denied,
                "nowhere": denied,
            }
            assert rows["mine"].records
            assert not rows["yours"].records
            again = read(session_id=response.session_id, session_epoch=1)
            response = await client.ask(FETCH, 12, again)
            by_name = {topic.topic: topic.partitions[0].error_code for topic in response.responses}
            assert by_name["yours"] == denied
            # A follower needs leave for all of it (CVE-2018-1288).
            response = await client.ask(FETCH, 12, read("mine", replica_id=3, session_epoch=-1))
            assert response.responses[0].partitions[0].error_code == denied

    play(scenario, tmp_path)


def test_what_no_rule_allows_is_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        async with serving(node, OnlyMine()) as client:
            from moldau.wire.messages.configs import ListConfigResourcesRequest

            request = ListConfigResourcesRequest()
            response = await client.ask(LIST_CONFIG_RESOURCES, 0, request)
            assert response.error_code == Error.CLUSTER_AUTHORIZATION_FAILED

    play(scenario, tmp_path)


def test_the_answer_comes_first_and_the_pause_after_it(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        quotas = Slow(throttle_ms=60)
        async with serving(node, quotas=quotas) as client:
            begun = node.loop.time()
            # The short way, the ordinary way, and one that is not a topic's.
            requests = [
                (PRODUCE, 9, written("t")),
                (PRODUCE, 8, written("t")),
                (INIT_PRODUCER_ID, 3, InitProducerIdRequest(transaction_timeout_ms=1)),
            ]
            for key, version, request in requests:
                client.writer.write(encode_request(key, version, 1, "tester", request))
            for count, (key, version, _) in enumerate(requests):
                response = await client.answer(key, version)
                assert response.throttle_time_ms == 60
                assert node.loop.time() - begun >= 0.06 * count
            assert [key for key, _, _ in quotas.charged] == [PRODUCE, PRODUCE, INIT_PRODUCER_ID]
            assert all(size > 20 and is_timed for _, size, is_timed in quotas.charged)

    play(scenario, tmp_path)


def test_a_fetch_reads_no_more_than_its_quota_at_once(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        for _ in range(3):
            await node.call(written("t"), 9)
        async with serving(node, quotas=Slow(0)) as client:
            response = await client.ask(FETCH, 12, read("t", session_epoch=-1))
            # The first batch goes out whole, however small the limit is.
            assert len(response.responses[0].partitions[0].records) == len(batch(b"x"))

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("key", "request_"),
    [
        (20000, CreateSnapshotRequest(name="x")),
        (20001, DescribeSnapshotsRequest()),
        (20002, DeleteSnapshotRequest(name="x")),
    ],
)
def test_snapshots_need_rights_over_the_cluster(
    key: int, request_: Message, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        async with serving(node, OnlyMine()) as client:
            response = await client.ask(key, 0, request_)
            assert response.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
        async with serving(node) as client:
            response = await client.ask(key, 0, request_)
            assert response.error_code != Error.CLUSTER_AUTHORIZATION_FAILED

    play(scenario, tmp_path)
