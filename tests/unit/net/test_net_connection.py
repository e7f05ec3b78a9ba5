"""Frames in, answers out in order, whatever the client does to the stream."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import struct
from pathlib import Path

import pytest

from moldau.net import connection as connection_module
from moldau.net.received_bytes import READ_BYTES, START_BYTES
from moldau.net.server import SocketSettings
from tests.support.echo_server import (
    ECHO,
    FILE,
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


def test_a_request_is_answered() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            writer.write(frame(ECHO, b"hello"))
            assert await read_answer(reader) == b"hello"
            writer.close()

    run(scenario)


def test_frames_that_arrive_byte_by_byte_are_put_together() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            writer.transport.get_extra_info("socket").setsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
            )
            connection = await echo.connection()
            for byte in frame(ECHO, b"slow") + frame(ECHO, b"slower"):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            assert await read_answer(reader) == b"slow"
            assert await read_answer(reader) == b"slower"
            assert connection.buffer_bytes == START_BYTES
            writer.close()

    run(scenario)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            bodies = [b"%d" % number for number in range(20_000)]
            writer.write(b"".join(frame(ECHO, body) for body in bodies))
            assert [await read_answer(reader) for _ in bodies] == bodies
            writer.close()

    run(scenario)


@pytest.mark.parametrize("size", [START_BYTES, READ_BYTES - 6, READ_BYTES, 300_000, 5_000_000])
def test_frames_of_any_size_go_through_one_after_the_other(size: int) -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            bodies = [os.urandom(size + extra) for extra in (0, 1, -1)] + [b"small"]
            writer.write(b"".join(frame(ECHO, body) for body in bodies))
            for body in bodies:
                assert await read_answer(reader) == body
            writer.close()

    run(scenario)


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_an_impossible_size_ends_the_connection_with_one_line(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with EchoServer(SocketSettings(request_bytes_max=1000)) as echo:
            reader, writer = await echo.connect()
            writer.write(frame(ECHO, b"fine") + struct.pack(">i", size) + b"x" * 50)
            assert await read_answer(reader) == b"fine"
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            assert not echo.server.connections
            writer.close()

    with caplog.at_level(logging.WARNING):
        run(scenario)
    assert len(caplog.records) == 1
    assert str(size) in caplog.records[0].getMessage()


def test_a_claimed_size_costs_no_memory() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            _, writer = await echo.connect()
            connection = await echo.connection()
            writer.write(struct.pack(">i", 100 * 1024 * 1024) + b"x" * 10)
            await until(lambda: connection.buffer_bytes > START_BYTES)
            assert connection.buffer_bytes <= READ_BYTES
            writer.close()

    run(scenario)


def test_a_refused_request_ends_only_its_own_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            bad_reader, bad_writer = await echo.connect()
            reader, writer = await echo.connect()
            bad_writer.write(frame(ECHO, b"before") + frame(REFUSE) + frame(ECHO, b"after"))
            assert await read_answer(bad_reader) == b"before"
            with contextlib.suppress(ConnectionResetError):
                assert await bad_reader.read() == b""
            writer.write(frame(ECHO, b"unharmed"))
            assert await read_answer(reader) == b"unharmed"
            assert b"after" not in echo.requests.begun
            bad_writer.close()
            writer.close()

    with caplog.at_level(logging.WARNING):
        run(scenario)
    assert len(caplog.records) == 1
    assert "asked for it" in caplog.text


def test_a_request_without_an_answer_does_not_disturb_the_order() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            writer.write(frame(ECHO, b"1") + frame(NOTHING, b"2") + frame(ECHO, b"3"))
            assert [await read_answer(reader), await read_answer(reader)] == [b"1", b"3"]
            assert echo.requests.begun == [b"1", b"2", b"3"]
            writer.close()

    run(scenario)


def test_the_next_request_begins_only_when_a_waiting_one_is_answered() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            writer.write(frame(LATER, b"slow") + frame(ECHO, b"next") + frame(ECHO, b"last"))
            await until(lambda: bool(echo.requests.later))
            for _ in range(20):
                await asyncio.sleep(0)
            assert echo.requests.begun == [b"slow"]
            echo.requests.later[0].release()
            assert [await read_answer(reader) for _ in range(3)] == [b"slow", b"next", b"last"]
            writer.close()

    run(scenario)


def test_overlapping_requests_are_answered_in_order_though_they_finish_in_another() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            later = echo.requests.later
            for body in (b"1", b"2", b"3"):
                writer.write(frame(LATER_OVERLAPPING, body))
            writer.write(frame(ECHO, b"4"))
            await until(lambda: len(later) == 3)
            later[2].release()
            later[1].release()
            assert b"4" not in echo.requests.begun
            assert echo.server.overlapping == 2
            later[0].release()
            assert [await read_answer(reader) for _ in range(4)] == [b"1", b"2", b"3", b"4"]
            assert echo.server.overlapping == 0
            writer.close()

    run(scenario)


def test_overlapping_requests_of_all_connections_are_bounded() -> None:
    async def scenario() -> None:
        async with EchoServer(SocketSettings(requests_overlapping_max=2)) as echo:
            first_reader, first = await echo.connect()
            second_reader, second = await echo.connect()
            later = echo.requests.later
            first.write(frame(LATER_OVERLAPPING, b"a") * 5)
            await until(lambda: len(later) == 3)
            second.write(frame(LATER_OVERLAPPING, b"b") * 5)
            await until(lambda: len(later) == 4)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(later) == 4
            answered = 0
            while answered < 10:
                later[answered].release()
                answered += 1
                await asyncio.sleep(0)
            for reader, body in ((first_reader, b"a"), (second_reader, b"b")):
                assert [await read_answer(reader) for _ in range(5)] == [body] * 5
            assert echo.server.overlapping == 0
            first.close()
            second.close()

    run(scenario)


def test_the_bytes_of_a_waiting_request_stay_as_they_were() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            writer.write(frame(LATER, b"precious") + frame(ECHO, b"x" * 5000)[:3000])
            await until(lambda: bool(echo.requests.later))
            writer.write(frame(ECHO, b"x" * 5000)[3000:])
            for _ in range(20):
                await asyncio.sleep(0)
            echo.requests.later[0].release()
            assert await read_answer(reader) == b"precious"
            assert await read_answer(reader) == b"x" * 5000
            writer.close()

    run(scenario)


def test_a_client_that_leaves_cancels_what_it_waited_for() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            _, writer = await echo.connect()
            writer.write(frame(LATER_OVERLAPPING, b"1") + frame(LATER_OVERLAPPING, b"2"))
            await until(lambda: len(echo.requests.later) == 2)
            writer.close()
            await until(lambda: not echo.server.connections)
            assert all(answer.is_cancelled for answer in echo.requests.later)
            assert echo.server.overlapping == 0
            echo.requests.later[0].release()

    run(scenario)


def test_a_client_that_leaves_takes_its_half_sent_frame_along() -> None:
    """Whoever still refers to the connection, an exception perhaps, keeps no memory with it."""

    async def scenario() -> None:
        async with EchoServer() as echo:
            _, writer = await echo.connect()
            writer.write(frame(LATER_OVERLAPPING, b"1") + frame(ECHO, bytes(READ_BYTES))[:-1])
            await until(lambda: bool(echo.requests.later))
            connection = echo.requests.later[0].connection
            await until(lambda: connection.buffer_bytes >= READ_BYTES)
            writer.close()
            await until(lambda: connection.is_closed)
            assert connection.buffer_bytes == 0

    run(scenario)


def test_a_client_that_only_stops_sending_still_gets_its_answers() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            writer.write(frame(LONG, b"3000000") + frame(ECHO, b"end"))
            writer.write_eof()
            assert len(await read_answer(reader)) == 3_000_000
            assert await read_answer(reader) == b"end"
            assert await reader.read() == b""
            await until(lambda: not echo.server.connections)
            writer.close()

    run(scenario)


def test_a_slow_reader_stops_only_itself_and_keeps_a_bounded_queue() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            slow = socket.create_connection(("127.0.0.1", echo.port))
            slow.setblocking(False)
            connection = await echo.connection()
            request, asked = frame(LONG, b"100000"), 2000
            unsent = memoryview(request * asked)
            loop = asyncio.get_running_loop()
            sending = loop.create_task(loop.sock_sendall(slow, unsent))
            await until(lambda: connection.bytes_unsent > connection_module.UNSENT_BYTES_MAX)
            reader, writer = await echo.connect()
            for _ in range(100):
                writer.write(frame(ECHO, b"quick"))
                assert await read_answer(reader) == b"quick"
            assert connection.bytes_unsent < connection_module.UNSENT_BYTES_MAX + 200_000
            assert len(echo.requests.begun) < 1000
            received = 0
            while received < asked * 100_004:
                received += len(await loop.sock_recv(slow, 1 << 20))
            await sending
            slow.close()
            writer.close()

    run(scenario)


def test_a_region_of_a_file_is_sent_between_bytes(tmp_path: Path) -> None:
    path = tmp_path / "records"
    content = random.Random(1).randbytes(3_000_000)
    path.write_bytes(content)

    async def scenario() -> None:
        async with EchoServer() as echo:
            with path.open("rb") as echo.requests.file:
                reader, writer = await echo.connect()
                for position, size in ((0, 10), (5, 2_999_995), (100, 1_000_000)):
                    writer.write(frame(FILE, struct.pack(">qi", position, size)))
                    wanted = content[position : position + size] + b"tail"
                    assert await read_answer(reader) == wanted
                writer.close()

    run(scenario)


def test_a_file_that_is_too_short_ends_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"0123456789")

    async def scenario() -> None:
        async with EchoServer() as echo:
            with path.open("rb") as echo.requests.file:
                reader, writer = await echo.connect()
                writer.write(frame(FILE, struct.pack(">qi", 5, 10)))
                with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                    await read_answer(reader)
                writer.close()

    run(scenario)
    assert "5 bytes too early" in caplog.text
