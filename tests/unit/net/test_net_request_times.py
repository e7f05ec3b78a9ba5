"""Where the time of requests goes, by a clock that the test moves."""

from __future__ import annotations

import asyncio

from moldau.net.request_times import RequestTimes, TimedRequest
from moldau.net.server import SocketSettings
from tests.support.echo_server import (
    ECHO,
    LATER,
    LATER_OVERLAPPING,
    LONG,
    EchoServer,
    frame,
    read_answer,
    run,
    until,
)


def test_every_request_is_counted_while_somebody_listens() -> None:
    async def scenario() -> None:
        now = [1_000]
        told: list[TimedRequest] = []
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            writer.write(frame(ECHO, b"before"))
            await read_answer(reader)
            times = RequestTimes(echo.requests, lambda timed, _: told.append(timed), lambda: now[0])
            echo.server.take_times(times)
            writer.write(frame(ECHO, b"one") + frame(ECHO, b"two"))
            await read_answer(reader)
            await read_answer(reader)
            assert times.cells[ECHO].count == 2
            assert times.cells[ECHO].request_bytes == 10
            writer.write(frame(LATER, b"slow"))
            await until(lambda: len(echo.requests.later) == 1)
            now[0] += 500
            echo.requests.later[0].release()
            await read_answer(reader)
            cells = times.cells[LATER]
            assert (cells.count, cells.remote_ns, cells.total_ns) == (1, 500, 500)
            assert [timed.api_key for timed in told] == [ECHO, ECHO, LATER]
            echo.server.take_times(None)
            writer.write(frame(ECHO, b"after"))
            await read_answer(reader)
            assert times.cells[ECHO].count == 2
            writer.close()

    run(scenario)


def test_sending_takes_as_long_as_the_client_does() -> None:
    async def scenario() -> None:
        now = [0]
        async with EchoServer(SocketSettings(send_buffer_bytes=10_000)) as echo:
            times = RequestTimes(echo.requests, None, lambda: now[0])
            echo.server.take_times(times)
            reader, writer = await echo.connect()
            writer.write(frame(LONG, b"2000000"))
            connection = await echo.connection()
            await until(lambda: connection.bytes_unsent > 0)
            assert LONG not in times.cells
            now[0] = 7_000
            assert len(await read_answer(reader)) == 2_000_000
            await until(lambda: LONG in times.cells)
            assert times.cells[LONG].send_ns == 7_000
            writer.close()

    run(scenario)


def test_a_paused_client_is_answered_first_and_served_later() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            connection = await echo.connection()
            writer.write(frame(LATER_OVERLAPPING, b"a"))
            await until(lambda: len(echo.requests.later) == 1)
            begun = asyncio.get_running_loop().time()
            connection.pause(50)
            echo.requests.later[0].release()
            assert await read_answer(reader) == b"a"
            writer.write(frame(ECHO, b"b"))
            assert await read_answer(reader) == b"b"
            assert asyncio.get_running_loop().time() - begun >= 0.05
            assert not connection.is_waiting
            assert echo.server.overlapping == 0
            writer.close()

    run(scenario)
