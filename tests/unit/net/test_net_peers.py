"""Calls to other brokers over real sockets, and what becomes of them when the other side fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.model.cluster import Endpoint
from moldau.net.peers import Peers, PeerUnreachable
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from moldau.wire.schema import Message
from tests.support.scripted_broker import HANG, HANG_UP, ScriptedBroker

Answers = dict[type[Message], Callable[[Any, int], Any]]
Scenario = Callable[[], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(within_time())


def peers_of(*brokers: ScriptedBroker) -> Peers:
    def endpoint_of(broker: int) -> Endpoint | None:
        if not 0 <= broker < len(brokers):
            return None
        return Endpoint("PLAINTEXT", "127.0.0.1", brokers[broker].port)

    return Peers(asyncio.get_running_loop(), endpoint_of, client_id="1")


def test_a_call_with_a_version_needs_no_negotiation() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            peers = peers_of(broker)
            answer = await peers.call(0, MetadataRequest(topics=[]), timeout_ms=5000, version=12)
            assert isinstance(answer, MetadataResponse)
            assert [(type(r), v) for r, v in broker.requests] == [(MetadataRequest, 12)]
            await peers.close()

    run(scenario)


def test_versions_are_asked_for_once_per_connection_and_the_highest_common_one_is_used() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            broker.served[3] = (0, 9)
            peers = peers_of(broker)
            calls = [peers.call(0, MetadataRequest(topics=[]), timeout_ms=5000) for _ in range(3)]
            await asyncio.gather(*calls)
            kinds = [(type(request), version) for request, version in broker.requests]
            assert kinds.count((ApiVersionsRequest, 3)) == 1
            assert kinds.count((MetadataRequest, 9)) == 3
            assert broker.connections == 1
            await peers.close()

    run(scenario)


def test_a_lane_that_waits_does_not_hold_up_another() -> None:
    async def scenario() -> None:
        answers: Answers = {ListOffsetsRequest: lambda request, version: HANG}
        async with ScriptedBroker(answers) as broker:
            peers = peers_of(broker)
            slow = asyncio.create_task(
                peers.call(0, ListOffsetsRequest(), timeout_ms=60_000, lane="slow", version=7)
            )
            await peers.call(0, MetadataRequest(topics=[]), timeout_ms=5000, version=12)
            assert not slow.done()
            assert broker.connections == 2
            peers.forget(0)
            with pytest.raises(PeerUnreachable):
                await slow
            await peers.close()

    run(scenario)


def test_an_answer_that_does_not_come_in_time_closes_the_connection() -> None:
    async def scenario() -> None:
        answers: Answers = {ListOffsetsRequest: lambda request, version: HANG}
        async with ScriptedBroker(answers) as broker:
            peers = peers_of(broker)
            with pytest.raises(PeerUnreachable, match="not answered in time"):
                await peers.call(0, ListOffsetsRequest(), timeout_ms=50, version=7)
            await peers.call(0, MetadataRequest(topics=[]), timeout_ms=5000, version=12)
            assert broker.connections == 2
            await peers.close()

    run(scenario)


def test_a_broker_that_hangs_up_fails_the_call_and_the_next_one_connects_again() -> None:
    async def scenario() -> None:
        answers: Answers = {ListOffsetsRequest: lambda request, version: HANG_UP}
        async with ScriptedBroker(answers) as broker:
            peers = peers_of(broker)
            with pytest.raises(PeerUnreachable):
                await peers.call(0, ListOffsetsRequest(), timeout_ms=5000, version=7)
            broker.answers[ListOffsetsRequest] = lambda request, version: ListOffsetsResponse()
            await peers.call(0, ListOffsetsRequest(), timeout_ms=5000, version=7)
            await peers.close()

    run(scenario)


def test_a_broker_that_comes_back_at_another_port_is_found_there() -> None:
    async def scenario() -> None:
        broker = ScriptedBroker()
        async with broker:
            peers = peers_of(broker)
            await peers.call(0, MetadataRequest(topics=[]), timeout_ms=5000, version=12)
        with pytest.raises(PeerUnreachable):
            await peers.call(0, MetadataRequest(topics=[]), timeout_ms=200, version=12)
        broker.port = 0
        async with broker:
            await peers.call(0, MetadataRequest(topics=[]), timeout_ms=5000, version=12)
            await peers.close()

    run(scenario)


def test_a_broker_that_is_not_in_the_cluster_is_refused_at_once() -> None:
    async def scenario() -> None:
        peers = peers_of()
        with pytest.raises(PeerUnreachable, match="not in the cluster"):
            await peers.call(7, MetadataRequest(topics=[]), timeout_ms=60_000)
        await peers.close()
        with pytest.raises(PeerUnreachable):
            await peers.call(7, MetadataRequest(topics=[]), timeout_ms=60_000)

    run(scenario)


def test_calls_of_one_lane_arrive_in_their_order() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            peers = peers_of(broker)
            requests = [
                MetadataRequest(topics=[], allow_auto_topic_creation=n % 2 == 0) for n in range(9)
            ]
            await asyncio.gather(
                *(peers.call(0, each, timeout_ms=5000, version=12) for each in requests)
            )
            assert [request for request, _ in broker.requests] == requests
            await peers.close()

    run(scenario)
