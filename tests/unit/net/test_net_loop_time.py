"""Whatever the loop does for a connection is in a turn that somebody pays for."""

from __future__ import annotations

from time import perf_counter_ns

import pytest

from moldau.net.answers import Answer
from moldau.net.connection import REQUESTS_PER_TURN, Connection
from moldau.net.loop_time import LoopTime
from moldau.security.quotas.budgets import NS_PER_MS, TimeBudget, Window
from moldau.wire.request_framing import Chunk
from tests.support.echo_server import ECHO, LATER, LONG, EchoServer, frame, read_answer, run, until

ANSWER_BYTES = 400_000


def test_every_request_is_begun_in_a_turn() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            begin, due_ns = echo.server.times.begin, list[int]()

            def begin_in_turn(connection: Connection, view: memoryview) -> list[Chunk] | Answer:
                assert connection.loop_time is not None
                due_ns.append(connection.loop_time.due_ns(perf_counter_ns()))
                return begin(connection, view)

            echo.server.watch_requests(begin_in_turn)
            echo.server.take_loop_time(True)
            reader, writer = await echo.connect()
            # More than one turn begins, and one behind an answer that takes time.
            count = 3 * REQUESTS_PER_TURN
            writer.write(frame(ECHO, b"x") * count + frame(LATER, b"y") + frame(ECHO, b"z"))
            for _ in range(count):
                assert await read_answer(reader) == b"x"
            await until(lambda: bool(echo.requests.later))
            echo.requests.later[0].release()
            assert await read_answer(reader) == b"y"
            assert await read_answer(reader) == b"z"
            # These wait until the client has taken what was answered before.
            slow = 40
            writer.write(frame(LONG, b"%d" % ANSWER_BYTES) * slow)
            for _ in range(slow):
                assert len(await read_answer(reader)) == ANSWER_BYTES
            assert len(due_ns) == count + 2 + slow
            assert all(each > 0 for each in due_ns)
            writer.close()

    run(scenario)


class Time:
    now_ns = 5_000 * NS_PER_MS

    def pass_ms(self, milliseconds: int) -> None:
        self.now_ns += milliseconds * NS_PER_MS


def test_a_turn_within_a_turn_is_paid_for_once_and_a_fault_ends_it() -> None:
    time, budget = Time(), TimeBudget(Window())
    loop_time = LoopTime(lambda: time.now_ns)
    loop_time.paid_by(budget)

    def outer() -> None:
        time.pass_ms(30)
        loop_time.turn(lambda: time.pass_ms(200))
        time.pass_ms(7)

    loop_time.turn(outer)
    assert spent_ms(budget, time) == 237

    def fail() -> None:
        time.pass_ms(3)
        raise ValueError("of a test")

    with pytest.raises(ValueError, match="of a test"):
        loop_time.turn(fail)
    time.pass_ms(500)
    assert loop_time.due_ns(time.now_ns) == 0
    assert spent_ms(budget, time) == 240


def spent_ms(budget: TimeBudget, time: Time) -> float:
    now_ms = time.now_ns // NS_PER_MS
    return budget.rate.rate(now_ms) * budget.rate.window_ms(now_ms) / 1_000 / NS_PER_MS
