"""What nobody foresaw ends one connection, not the broker."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.broker.process import end_faulty_connection
from moldau.net.answers import Answer
from moldau.net.connection import Connection
from moldau.net.request_times import RequestTimes
from moldau.wire.request_framing import Chunk
from tests.support.echo_server import ECHO, EchoServer, frame, read_answer, run


def test_a_fault_in_the_network_layer_ends_the_connection_it_happened_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(end_faulty_connection)
        async with EchoServer() as echo:
            ordinary = echo.requests.begin

            def begin(connection: Connection, view: memoryview) -> list[Chunk] | Answer:
                if bytes(view[4:]) == b"bug":
                    raise ZeroDivisionError("of course")
                return ordinary(connection, view)

            echo.requests.begin = begin  # type: ignore[method-assign]
            echo.server.times = RequestTimes(echo.requests)
            unlucky, unlucky_writer = await echo.connect()
            reader, writer = await echo.connect()
            unlucky_writer.write(frame(ECHO, b"bug"))
            assert await unlucky.read() == b""
            writer.write(frame(ECHO, b"fine"))
            assert await read_answer(reader) == b"fine"
            unlucky_writer.close()
            writer.close()

    with caplog.at_level(logging.WARNING):
        run(scenario)
    assert "ZeroDivisionError" in caplog.text
    assert "unforeseen fault" in caplog.text
