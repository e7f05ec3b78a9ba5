"""Where the time of requests goes, by a clock that the test moves."""

from __future__ import annotations

import asyncio

from moldau.metrics.duration_cells import DurationCells, summary
from moldau.net.request_times import UNSENT_MAX, RequestCells, RequestTimes, TimedRequest
from moldau.net.server import SocketSettings
from tests.support.echo_server import (
    ECHO,
    LATER,
    LATER_OVERLAPPING,
    LONG,
    NOTHING,
    REFUSE,
    EchoServer,
    frame,
    read_answer,
    run,
    until,
)


class Moving:
    """A server whose times go by a clock that stands still until it is moved."""

    def __init__(self, echo: EchoServer) -> None:
        self.now_ns = 1_000_000
        self.times = echo.server.times = RequestTimes(echo.requests, lambda: self.now_ns)

    def cells(self, kind: int) -> RequestCells:
        found = self.times.cells[kind]
        assert found is not None
        return found


def test_every_request_is_counted_by_kind_and_version() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            clock = Moving(echo)
            reader, writer = await echo.connect()
            writer.write(frame(ECHO, b"one") + frame(ECHO, b"two"))
            await read_answer(reader)
            await read_answer(reader)
            assert clock.cells(ECHO).versions[0] == 2
            assert clock.cells(ECHO).at_once.count == 2
            assert clock.times.cells[LATER] is None
            writer.close()

    run(scenario)


def test_requests_of_one_read_are_counted_each_whatever_stands_between_them() -> None:
    """Those that look alike are counted together; a request that is refused ends the read."""

    async def scenario() -> None:
        async with EchoServer() as echo:
            clock = Moving(echo)
            reader, writer = await echo.connect()
            sent = [frame(ECHO, b"a" * 10)] * 3 + [frame(ECHO, b"b" * 500)] * 2
            sent += [frame(ECHO, b"a" * 10), frame(NOTHING), frame(ECHO, b"a" * 10)]
            sent += [frame(LONG, b"5000")]
            writer.write(b"".join(sent))
            for _ in range(8):
                await read_answer(reader)
            writer.write(frame(ECHO, b"c") + frame(REFUSE, b"no"))
            await read_answer(reader)
            assert await reader.read() == b""
            echoed, long = clock.cells(ECHO), clock.cells(LONG)
            assert echoed.versions[0] == echoed.at_once.count == echoed.sizes.count == 8
            assert sum(echoed.sizes.cells[(514 * 514).bit_length() - 2 :]) == 2
            assert (long.versions[0], long.at_once.count, long.total.count) == (1, 0, 1)
            assert clock.cells(NOTHING).versions[0] == clock.cells(NOTHING).total.count == 1
            assert clock.times.cells[REFUSE] is None
            writer.close()

    run(scenario)


def test_whoever_stands_in_between_counts_the_same() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            clock = Moving(echo)
            reader, writer = await echo.connect()
            connection = await echo.connection()
            for begin in (None, lambda *given: clock.times.begin_timed(*given), None):
                echo.server.watch_requests(begin)
                assert (connection.begin is clock.times.plain) == (begin is None)
                writer.write(frame(ECHO, b"x") * 5)
                for _ in range(5):
                    await read_answer(reader)
            assert clock.cells(ECHO).versions[0] == clock.cells(ECHO).at_once.count == 15
            writer.close()

    run(scenario)


def test_waiting_for_an_answer_is_remote_time() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            clock = Moving(echo)
            reader, writer = await echo.connect()
            writer.write(frame(LATER, b"slow"))
            await until(lambda: len(echo.requests.later) == 1)
            clock.now_ns += 64_000_000
            echo.requests.later[0].release()
            await read_answer(reader)
            cells = clock.cells(LATER)
            assert cells.versions[0] == cells.total.count == 1
            assert _median(cells.total) == _median(cells.remote)
            assert 45 < _median(cells.remote) < 91
            assert _median(cells.local) == _median(cells.send) == 0
            writer.close()

    run(scenario)


def test_sending_takes_as_long_as_the_client_does() -> None:
    async def scenario() -> None:
        async with EchoServer(SocketSettings(send_buffer_bytes=10_000)) as echo:
            clock = Moving(echo)
            reader, writer = await echo.connect()
            writer.write(frame(LONG, b"2000000"))
            connection = await echo.connection()
            await until(lambda: connection.bytes_unsent > 0)
            assert clock.cells(LONG).total.count == 0
            clock.now_ns += 7_000_000
            assert len(await read_answer(reader)) == 2_000_000
            await until(lambda: clock.cells(LONG).total.count == 1)
            assert 4.9 < _median(clock.cells(LONG).send) < 9.9
            assert _median(clock.cells(LONG).local) == 0
            writer.close()

    run(scenario)


def _median(cells: DurationCells) -> float:
    return dict(summary([cells]).quantiles)["0.50"]


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


def test_answers_to_a_client_that_always_has_something_coming_do_not_pile_up() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            times, cells = Moving(echo).times, RequestCells()
            unsent: list[TimedRequest] = []
            for _ in range(3 * UNSENT_MAX):
                times.answered(TimedRequest(cells, 0, 1), unsent)
                assert len(unsent) < UNSENT_MAX
            assert cells.total.count == 3 * UNSENT_MAX

    run(scenario)
