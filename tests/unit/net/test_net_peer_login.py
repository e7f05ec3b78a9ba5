"""A broker that logs in to another: in which order, when again, and what a refusal says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.model.cluster import Endpoint
from moldau.model.errors import Error
from moldau.net.peers import Peers, PeerSecurity, PeerUnreachable
from moldau.security.sasl.plain import PlainClient
from moldau.security.sasl.sasl_login import Login
from moldau.wire.messages.metadata import MetadataRequest
from moldau.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from moldau.wire.schema import Message
from tests.support.scripted_broker import HANG, ScriptedBroker

Answer = Callable[[Any, int], Any]
LOGIN = [SaslHandshakeRequest, SaslAuthenticateRequest]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(within_time())


def scripted(authenticate: Answer, handshake: Answer | None = None) -> ScriptedBroker:
    def agreed(request: Any, version: int) -> Any:
        return SaslHandshakeResponse(mechanisms=["PLAIN"])

    return ScriptedBroker(
        {SaslHandshakeRequest: handshake or agreed, SaslAuthenticateRequest: authenticate}
    )


def welcome(lifetime_ms: int = 0) -> Answer:
    return lambda request, version: SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)


def peers_of(broker: ScriptedBroker, password: str = "secret", **rest: Any) -> Peers:
    login = Login("PLAIN", lambda host: PlainClient("broker", password))
    return Peers(
        asyncio.get_running_loop(),
        lambda _: Endpoint("BROKERS", "127.0.0.1", broker.port),
        client_id="1",
        security=PeerSecurity(login=lambda: login),
        **rest,
    )


def kinds(broker: ScriptedBroker) -> list[type[Message]]:
    return [type(request) for request, _ in broker.requests]


async def ask(peers: Peers) -> Any:
    return await peers.call(0, MetadataRequest(topics=[]), timeout_ms=5000)


def test_a_call_that_is_given_up_does_not_break_off_the_log_in() -> None:
    async def scenario() -> None:
        def agreed(request: Any, version: int) -> Any:
            first.cancel()
            return SaslHandshakeResponse(mechanisms=["PLAIN"])

        async with scripted(welcome(), agreed) as broker:
            peers = peers_of(broker)
            first = asyncio.ensure_future(ask(peers))
            await asyncio.wait([first])
            assert first.cancelled()
            await ask(peers)
            assert kinds(broker)[1:] == [*LOGIN, MetadataRequest]
            assert broker.connections == 1
            await peers.close()

    run(scenario)


def test_a_broker_that_stops_does_not_wait_for_a_log_in() -> None:
    async def scenario() -> None:
        asked = asyncio.Event()

        def silent(request: Any, version: int) -> Any:
            asked.set()
            return HANG

        async with scripted(welcome(), silent) as broker:
            peers = peers_of(broker)
            call = asyncio.ensure_future(ask(peers))
            await asked.wait()
            await peers.close()
            with pytest.raises(PeerUnreachable):
                await call

    run(scenario)


def test_nothing_but_the_log_in_comes_before_the_first_request() -> None:
    async def scenario() -> None:
        async with scripted(welcome()) as broker:
            peers = peers_of(broker)
            await asyncio.gather(*(ask(peers) for _ in range(3)))
            assert kinds(broker)[1:] == [*LOGIN, *[MetadataRequest] * 3]
            assert broker.requests[2][0].auth_bytes == b"\0broker\0secret"  # type: ignore[attr-defined]
            assert broker.connections == 1
            await peers.close()

    run(scenario)


def test_a_session_that_ends_is_renewed_on_the_same_connection_and_nobody_sends_meanwhile() -> None:
    async def scenario() -> None:
        async with scripted(welcome(lifetime_ms=300)) as broker:
            peers = peers_of(broker)
            while kinds(broker).count(SaslHandshakeRequest) < 4:
                await asyncio.gather(*(ask(peers) for _ in range(5)))
            assert broker.connections == 1
            asked = kinds(broker)
            for place, kind in enumerate(asked):
                if kind is SaslHandshakeRequest and place + 1 < len(asked):
                    assert asked[place + 1] is SaslAuthenticateRequest
            await peers.close()

    run(scenario)


def test_a_connection_that_nobody_uses_is_closed_when_its_session_ends() -> None:
    async def scenario() -> None:
        async with scripted(welcome(lifetime_ms=100)) as broker:
            peers = peers_of(broker)
            await ask(peers)
            line = peers._lines[0, ""]
            assert line.connection is not None
            while line.connection.is_open:
                await asyncio.sleep(0.01)
            # Renewed once for the question, then nobody came.
            assert kinds(broker).count(SaslHandshakeRequest) <= 2
            await ask(peers)
            assert broker.connections == 2
            await peers.close()

    run(scenario)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (
            scripted(
                lambda request, version: SaslAuthenticateResponse(
                    error_code=Error.SASL_AUTHENTICATION_FAILED, error_message="Wrong password"
                )
            ).answers,
            "Wrong password",
        ),
        (
            scripted(
                welcome(),
                lambda request, version: SaslHandshakeResponse(
                    error_code=Error.UNSUPPORTED_SASL_MECHANISM, mechanisms=["SCRAM-SHA-256"]
                ),
            ).answers,
            "it does not offer the mechanism PLAIN, but SCRAM-SHA-256",
        ),
    ],
)
def test_a_refusal_is_said_in_one_sentence_without_the_secret(
    caplog: pytest.LogCaptureFixture, answers: dict[type[Message], Answer], reason: str
) -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            broker.answers |= {kind: answers[kind] for kind in LOGIN}
            peers = peers_of(broker)
            with caplog.at_level(logging.INFO), pytest.raises(PeerUnreachable, match=reason):
                await ask(peers)
            expected = f"Connection to node 0 (127.0.0.1:{broker.port}) failed authentication due "
            assert expected + f"to: {reason}" in caplog.text
            assert "secret" not in caplog.text
            assert MetadataRequest not in kinds(broker)
            await peers.close()

    run(scenario)


def test_a_renewal_that_is_refused_ends_the_connection_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with scripted(welcome(lifetime_ms=200)) as broker:
            peers = peers_of(broker)
            await ask(peers)
            broker.answers[SaslAuthenticateRequest] = lambda request, version: (
                SaslAuthenticateResponse(
                    error_code=Error.SASL_AUTHENTICATION_FAILED, error_message="No longer"
                )
            )
            with pytest.raises(PeerUnreachable):
                while True:
                    await ask(peers)
            assert "was not renewed: No longer" in caplog.text
            await peers.close()

    run(scenario)


def test_a_broker_that_never_answers_the_log_in_keeps_nobody_for_longer_than_allowed() -> None:
    async def scenario() -> None:
        async with scripted(lambda request, version: HANG) as broker:
            peers = peers_of(broker, connect_timeout_ms=200)
            with pytest.raises(PeerUnreachable, match="no answer"):
                await ask(peers)
            await peers.close()

    run(scenario)
