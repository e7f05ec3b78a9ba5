"""TLS over a real socket against Python's own client, with the toy server behind it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import ssl
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.model.cluster import Endpoint
from moldau.model.file_regions import FileRegion
from moldau.net import login as login_module
from moldau.net.acceptor import Listener
from moldau.net.peers import Peers, PeerSecurity, PeerUnreachable
from moldau.net.send_queue import SendQueue
from moldau.net.server import SocketSettings
from moldau.net.tls.tls_entrance import CertificateLogin, PeerTls, TlsEntrance
from moldau.net.tls.tls_transport import HANDSHAKE_BYTES_MAX, TlsTransport
from moldau.net.transport import HandshakeFault
from tests.support.certificates import Authority, Identity
from tests.support.echo_server import ECHO, LONG, EchoServer, frame, read_answer, run, until

CA = Authority()
BROKER = CA.issue_broker()
ALICE = CA.issue_user("alice")
STRANGER = Authority("Other CA").issue_user("alice")


def config_of(directory: Path, **settings: str) -> BrokerConfig:
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": BROKER.write(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA.certificate_pem.replace("\n", " "),
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    config, _ = BrokerConfig.parse(properties)
    return config


def client_context(
    identity: Identity | None = None, directory: Path | None = None
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=CA.certificate_pem)
    if identity is not None:
        assert directory is not None
        context.load_cert_chain(identity.write(directory / "client.pem"))
    return context


def serving(config: BrokerConfig, settings: SocketSettings | None = None) -> EchoServer:
    echo = EchoServer(settings or SocketSettings(failed_login_delay_ms=0))
    entrance = TlsEntrance("SSL", lambda: config)
    echo.port = echo.server.bind(Listener("SSL", "127.0.0.1", 0, "SSL"), entrance).port
    return echo


def test_a_connection_that_is_closed_lets_go_of_its_engine_at_once(tmp_path: Path) -> None:
    """OpenSSL's memory is nothing that Python's collector of garbage is urged by."""
    entrance = TlsEntrance("SSL", lambda: config_of(tmp_path))
    ours, theirs = socket.socketpair()
    with theirs:
        transport = entrance.transport(ours)
        assert isinstance(transport, TlsTransport)
        engine = weakref.ref(transport._tls)
        transport.close()
        assert engine() is None
        assert not transport.wants_to_write
        with pytest.raises(OSError):
            transport.receive_into(memoryview(bytearray(10)))
        transport.close()


async def connect(
    echo: EchoServer, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", echo.port, ssl=context)


def test_large_frames_arrive_and_large_answers_leave_intact(tmp_path: Path) -> None:
    body = random.Random(1).randbytes(5_000_000)

    async def scenario() -> None:
        async with serving(config_of(tmp_path)) as echo:
            reader, writer = await connect(echo, client_context())
            # Many at once, so that reads end in the middle of records and of frames.
            frames = [frame(ECHO, b"%d" % n) for n in range(500)]
            writer.write(b"".join(frames) + frame(ECHO, body) + frame(ECHO, b"end"))
            for n in range(500):
                assert await read_answer(reader) == b"%d" % n
            assert await read_answer(reader) == body
            assert await read_answer(reader) == b"end"
            writer.close()

    run(scenario)


def test_a_certificate_says_who_the_client_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = config_of(tmp_path, ssl_client_auth="requested")
        async with serving(config) as echo:
            for identity, name in (
                (ALICE, r"User:CN=alice,O=River\, Ltd,C=CZ"),
                (None, "User:ANONYMOUS"),
            ):
                reader, writer = await connect(echo, client_context(identity, tmp_path))
                connection = await echo.connection()
                await until(lambda: len(echo.server.logins) == 0)
                assert str(connection.principal) == name
                writer.write(frame(ECHO, b"hello"))
                assert await read_answer(reader) == b"hello"
                writer.close()
                await until(lambda: not echo.server.connections)

    run(scenario)


def test_rules_turn_the_name_into_a_user_and_who_has_none_is_turned_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        rules = "RULE:^CN=([a-z]+),.*$/$1/U"
        config = config_of(tmp_path, ssl_client_auth="required", ssl_principal_mapping_rules=rules)
        async with serving(config) as echo:
            _, writer = await connect(echo, client_context(ALICE, tmp_path))
            connection = await echo.connection()
            await until(lambda: str(connection.principal) == "User:ALICE")
            writer.close()
            await until(lambda: not echo.server.connections)
            reader, writer = await connect(echo, client_context(CA.issue_user("B7"), tmp_path))
            assert await reader.read() == b""
            writer.close()

    run(scenario)


async def _fails(echo: EchoServer, context: ssl.SSLContext) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        reader, writer = await connect(echo, context)
        try:
            writer.write(frame(ECHO, b"hello"))
            if not await reader.read():
                raise ConnectionResetError
        finally:
            writer.close()


async def _speaks_plainly(echo: EchoServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", echo.port)
    writer.write(frame(ECHO, b"hello"))
    with contextlib.suppress(ConnectionResetError):
        answer = await reader.read()
        # Perhaps the alert of TLS, never an answer.
        assert b"hello" not in answer
    writer.close()


WRONG: dict[str, Callable[[EchoServer, Path], object]] = {
    "no certificate": lambda echo, path: _fails(echo, client_context()),
    "a stranger's certificate": lambda echo, path: _fails(echo, client_context(STRANGER, path)),
    "plain text": lambda echo, path: _speaks_plainly(echo),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_client_that_is_not_let_in_is_named_in_the_log(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(config_of(tmp_path, ssl_client_auth="required")) as echo:
            with caplog.at_level(logging.INFO, login_module.log.name):
                await WRONG[how](echo, tmp_path)  # type: ignore[misc]
                await until(lambda: not echo.server.connections)
            assert echo.requests.begun == []
            assert len(echo.server.logins) == 0
        assert "Failed authentication with /127.0.0.1" in caplog.text
        assert "SSL handshake failed" in caplog.text

    run(scenario)


def test_a_client_that_leaves_during_the_handshake_was_not_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        greeting, unread = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context().wrap_bio(unread, greeting, server_hostname="127.0.0.1")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        async with serving(config_of(tmp_path)) as echo:
            with caplog.at_level(logging.INFO):
                for said in (b"", greeting.read()):
                    _, writer = await asyncio.open_connection("127.0.0.1", echo.port)
                    writer.write(said)
                    await echo.connection()
                    writer.write_eof()
                    await until(lambda: not echo.server.connections)
                    writer.close()
        assert "Failed authentication" not in caplog.text

    run(scenario)


def test_versions_and_suites_are_those_of_the_settings(tmp_path: Path) -> None:
    async def scenario() -> None:
        suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
        async with serving(config_of(tmp_path, ssl_cipher_suites=suite)) as echo:
            _, writer = await connect(echo, client_context())
            assert writer.get_extra_info("cipher")[:2] == (
                "ECDHE-ECDSA-AES128-GCM-SHA256",
                "TLSv1.2",
            )
            writer.close()
        async with serving(config_of(tmp_path, ssl_enabled_protocols="TLSv1.3")) as echo:
            context = client_context()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            await _fails(echo, context)

    run(scenario)


def test_half_open_handshakes_cost_others_nothing_and_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_module, "LOGIN_SECONDS_MAX", 0.5)
    monkeypatch.setattr(login_module, "SWEEP_SECONDS", 0.05)

    async def scenario() -> None:
        async with serving(config_of(tmp_path)) as echo:
            reader, writer = await connect(echo, client_context())
            silent = [await asyncio.open_connection("127.0.0.1", echo.port) for _ in range(200)]
            for _, each in silent[::2]:
                each.write(b"\x16\x03\x01\x02\x00\x01")  # a greeting that does not go on
            writer.write(frame(LONG, b"1000000"))
            assert len(await read_answer(reader)) == 1_000_000
            await until(lambda: len(echo.server.connections) == 1)
            writer.write(frame(ECHO, b"still here"))
            assert await read_answer(reader) == b"still here"
            for _, each in [*silent, (reader, writer)]:
                each.close()

    run(scenario)


def test_new_stores_meet_whoever_comes_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = [config_of(tmp_path)]
        echo = EchoServer()
        entrance = TlsEntrance("SSL", lambda: config[0])
        echo.port = echo.server.bind(Listener("SSL", "127.0.0.1", 0, "SSL"), entrance).port
        async with echo:
            reader, writer = await connect(echo, client_context())
            renewed = CA.issue_broker("127.0.0.1")
            renewed.write(tmp_path / "renewed.pem")
            location = {"ssl.keystore.location": str(tmp_path / "renewed.pem")}
            config[0] = config[0].with_overrides(location)
            _, second = await connect(echo, client_context())
            shown = second.get_extra_info("ssl_object").getpeercert(binary_form=True)
            from cryptography.x509 import load_der_x509_certificate

            assert load_der_x509_certificate(shown) == renewed.certificate
            # One that cannot be read changes nothing.
            config[0] = config[0].with_overrides({"ssl.keystore.location": "/nowhere"})
            _, third = await connect(echo, client_context())
            writer.write(frame(ECHO, b"as before"))
            assert await read_answer(reader) == b"as before"
            for each in (writer, second, third):
                each.close()

    run(scenario)


def _pair(directory: Path) -> tuple[TlsTransport, ssl.SSLSocket]:
    """A transport and a blocking client that has finished its handshake with it."""
    from moldau.net.tls.contexts import server_context

    here, there = socket.socketpair()
    here.setblocking(False)
    transport = TlsTransport(here, server_context(config_of(directory), "none"))
    context = client_context()
    context.check_hostname = False
    client = context.wrap_socket(there, do_handshake_on_connect=False)
    client.setblocking(False)
    room = memoryview(bytearray(10))
    while not transport.is_ready:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        with contextlib.suppress(BlockingIOError):
            transport.receive_into(room)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return transport, client


def test_a_client_that_takes_little_gets_all_of_files_and_bytes_once(tmp_path: Path) -> None:
    content = random.Random(2).randbytes(3_000_000)
    (tmp_path / "segment").write_bytes(content)
    transport, client = _pair(tmp_path)
    outgoing = SendQueue(transport)
    with (tmp_path / "segment").open("rb") as file, client:
        outgoing.push([b"head", FileRegion(file, 7, 2_000_000), b"a" * 700_000, b"b", b"c"])
        wanted = b"head" + content[7:2_000_007] + b"a" * 700_000 + b"bc"
        received = b""
        pushed = False
        while len(received) < len(wanted):
            outgoing.send()
            with contextlib.suppress(ssl.SSLWantReadError):
                received += client.recv(50_000)
            if not pushed and len(received) > 1_000_000:
                pushed = True
                outgoing.push([b"later", FileRegion(file, 0, 5)])
                wanted += b"later" + content[:5]
        assert received == wanted
        assert outgoing.bytes_unsent == 0
    transport.close()


def test_a_read_fills_its_room_and_says_that_more_is_inside(tmp_path: Path) -> None:
    transport, client = _pair(tmp_path)
    with client:
        client.send(b"x" * 100)
        room = memoryview(bytearray(30))
        assert [transport.receive_into(room) for _ in range(3)] == [30, 30, 30]
        assert transport.has_pending
        assert transport.receive_into(room) == 10
        assert not transport.has_pending
        with pytest.raises(BlockingIOError):
            transport.receive_into(room)
    assert transport.receive_into(room) == 0
    transport.close()


def test_a_handshake_without_end_is_bounded(tmp_path: Path) -> None:
    from moldau.net.tls.contexts import server_context

    here, there = socket.socketpair()
    here.setblocking(False)
    transport = TlsTransport(here, server_context(config_of(tmp_path), "none"))
    room = memoryview(bytearray(10))
    # Change of cipher without end: each record is legal by itself.
    record = b"\x16\x03\x01\x40\x00\x01\x00\xff\xf0" + bytes(16380)
    sent = 0
    with there, pytest.raises(HandshakeFault):
        while sent < 2 * HANDSHAKE_BYTES_MAX:
            sent += there.send(record)
            with contextlib.suppress(BlockingIOError):
                transport.receive_into(room)
    transport.close()


def test_a_broker_is_called_only_if_its_certificate_names_its_host(tmp_path: Path) -> None:
    async def call(identity: Identity, **settings: str) -> None:
        config = config_of(tmp_path, ssl_client_auth="required", **settings)
        location = {"ssl.keystore.location": identity.write(tmp_path / "other.pem")}
        async with serving(config.with_overrides(location)) as echo:
            loop = asyncio.get_running_loop()
            endpoint = Endpoint("SSL", "127.0.0.1", echo.port, "SSL")
            tls = PeerTls(lambda: config)
            peers = Peers(
                loop, lambda _: endpoint, client_id="1", security=PeerSecurity(tls.context)
            )
            try:
                await peers._connection(1, "")
                connection = await echo.connection()
                await until(lambda: str(connection.principal) == "User:CN=broker")
            finally:
                await peers.close()

    async def scenario() -> None:
        await call(CA.issue_broker("127.0.0.1"))
        with pytest.raises(PeerUnreachable, match=r"(?i)mismatch"):
            await call(CA.issue_broker("10.0.0.1"))
        await call(CA.issue_broker("10.0.0.1"), ssl_endpoint_identification_algorithm="")
        with pytest.raises(PeerUnreachable, match="certificate verify failed"):
            await call(Authority("Other CA").issue_broker("127.0.0.1"))

    run(scenario)


def test_a_handshake_that_is_undone_lets_nobody_in() -> None:
    """OpenSSL may take back that a handshake is done; who is asked for then is nobody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = TlsTransport(ours, context)
        with pytest.raises(HandshakeFault, match="has not come to its end"):
            transport.peer_certificate()
        step = CertificateLogin(transport, ()).greet()
    assert step.principal is None
    assert "has not come to its end" in step.refusal
