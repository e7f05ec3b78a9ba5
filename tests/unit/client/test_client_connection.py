"""One connection: order, limits, deadlines, versions, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from moldau.client.network.broker_connection import Connection
from moldau.client.network.connection_setup import open_connection
from moldau.client.network.receive_buffers import STEP_BYTES
from moldau.client.shared.client_errors import (
    DisconnectError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from moldau.model.errors import Error
from moldau.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from moldau.wire.messages.groups import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.metadata import MetadataRequest
from tests.support.scripted_broker import HANG, HANG_UP, ScriptedBroker


def go(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 20))


async def connect(broker: ScriptedBroker, **settings: Any) -> Connection:
    settings = {"client_id": "me", "request_timeout_ms": 5000, **settings}
    return await open_connection(
        lambda: Connection("test", **settings), "127.0.0.1", broker.port, timeout_ms=2000
    )


def echo(request: HeartbeatRequest, version: int) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=request.generation_id)


def test_pipelined_requests_get_their_own_answers() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: echo}) as broker:
            connection = await connect(broker)
            answers = await asyncio.gather(
                *(connection.send(HeartbeatRequest(generation_id=n)) for n in range(300))
            )
            assert [answer.error_code for answer in answers] == list(range(300))
            await connection.close()

    go(scenario())


def test_no_more_requests_are_under_way_than_allowed_and_none_overtakes() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: lambda *_: HANG}) as broker:
            connection = await connect(broker, in_flight_max=2)
            tasks = [
                asyncio.ensure_future(connection.send(HeartbeatRequest(generation_id=n)))
                for n in range(6)
            ]
            while len(broker.requests) < 3:
                await asyncio.sleep(0)
            assert not connection.has_room
            assert connection.in_flight_count == 6
            tasks[3].cancel()
            broker.hang_up()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            kinds = [type(fault) for fault in done]
            assert kinds[3] is asyncio.CancelledError
            assert kinds.count(DisconnectError) == 5
            sent = [r.generation_id for r, _ in broker.requests if isinstance(r, HeartbeatRequest)]
            assert sent == [0, 1]

    go(scenario())


def test_a_slot_granted_to_somebody_who_gave_up_goes_to_the_next_in_line() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: echo}) as broker:
            connection = await connect(broker, in_flight_max=1)
            tasks = [
                asyncio.ensure_future(connection.send(HeartbeatRequest(generation_id=n)))
                for n in range(4)
            ]
            # The answer to the first grants the second a slot, which it no longer wants.
            tasks[0].add_done_callback(lambda _: tasks[1].cancel())
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(done[1], asyncio.CancelledError) or done[1].error_code == 1
            assert [answer.error_code for answer in (done[0], *done[2:])] == [0, 2, 3]
            assert connection.in_flight_count == 0
            await connection.close()

    go(scenario())


def test_waiting_for_a_slot_ends_with_the_time_out() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: lambda *_: HANG}) as broker:
            connection = await connect(broker, in_flight_max=1)
            first = asyncio.ensure_future(connection.send(HeartbeatRequest()))
            await asyncio.sleep(0)
            with pytest.raises(KafkaTimeoutError, match="took no further request for 10 ms"):
                await connection.send(HeartbeatRequest(), timeout_ms=10)
            assert connection.in_flight_count == 1
            await connection.close()
            with pytest.raises(DisconnectError):
                await first

    go(scenario())


def test_the_highest_common_version_is_used_within_the_callers_limits() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: echo}) as broker:
            broker.served[12] = (1, 3)
            connection = await connect(broker)
            await connection.send(HeartbeatRequest())
            await connection.send(HeartbeatRequest(), version_max=2)
            assert [version for _, version in broker.requests[1:]] == [3, 2]
            with pytest.raises(UnsupportedVersionError):
                await connection.send(HeartbeatRequest(), version_min=4)
            await connection.close()

    go(scenario())


def test_a_request_the_broker_does_not_serve_is_refused_before_it_is_sent() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            del broker.served[12]
            connection = await connect(broker)
            with pytest.raises(UnsupportedVersionError, match="does not support Heartbeat"):
                await connection.send(HeartbeatRequest())
            await connection.close()

    go(scenario())


def test_an_older_broker_is_asked_again_in_its_own_version() -> None:
    def versions(request: ApiVersionsRequest, version: int) -> Any:
        rows = [ApiVersion(api_key=18, max_version=2), ApiVersion(api_key=12, max_version=1)]
        if version > 2:
            refusal = ApiVersionsResponse(error_code=Error.UNSUPPORTED_VERSION, api_keys=rows)
            return refusal, 0
        return ApiVersionsResponse(api_keys=rows)

    async def scenario() -> None:
        async with ScriptedBroker({ApiVersionsRequest: versions}) as broker:
            connection = await connect(broker)
            assert [version for _, version in broker.requests] == [4, 2]
            assert connection.versions == {18: (0, 2), 12: (0, 1)}
            await connection.close()

    go(scenario())


def test_a_late_answer_is_a_time_out_and_is_then_dropped() -> None:
    held: list[Any] = []

    def later(request: HeartbeatRequest, version: int) -> Any:
        held.append(request)
        return echo(request, version)

    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: later}) as broker:
            connection = await connect(broker)
            slow = connection.request(HeartbeatRequest(generation_id=1), 4, timeout_ms=0)
            with pytest.raises(KafkaTimeoutError, match="did not answer Heartbeat"):
                await slow
            assert connection.is_open
            assert (await connection.send(HeartbeatRequest(generation_id=2))).error_code == 2
            await connection.close()

    go(scenario())


def test_a_broker_that_never_answers_loses_the_connection() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: lambda *_: HANG}) as broker:
            connection = await connect(broker, request_timeout_ms=20)
            faults = await asyncio.gather(
                connection.send(HeartbeatRequest()),
                connection.send(HeartbeatRequest(), timeout_ms=5000),
                return_exceptions=True,
            )
            assert [type(fault) for fault in faults] == [KafkaTimeoutError, DisconnectError]
            assert not connection.is_open

    go(scenario())


def test_what_was_under_way_fails_when_the_broker_hangs_up() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: lambda *_: HANG_UP}) as broker:
            lost: list[Connection] = []
            connection = await connect(broker, on_lost=lost.append)
            with pytest.raises(DisconnectError):
                await connection.send(HeartbeatRequest())
            with pytest.raises(DisconnectError):
                await connection.send(HeartbeatRequest())
            assert lost == [connection]

    go(scenario())


def test_an_idle_connection_closes_itself() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            gone = asyncio.Event()
            connection = await connect(broker, idle_max_ms=10, on_lost=lambda _: gone.set())
            await gone.wait()
            assert not connection.is_open

    go(scenario())


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x50",
        b"\0\0\0\x06\0\0\0\x63ab",
    ],
)
def test_a_peer_that_speaks_something_else_is_named_so(garbage: bytes) -> None:
    async def scenario() -> None:
        async with ScriptedBroker({ApiVersionsRequest: lambda *_: garbage}) as broker:
            with pytest.raises(DisconnectError, match="does not speak Kafka's protocol"):
                await connect(broker)

    go(scenario())


def test_records_of_a_fetch_are_a_view_of_what_was_received() -> None:
    def fetched(request: FetchRequest, version: int) -> FetchResponse:
        row = FetchablePartitionResponse(records=b"r" * request.max_bytes)
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[row])])

    async def scenario() -> None:
        async with ScriptedBroker({FetchRequest: fetched}) as broker:
            connection = await connect(broker)
            answers = await asyncio.gather(
                *(connection.send(FetchRequest(max_bytes=size)) for size in (100, 10**6, 100, 7))
            )
            views = [answer.responses[0].partitions[0].records for answer in answers]
            assert [len(view) for view in views] == [100, 10**6, 100, 7]
            assert all(bytes(view) == b"r" * len(view) for view in views)
            assert all(isinstance(view, memoryview) for view in views)
            # The whole frame lies in one buffer of its own: nothing was moved.
            assert isinstance(views[1].obj, bytearray)
            assert 10**6 < len(views[1].obj) < 10**6 + STEP_BYTES
            assert all(view.obj is not views[1].obj for view in (views[0], *views[2:]))
            await connection.close()

    go(scenario())


def test_a_throttled_client_is_silent_for_as_long_as_it_is_told() -> None:
    def throttle(request: HeartbeatRequest, version: int) -> HeartbeatResponse:
        return HeartbeatResponse(throttle_time_ms=40 if request.generation_id == 0 else 0)

    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: throttle}) as broker:
            connection = await connect(broker)
            loop = asyncio.get_running_loop()
            started = loop.time()
            await connection.send(HeartbeatRequest(generation_id=0))
            assert not connection.has_room
            await connection.send(HeartbeatRequest(generation_id=1))
            assert loop.time() - started >= 0.035
            await connection.close()

    go(scenario())


def test_a_request_without_an_answer_does_not_shift_the_others() -> None:
    def answer(request: HeartbeatRequest, version: int) -> Any:
        return HANG if request.generation_id == 0 else echo(request, version)

    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: answer}) as broker:
            connection = await connect(broker)
            none = connection.request(HeartbeatRequest(), 4, expects_answer=False)
            assert await none is None
            assert (await connection.send(HeartbeatRequest(generation_id=5))).error_code == 5
            await connection.close()

    go(scenario())


def test_connecting_to_nobody_says_where() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            port = broker.port
        broker.port = port
        with pytest.raises(DisconnectError, match=f"127.0.0.1:{port} could not be established"):
            await connect(broker)

    go(scenario())


def test_closing_sends_what_is_written_and_fails_what_is_under_way() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({MetadataRequest: lambda *_: HANG}) as broker:
            connection = await connect(broker)
            waiting = connection.request(MetadataRequest(), 12)
            await connection.close()
            await connection.close()
            with pytest.raises(DisconnectError, match="closed it"):
                await waiting

    go(scenario())
