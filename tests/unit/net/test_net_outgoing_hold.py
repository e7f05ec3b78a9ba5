"""Nothing leaves while a hold is on, everything in its order afterwards, and it ends by itself."""

from __future__ import annotations

import asyncio

import pytest

from moldau.net.holding.outgoing_hold import OutgoingHold
from tests.support.echo_server import ECHO, LATER, LONG, EchoServer, frame, read_answer, run, until

SHORT = 0.05


def test_answers_wait_while_it_is_on_and_leave_in_their_order() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            writer.write(frame(LATER, b"before"))
            await until(lambda: bool(echo.requests.later))
            echo.server.hold.begin(60)
            echo.requests.later[0].release()
            writer.write(frame(ECHO, b"small") + frame(LONG, b"200000") + frame(ECHO, b"last"))
            await until(lambda: len(echo.requests.begun) == 4)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), SHORT)
            assert (echo.server.hold.end() or 0) >= SHORT
            assert await read_answer(reader) == b"before"
            assert await read_answer(reader) == b"small"
            assert len(await read_answer(reader)) == 200_000
            assert await read_answer(reader) == b"last"
            writer.close()

    run(scenario)


def test_what_a_slow_client_has_not_taken_waits_too() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            size = 30_000_000
            writer.write(frame(LONG, b"%d" % size))
            connection = await echo.connection()
            await until(lambda: connection.bytes_unsent > 0)
            echo.server.hold.begin(60)
            await asyncio.sleep(SHORT)
            unsent = connection.bytes_unsent
            taking = asyncio.ensure_future(read_answer(reader))
            await asyncio.sleep(SHORT)
            assert connection.bytes_unsent == unsent
            echo.server.hold.end()
            assert len(await taking) == size
            writer.close()

    run(scenario)


def test_who_ends_it_is_answered_meanwhile() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            (await echo.connection()).is_never_held = True
            echo.server.hold.begin(60)
            writer.write(frame(ECHO, b"hello"))
            assert await read_answer(reader) == b"hello"
            echo.server.hold.end()
            writer.close()

    run(scenario)


def test_it_ends_by_itself_and_says_so() -> None:
    async def scenario() -> None:
        hold = OutgoingHold(asyncio.get_running_loop())
        hold.begin(SHORT)
        await asyncio.wait_for(hold.over(), 10)
        assert not hold.is_on
        assert hold.end() is None
        await hold.over()
        hold.begin(60)
        assert hold.end() is not None

    run(scenario)
