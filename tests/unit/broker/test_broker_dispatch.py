"""Routing, hand-driven handlers, and what becomes of faults; over a real connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from moldau.broker.dispatch import Dispatch
from moldau.broker.known_callers import Lane
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Route
from moldau.model.errors import ApiError, Error
from moldau.net.acceptor import Listener
from moldau.net.answers import Disconnect
from moldau.net.connection_muting import MutingWait
from moldau.net.server import Server, SocketSettings
from moldau.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.request_framing import (
    decode_response,
    encode_request,
    encode_response,
    read_correlation_id,
)
from tests.support.echo_server import run, until

METADATA, API_VERSIONS, INIT_PRODUCER_ID = 3, 18, 22


class Services:
    """What the handlers of these tests share."""

    def __init__(self) -> None:
        self.contexts: list[RequestContext] = []
        self.gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.work: asyncio.Future[None] = MutingWait()
        self.ending = ""


class Client:
    def __init__(
        self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    def send(self, key: int, version: int, request: Any, client_id: str | None = "tester") -> int:
        self._correlation_id += 1
        self.writer.write(encode_request(key, version, self._correlation_id, client_id, request))
        return self._correlation_id

    async def receive(self, key: int, version: int) -> tuple[int, Any]:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(size)
        return read_correlation_id(frame), decode_response(key, version, frame)

    async def is_disconnected(self) -> bool:
        with contextlib.suppress(ConnectionResetError):
            return await self.reader.read() == b""
        return True


def routed(key: int, function: Callable[..., Any], versions: tuple[int, int]) -> Route:
    return Route(key, lambda: {key: function}, *versions)


@contextlib.asynccontextmanager
async def serving(
    services: Services, *routes: Route, lanes: dict[int, Lane] | None = None
) -> AsyncIterator[Client]:
    loop = asyncio.get_running_loop()
    dispatch = Dispatch({route.api_key: route for route in routes}, services, loop, lanes)
    server = Server(loop, SocketSettings(), dispatch)
    port = server.bind(Listener("OUTSIDE", "127.0.0.1", 0)).port
    server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(server, reader, writer)
    finally:
        writer.close()
        server.stop()


async def api_versions(request: Any, ctx: RequestContext, on: Services) -> ApiVersionsResponse:
    on.contexts.append(ctx)
    row = ApiVersion(api_key=18, min_version=0, max_version=ctx.api_version)
    return ApiVersionsResponse(api_keys=[row])


async def waits(request: Any, ctx: RequestContext, on: Services) -> MetadataResponse:
    try:
        cluster_id = await on.gate
        await asyncio.sleep(0)
        return MetadataResponse(cluster_id=cluster_id)
    except asyncio.CancelledError:
        on.ending = "cancelled"
        raise


async def no_answer(request: Any, ctx: RequestContext, on: Services) -> None:
    on.contexts.append(ctx)


async def crash(request: Any, ctx: RequestContext, on: Services) -> None:
    raise ZeroDivisionError("of course")


async def crash_later(request: Any, ctx: RequestContext, on: Services) -> None:
    await on.gate
    raise ZeroDivisionError("of course")


async def refuse(request: Any, ctx: RequestContext, on: Services) -> None:
    raise ApiError(Error.INVALID_REQUEST, "not like this")


async def disconnect(request: Any, ctx: RequestContext, on: Services) -> None:
    raise Disconnect("acks=0 and a wrong partition")


def test_a_handler_gets_the_request_and_who_asks() -> None:
    async def scenario() -> None:
        services = Services()
        async with serving(services, routed(18, api_versions, (0, 4))) as client:
            for name in ("first", "first", "second", None):
                request = ApiVersionsRequest(client_software_name="test")
                sent = client.send(API_VERSIONS, 3, request, client_id=name)
                received, response = await client.receive(API_VERSIONS, 3)
                assert received == sent
                assert response.api_keys[0].max_version == 3
            assert [c.client_id for c in services.contexts] == ["first", "first", "second", None]
            assert {c.listener for c in services.contexts} == {"OUTSIDE"}
            assert {c.client_host for c in services.contexts} == {"127.0.0.1"}

    run(scenario)


def test_requests_in_changing_versions_are_each_read_in_their_own() -> None:
    async def scenario() -> None:
        async with serving(Services(), routed(18, api_versions, (0, 4))) as client:
            for version in (0, 3, 1, 4, 0, 3):
                client.send(API_VERSIONS, version, ApiVersionsRequest())
                assert (await client.receive(API_VERSIONS, version))[1].api_keys[
                    0
                ].max_version == version

    run(scenario)


def test_api_versions_in_an_unknown_version_is_answered_in_the_oldest() -> None:
    async def scenario() -> None:
        async with serving(Services(), routed(18, api_versions, (0, 4))) as client:
            frame = bytearray(encode_request(API_VERSIONS, 4, 77, "new", ApiVersionsRequest()))
            frame[6:8] = (99).to_bytes(2, "big")
            client.writer.write(frame)
            correlation_id, response = await client.receive(API_VERSIONS, 0)
            assert correlation_id == 77
            assert response.error_code == Error.UNSUPPORTED_VERSION
            assert response.api_keys == [ApiVersion(api_key=18, min_version=0, max_version=4)]
            client.send(API_VERSIONS, 4, ApiVersionsRequest())
            assert (await client.receive(API_VERSIONS, 4))[1].error_code == 0

    run(scenario)


@pytest.mark.parametrize(("key", "version"), [(3, 2), (3, 13), (99, 0), (-1, 0), (3, -1)])
def test_what_is_not_served_ends_the_connection_with_one_line(
    key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(Services(), routed(3, waits, (4, 12))) as client:
            frame = bytearray(encode_request(METADATA, 4, 1, "old", MetadataRequest()))
            frame[4:8] = key.to_bytes(2, "big", signed=True) + version.to_bytes(
                2, "big", signed=True
            )
            client.writer.write(frame)
            assert await client.is_disconnected()

    with caplog.at_level(logging.WARNING):
        run(scenario)
    assert len(caplog.records) == 1
    assert f"api key {key}" in caplog.text


def test_a_body_that_cannot_be_read_ends_the_connection_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with serving(Services(), routed(3, waits, (4, 12))) as client:
            frame = bytearray(encode_request(METADATA, 9, 1, "old", MetadataRequest(topics=[])))
            frame[-4:] = b"\xff\xff\xff\x0f"
            client.writer.write(frame)
            assert await client.is_disconnected()

    with caplog.at_level(logging.WARNING):
        run(scenario)
    assert len(caplog.records) == 1
    assert "cannot be read" in caplog.text


def test_a_handler_that_waits_is_resumed_and_holds_back_later_answers() -> None:
    async def scenario() -> None:
        services = Services()
        table = (routed(3, waits, (4, 12)), routed(18, api_versions, (0, 4)))
        async with serving(services, *table) as client:
            first = client.send(METADATA, 9, MetadataRequest())
            second = client.send(API_VERSIONS, 0, ApiVersionsRequest())
            connections = client.server.connections
            await until(lambda: any(c.is_waiting for c in connections))
            services.gate.set_result("the cluster")
            correlation_id, response = await client.receive(METADATA, 9)
            assert (correlation_id, response.cluster_id) == (first, "the cluster")
            assert (await client.receive(API_VERSIONS, 0))[0] == second

    run(scenario)


def test_a_client_that_leaves_cancels_its_waiting_handler() -> None:
    async def scenario() -> None:
        services = Services()
        async with serving(services, routed(3, waits, (4, 12))) as client:
            client.send(METADATA, 9, MetadataRequest())
            await until(lambda: any(c.is_waiting for c in client.server.connections))
            client.writer.close()
            await until(lambda: services.ending == "cancelled")
            assert services.gate.cancelled()
            assert not client.server.connections

    run(scenario)


def test_work_is_done_to_its_end_though_its_client_leaves_and_what_it_sent_after_it() -> None:
    """As in Apache Kafka: with acks=0, or with the last push of metrics, nobody waits."""

    async def works(request: Any, ctx: RequestContext, on: Services) -> MetadataResponse:
        await on.work
        on.ending = "done"
        return MetadataResponse(cluster_id="nobody reads it")

    async def scenario() -> None:
        services = Services()
        table = (routed(3, works, (4, 12)), routed(18, api_versions, (0, 4)))
        async with serving(services, *table) as client:
            client.send(METADATA, 9, MetadataRequest())
            client.send(API_VERSIONS, 0, ApiVersionsRequest())
            await until(lambda: any(c.is_waiting for c in client.server.connections))
            client.writer.close()
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not services.work.cancelled()
            services.work.set_result(None)
            await until(lambda: not client.server.connections)
            assert services.ending == "done"
            assert len(services.contexts) == 1, "the request behind it"

    run(scenario)


def test_a_handler_whose_client_left_while_it_worked_waits_for_nothing_more() -> None:
    async def works(request: Any, ctx: RequestContext, on: Services) -> MetadataResponse:
        await on.work
        return await waits(request, ctx, on)

    async def scenario() -> None:
        services = Services()
        async with serving(services, routed(3, works, (4, 12))) as client:
            client.send(METADATA, 9, MetadataRequest())
            await until(lambda: any(c.is_waiting for c in client.server.connections))
            client.writer.close()
            for _ in range(20):
                await asyncio.sleep(0.001)
            services.work.set_result(None)
            await until(lambda: not client.server.connections)
            await until(lambda: services.ending == "cancelled")

    run(scenario)


def test_a_handler_may_leave_a_request_unanswered() -> None:
    async def scenario() -> None:
        table = (routed(3, no_answer, (4, 12)), routed(18, api_versions, (0, 4)))
        async with serving(Services(), *table) as client:
            client.send(METADATA, 9, MetadataRequest())
            second = client.send(API_VERSIONS, 0, ApiVersionsRequest())
            assert (await client.receive(API_VERSIONS, 0))[0] == second

    run(scenario)


@pytest.mark.parametrize("handler", [crash, crash_later])
def test_a_fault_in_a_handler_is_an_error_code_where_the_answer_has_one(
    handler: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        services = Services()
        async with serving(services, routed(22, handler, (0, 5))) as client:
            services.gate.set_result("")
            client.send(INIT_PRODUCER_ID, 4, InitProducerIdRequest())
            _, response = await client.receive(INIT_PRODUCER_ID, 4)
            assert response == InitProducerIdResponse(error_code=Error.UNKNOWN_SERVER_ERROR)

    run(scenario)
    assert len(caplog.records) == 1
    assert "ZeroDivisionError" in caplog.text
    assert "test_broker_dispatch.py" in caplog.text


@pytest.mark.parametrize("handler", [crash, crash_later])
def test_a_fault_in_a_handler_ends_the_connection_where_the_answer_has_no_place_for_it(
    handler: Callable[..., Any],
) -> None:
    async def scenario() -> None:
        services = Services()
        async with serving(services, routed(3, handler, (4, 12))) as client:
            services.gate.set_result("")
            client.send(METADATA, 4, MetadataRequest())
            assert await client.is_disconnected()

    run(scenario)


def test_a_refusal_that_no_handler_caught_is_answered_with_its_code() -> None:
    async def scenario() -> None:
        async with serving(Services(), routed(22, refuse, (0, 5))) as client:
            client.send(INIT_PRODUCER_ID, 4, InitProducerIdRequest())
            _, response = await client.receive(INIT_PRODUCER_ID, 4)
            assert response.error_code == Error.INVALID_REQUEST

    run(scenario)


def test_a_handler_may_end_the_connection() -> None:
    async def scenario() -> None:
        async with serving(Services(), routed(22, disconnect, (0, 5))) as client:
            client.send(INIT_PRODUCER_ID, 4, InitProducerIdRequest())
            assert await client.is_disconnected()

    run(scenario)


def test_an_answer_that_cannot_be_encoded_is_a_fault_not_silence() -> None:
    async def scenario() -> None:
        async def wrong_type(request: Any, ctx: RequestContext, on: Services) -> Any:
            return InitProducerIdResponse(producer_id=2**70)

        async with serving(Services(), routed(22, wrong_type, (0, 5))) as client:
            client.send(INIT_PRODUCER_ID, 4, InitProducerIdRequest())
            _, response = await client.receive(INIT_PRODUCER_ID, 4)
            assert response.error_code == Error.UNKNOWN_SERVER_ERROR

    run(scenario)


class EvenOnly:
    """Answers requests with an even correlation id from their bytes."""

    versions = range(4, 5)

    def answer(
        self, frame: memoryview, position: int, version: int, correlation_id: int, writer: Any
    ) -> bytes | None:
        if correlation_id % 2:
            return None
        response = InitProducerIdResponse(producer_id=version * 1000 + correlation_id)
        (whole,) = encode_response(INIT_PRODUCER_ID, version, correlation_id, response)
        assert isinstance(whole, bytes)
        return whole


def test_a_lane_answers_what_it_can_and_leaves_the_rest_to_the_handler() -> None:
    async def scenario() -> None:
        async def ordinary(request: Any, ctx: RequestContext, on: Services) -> Any:
            return InitProducerIdResponse(producer_id=7)

        lanes: dict[int, Lane] = {INIT_PRODUCER_ID: EvenOnly()}
        route = routed(22, ordinary, (0, 5))
        async with serving(Services(), route, lanes=lanes) as client:
            answered = []
            for version in (4, 4, 3, 3):
                client.send(INIT_PRODUCER_ID, version, InitProducerIdRequest())
                _, response = await client.receive(INIT_PRODUCER_ID, version)
                answered.append(response.producer_id)
            assert answered == [7, 4002, 7, 7]

    run(scenario)
