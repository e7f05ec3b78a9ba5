"""A connection before and after its client is known, with a toy in the authenticator's place."""

from __future__ import annotations

import asyncio
import logging
import struct

import pytest

from moldau.net import login as login_module
from moldau.net.acceptor import Listener
from moldau.net.entrance import LoginStep, OpenEntrance
from moldau.net.server import SocketSettings
from moldau.net.transport import Transport
from moldau.security.naming.principal import ANONYMOUS, Principal
from tests.support.echo_server import (
    ECHO,
    EchoServer,
    answer_of,
    frame,
    read_answer,
    run,
    until,
)

ALICE = Principal("User", "alice")


class Password:
    """Wants the word "please" in a frame of its own; "ask" is a request that anybody may make."""

    frame_bytes_max = 100

    def __init__(self, *, stays: bool = False) -> None:
        self.stays = stays
        self.is_known = False

    def greet(self) -> LoginStep:
        return LoginStep()

    def take(self, view: memoryview) -> LoginStep:
        word = bytes(view)
        if word == b"please":
            self.is_known = True
            return LoginStep(answer_of(b"welcome"), ALICE)
        if word == b"again" and self.is_known:
            return LoginStep(answer_of(b"once more"), Principal("User", "bob"))
        if self.is_known or word[4:] == b"ask":
            return LoginStep(is_request=True)
        return LoginStep(answer_of(b"no"), refusal=f"a wrong word of {len(word)} bytes")


class Door(OpenEntrance):
    def __init__(self, *, stays: bool = False) -> None:
        self._stays = stays

    def authenticator(self, transport: Transport) -> Password:
        return Password(stays=self._stays)


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def guarded(settings: SocketSettings | None = None, *, stays: bool = False) -> EchoServer:
    echo = EchoServer(settings)
    listener = Listener("GUARDED", "127.0.0.1", 0, "SASL_PLAINTEXT")
    echo.port = echo.server.bind(listener, Door(stays=stays)).port
    return echo


@pytest.mark.parametrize("stays", [False, True])
def test_requests_are_served_once_the_authenticator_is_content(stays: bool) -> None:
    async def scenario() -> None:
        async with guarded(stays=stays) as echo:
            reader, writer = await echo.connect()
            connection = await echo.connection()
            assert (connection.principal, len(echo.server.logins)) == (ANONYMOUS, 1)
            connection.memory[1] = "what was known of an unknown client"
            # All at once: the log-in ends in the middle of what is read.
            writer.write(sized(b"please") + frame(ECHO, b"hello") + frame(ECHO, bytes(1000)))
            assert await read_answer(reader) == b"welcome"
            assert await read_answer(reader) == b"hello"
            assert await read_answer(reader) == bytes(1000)
            assert (connection.principal, connection.memory) == (ALICE, {})
            assert len(echo.server.logins) == 0
            writer.close()

    run(scenario)


def test_a_request_may_be_let_through_before_the_log_in() -> None:
    async def scenario() -> None:
        async with guarded() as echo:
            reader, writer = await echo.connect()
            writer.write(frame(ECHO, b"ask"))
            assert await read_answer(reader) == b"ask"
            assert (await echo.connection()).principal == ANONYMOUS
            writer.close()

    run(scenario)


def test_a_principal_that_changes_clears_what_was_remembered() -> None:
    async def scenario() -> None:
        async with guarded(stays=True) as echo:
            reader, writer = await echo.connect()
            writer.write(sized(b"please"))
            await read_answer(reader)
            connection = await echo.connection()
            connection.memory[1] = "alice's"
            writer.write(sized(b"again"))
            assert await read_answer(reader) == b"once more"
            assert (str(connection.principal), connection.memory) == ("User:bob", {})
            writer.close()

    run(scenario)


def test_who_is_turned_away_hears_of_it_late_and_is_served_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with guarded(SocketSettings(failed_login_delay_ms=50)) as echo:
            reader, writer = await echo.connect()
            begun = asyncio.get_running_loop().time()
            with caplog.at_level(logging.INFO, login_module.log.name):
                writer.write(sized(b"wrong") + frame(ECHO, b"hello") + sized(b"please"))
                assert await read_answer(reader) == b"no"
                assert asyncio.get_running_loop().time() - begun >= 0.05
                assert await reader.read() == b""
            assert echo.requests.begun == []
            assert "Failed authentication with /127.0.0.1" in caplog.text
            assert "(a wrong word of 5 bytes)" in caplog.text
            await until(lambda: not echo.server.connections and not len(echo.server.logins))
            writer.close()

    run(scenario)


def test_a_frame_that_is_too_long_for_a_stranger_ends_the_connection() -> None:
    async def scenario() -> None:
        async with guarded(SocketSettings(failed_login_delay_ms=0)) as echo:
            reader, writer = await echo.connect()
            writer.write(struct.pack(">i", 101))
            assert await reader.read() == b""
            writer.close()

    run(scenario)


def test_who_takes_too_long_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_module, "LOGIN_SECONDS_MAX", 0.05)
    monkeypatch.setattr(login_module, "SWEEP_SECONDS", 0.01)

    async def scenario() -> None:
        async with guarded() as echo:
            known, known_writer = await echo.connect()
            known_writer.write(sized(b"please"))
            await read_answer(known)
            reader, writer = await echo.connect()
            writer.write(b"\0\0")
            assert await reader.read() == b""
            known_writer.write(frame(ECHO, b"still here"))
            assert await read_answer(known) == b"still here"
            writer.close()
            known_writer.close()

    run(scenario)
