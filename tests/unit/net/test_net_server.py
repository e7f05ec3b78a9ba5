"""Listeners, limits on connections, and the end of silent ones."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from moldau.net.acceptor import BindFault, Listener
from moldau.net.received_bytes import START_BYTES
from moldau.net.server import Server, SocketSettings
from tests.support.echo_server import (
    ECHO,
    LATER,
    EchoServer,
    frame,
    read_answer,
    run,
    until,
)


def test_port_zero_gets_a_free_port() -> None:
    async def scenario() -> None:
        async with EchoServer() as first, EchoServer() as second:
            assert 0 not in (first.port, second.port)
            assert first.port != second.port

    run(scenario)


def test_a_bound_address_lets_nobody_in_before_the_start() -> None:
    async def scenario() -> None:
        echo = EchoServer()
        with pytest.raises(ConnectionRefusedError):
            await echo.connect()
        async with echo:
            _, writer = await echo.connect()
            writer.close()

    run(scenario)


def test_a_taken_port_is_one_sentence() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            second = Server(asyncio.get_running_loop(), SocketSettings(), echo.requests)
            with pytest.raises(BindFault, match=rf"127.0.0.1:{echo.port}: the port is taken\."):
                second.bind(Listener("PLAINTEXT", "127.0.0.1", echo.port))

    run(scenario)


def test_an_unknown_host_is_one_sentence() -> None:
    async def scenario() -> None:
        server = EchoServer().server
        with pytest.raises(BindFault, match=r"failed to bind to 256\.0\.0\.1:0"):
            server.bind(Listener("PLAINTEXT", "256.0.0.1", 0))
        server.stop()

    run(scenario)


def test_an_empty_host_listens_everywhere() -> None:
    async def scenario() -> None:
        echo = EchoServer()
        port = echo.server.bind(Listener("OUTSIDE", "", 0)).port
        async with echo:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(ECHO, b"v4"))
            assert await read_answer(reader) == b"v4"
            connection = await echo.connection()
            assert connection.client_host == "127.0.0.1"
            assert connection.listener.name == "OUTSIDE"
            writer.close()

    run(scenario)


def test_socket_options_are_set() -> None:
    async def scenario() -> None:
        settings = SocketSettings(send_buffer_bytes=300_000, receive_buffer_bytes=50_000)
        async with EchoServer(settings) as echo:
            _, writer = await echo.connect()
            connection = await echo.connection()
            sock = socket.socket(fileno=os.dup(connection.fileno()))
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            # Linux reports twice what was asked for, its own bookkeeping included.
            asked = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            assert asked in (300_000, 600_000)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (50_000, 100_000)
            sock.close()
            writer.close()

    run(scenario)


def test_one_address_has_only_its_share_of_connections() -> None:
    async def scenario() -> None:
        async with EchoServer(SocketSettings(connections_per_ip_max=1)) as echo:
            reader, writer = await echo.connect()
            await echo.connection()
            rejected, rejected_writer = await echo.connect()
            assert await rejected.read() == b""
            writer.write(frame(ECHO, b"first"))
            assert await read_answer(reader) == b"first"
            writer.close()
            await until(lambda: not echo.server.connections)
            again, again_writer = await echo.connect()
            again_writer.write(frame(ECHO, b"again"))
            assert await read_answer(again) == b"again"
            again_writer.close()
            rejected_writer.close()

    run(scenario)


def test_an_address_may_have_its_own_limit() -> None:
    async def scenario() -> None:
        settings = SocketSettings(
            connections_per_ip_max=1, connections_per_ip_overrides={"127.0.0.1": 2}
        )
        async with EchoServer(settings) as echo:
            writers = [(await echo.connect())[1] for _ in range(2)]
            await until(lambda: len(echo.server.connections) == 2)
            for writer in writers:
                writer.close()

    run(scenario)


def test_beyond_the_limit_clients_wait_until_another_leaves() -> None:
    async def scenario() -> None:
        async with EchoServer(SocketSettings(connections_max=1)) as echo:
            _, first = await echo.connect()
            await echo.connection()
            reader, second = await echo.connect()
            second.write(frame(ECHO, b"patient"))
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(echo.server.connections) == 1
            assert echo.requests.begun == []
            first.close()
            assert await read_answer(reader) == b"patient"
            second.close()

    run(scenario)


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    async def scenario() -> None:
        limits = {"PLAINTEXT": 1}
        echo = EchoServer(SocketSettings(connections_per_listener_max=limits))
        other_port = echo.server.bind(Listener("OTHER", "127.0.0.1", 0)).port
        async with echo:
            _, first = await echo.connect()
            await echo.connection()
            _, second = await echo.connect()
            _, other = await asyncio.open_connection("127.0.0.1", other_port)
            await until(lambda: len(echo.server.connections) == 2)
            names = sorted(c.listener.name for c in echo.server.connections)
            assert names == ["OTHER", "PLAINTEXT"]
            echo.server.reconfigure(SocketSettings())
            await until(lambda: len(echo.server.connections) == 3)
            for writer in (first, second, other):
                writer.close()

    run(scenario)


def test_clients_that_come_too_fast_wait_until_the_rate_is_down() -> None:
    async def scenario() -> None:
        # Two samples of two seconds: the first two connections are one a second.
        settings = SocketSettings(
            connections_per_second_max=1,
            connection_rate_samples=2,
            connection_rate_sample_ms=2_000,
        )
        async with EchoServer(settings) as echo:
            writers = [(await echo.connect())[1] for _ in range(3)]
            await until(lambda: len(echo.server.connections) == 2)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(echo.server.connections) == 2
            await until(lambda: len(echo.server.connections) == 3)
            for writer in writers:
                writer.close()

    run(scenario)


def test_an_address_that_comes_too_fast_sees_its_connection_end_late() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            # One in ten seconds.
            echo.server.connection_rates.limit_addresses({"127.0.0.1": 0.1})
            _, first = await echo.connect()
            await until(lambda: len(echo.server.connections) == 1)
            begun = asyncio.get_running_loop().time()
            reader, second = await echo.connect()
            assert await reader.read() == b""
            assert asyncio.get_running_loop().time() - begun >= 0.9
            assert len(echo.server.connections) == 1
            echo.server.connection_rates.limit_addresses({})
            _, third = await echo.connect()
            await until(lambda: len(echo.server.connections) == 2)
            for writer in (first, second, third):
                writer.close()

    run(scenario)


def test_where_brokers_come_in_the_limit_of_all_does_not_hold() -> None:
    async def scenario() -> None:
        settings = SocketSettings(connections_max=2, protected_listener="BROKERS")
        echo = EchoServer(settings)
        brokers_port = echo.server.bind(Listener("BROKERS", "127.0.0.1", 0)).port
        async with echo:
            first_reader, first = await echo.connect()
            await until(lambda: len(echo.server.connections) == 1)
            _, second = await echo.connect()
            await until(lambda: len(echo.server.connections) == 2)
            _, broker = await asyncio.open_connection("127.0.0.1", brokers_port)
            # The client that was silent longest makes room.
            assert await first_reader.read() == b""
            names = sorted(c.listener.name for c in echo.server.connections)
            assert names == ["BROKERS", "PLAINTEXT"]
            # So it is when the limit becomes smaller.
            echo.server.reconfigure(settings._replace(connections_max=1))
            await until(lambda: len(echo.server.connections) == 1)
            assert [c.listener.name for c in echo.server.connections] == ["BROKERS"]
            for writer in (first, second, broker):
                writer.close()

    run(scenario)


def test_a_silent_connection_is_closed_and_one_that_waits_is_not() -> None:
    async def scenario() -> None:
        async with EchoServer(SocketSettings(idle_ms_max=50)) as echo:
            silent, silent_writer = await echo.connect()
            waiting, waiting_writer = await echo.connect()
            waiting_writer.write(frame(LATER, b"patience"))
            await until(lambda: len(echo.requests.later) == 1)
            assert await silent.read() == b""
            assert len(echo.server.connections) == 1
            echo.requests.later[0].release()
            assert await read_answer(waiting) == b"patience"
            assert await waiting.read() == b""
            silent_writer.close()
            waiting_writer.close()

    run(scenario)


def test_a_silent_connection_gives_its_memory_back() -> None:
    async def scenario() -> None:
        async with EchoServer(SocketSettings(idle_ms_max=10_000)) as echo:
            reader, writer = await echo.connect()
            connection = await echo.connection()
            writer.write(frame(ECHO, b"x" * 1_000_000))
            await read_answer(reader)
            assert connection.buffer_bytes > 1_000_000
            echo.server._sweep(1.0)
            echo.server._sweep(1.0)
            assert connection.buffer_bytes == START_BYTES
            writer.close()

    run(scenario)


def test_a_stop_ends_every_connection_and_cancels_what_waits() -> None:
    async def scenario() -> None:
        async with EchoServer() as echo:
            reader, writer = await echo.connect()
            writer.write(frame(LATER, b"never"))
            await until(lambda: len(echo.requests.later) == 1)
            echo.server.stop()
            assert await reader.read() == b""
            assert echo.requests.later[0].is_cancelled
            writer.close()

    run(scenario)
