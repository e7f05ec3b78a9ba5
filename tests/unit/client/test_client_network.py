"""The connections of a client: found, shared, lost, found again, left alone for a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from moldau.client.network.network_client import (
    Network,
    NetworkSettings,
    Node,
    backoff_ms,
    coordinator_node,
    parse_bootstrap,
)
from moldau.client.shared.client_errors import (
    BrokerNotAvailableError,
    ConfigError,
    DisconnectError,
    IllegalStateError,
    KafkaTimeoutError,
)
from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.wire.messages.groups import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.metadata import MetadataRequest
from tests.support.scripted_broker import HANG, ScriptedBroker

QUICK = NetworkSettings(reconnect_backoff_ms=1, reconnect_backoff_max_ms=4, retry_backoff_ms=1)


def go(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 20))


def network_of(*brokers: ScriptedBroker, settings: NetworkSettings = QUICK) -> Network:
    return Network([b.bootstrap for b in brokers], client_id="me", settings=settings)


def echo(request: HeartbeatRequest, version: int) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=request.generation_id)


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        (["a:1", "[::1]:2"], [("a", 1), ("::1", 2)]),
        ("PLAINTEXT://h:9092", [("h", 9092)]),
    ],
)
def test_bootstrap_servers_are_read(servers: Any, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(servers) == addresses


@pytest.mark.parametrize("servers", ["", "host", "host:", "host:x", ":9092", "h:0", "h:70000", []])
def test_bad_bootstrap_servers_are_refused_in_one_sentence(servers: Any) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        parse_bootstrap(servers)


def test_pauses_double_up_to_a_limit_and_are_never_quite_the_same() -> None:
    pauses = [backoff_ms(50, 1000, failures) for failures in range(1, 12)]
    for failures, pause in enumerate(pauses):
        exact = min(50 * 2**failures, 1000)
        assert 0.8 * exact <= pause <= 1.2 * exact
    assert len(set(pauses)) > 1


def test_settings_come_from_the_configuration() -> None:
    config, _ = AdminConfig.parse({"request.timeout.ms": 7, "reconnect.backoff.ms": "9"})
    settings = NetworkSettings.of(config, "admin.client")
    assert (settings.request_timeout_ms, settings.reconnect_backoff_ms) == (7, 9)
    assert settings.connections_max_idle_ms == 300_000


def test_callers_share_one_connection_per_broker() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: echo}) as broker:
            network = network_of(broker)
            await asyncio.gather(*(network.call(-1, HeartbeatRequest()) for _ in range(10)))
            assert broker.connections == 1
            await network.close()

    go(scenario())


def test_a_group_coordinator_has_a_connection_of_its_own() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: echo}) as broker:
            network = network_of(broker)
            network.set_nodes([Node(0, "127.0.0.1", broker.port)])
            await network.call(0, HeartbeatRequest())
            await network.call(coordinator_node(0), HeartbeatRequest())
            assert broker.connections == 2
            await network.close()

    go(scenario())


def test_any_broker_that_answers_will_do(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as gone:
            pass
        async with ScriptedBroker() as broker:
            network = network_of(gone, broker)
            for _ in range(5):
                assert (await network.call_any(MetadataRequest())).cluster_id == "scripted"
                await network.disconnect(-2)
            await network.close()

    with caplog.at_level(logging.ERROR, "moldau.client"):
        go(scenario())


def test_bootstrap_servers_are_asked_again_when_every_known_broker_is_gone() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as gone:
            pass
        async with ScriptedBroker() as broker:
            network = network_of(broker)
            network.set_nodes([Node(5, "127.0.0.1", gone.port)])
            assert (await network.call_any(MetadataRequest())).cluster_id == "scripted"
            await network.close()

    go(scenario())


def test_nobody_to_be_reached_is_a_time_out_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as gone:
            pass
        network = network_of(gone)
        with pytest.raises(KafkaTimeoutError, match="No broker answered within 50 ms: Connection"):
            await network.call_any(MetadataRequest(), timeout_ms=50)
        await network.close()

    go(scenario())
    assert "Connection to node -1 (127.0.0.1:" in caplog.text
    assert "could not be established. Node may not be available." in caplog.text


def test_a_broker_that_failed_is_left_alone_for_a_while() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as gone:
            pass
        settings = NetworkSettings(reconnect_backoff_ms=5000, reconnect_backoff_max_ms=5000)
        network = network_of(gone, settings=settings)
        with pytest.raises(DisconnectError):
            await network.call(-1, MetadataRequest())
        assert 3000 < network.backoff_left_ms(-1) <= 6000
        with pytest.raises(KafkaTimeoutError):
            await network.call(-1, MetadataRequest(), timeout_ms=20)
        await network.close()

    go(scenario())


def test_a_lost_connection_is_opened_again() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: echo}) as broker:
            network = network_of(broker)
            await network.call(-1, HeartbeatRequest())
            broker.hang_up()
            while network.ready(-1) is not None:
                await asyncio.sleep(0)
            await network.call(-1, HeartbeatRequest())
            assert broker.connections == 2
            await network.close()

    go(scenario())


def test_a_broker_that_moved_is_called_at_its_new_address() -> None:
    async def scenario() -> None:
        answers: Any = {HeartbeatRequest: echo}
        async with ScriptedBroker(answers) as old, ScriptedBroker(answers) as new:
            network = network_of(old)
            network.set_nodes([Node(3, "127.0.0.1", old.port)])
            await network.call(3, HeartbeatRequest())
            network.set_nodes([Node(3, "127.0.0.1", new.port)])
            await network.call(3, HeartbeatRequest())
            assert (old.connections, new.connections) == (1, 1)
            await network.close()

    go(scenario())


def test_a_caller_that_gives_up_leaves_the_connection_to_the_others() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: echo}) as broker:
            network = network_of(broker)
            first = asyncio.ensure_future(network.call(-1, HeartbeatRequest()))
            second = asyncio.ensure_future(network.call(-1, HeartbeatRequest()))
            await asyncio.sleep(0)
            first.cancel()
            assert (await second).error_code == 0
            assert broker.connections == 1
            await network.close()

    go(scenario())


def test_an_unknown_broker_is_refused_by_name() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            network = network_of(broker)
            with pytest.raises(BrokerNotAvailableError, match="no broker 42"):
                await network.call(42, MetadataRequest())
            await network.close()

    go(scenario())


def test_closing_ends_what_is_under_way_and_what_is_being_opened() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({HeartbeatRequest: lambda *_: HANG}) as broker:
            network = network_of(broker)
            waiting = asyncio.ensure_future(network.call(-1, HeartbeatRequest()))
            while len(broker.requests) < 2:
                await asyncio.sleep(0)
            network.set_nodes([Node(0, "127.0.0.1", broker.port)])
            opening = asyncio.ensure_future(network.call(0, HeartbeatRequest()))
            await asyncio.sleep(0)
            await network.close()
            with pytest.raises(DisconnectError):
                await waiting
            with pytest.raises((IllegalStateError, DisconnectError)):
                await opening
            with pytest.raises(IllegalStateError):
                await network.call(-1, HeartbeatRequest())

    go(scenario())
