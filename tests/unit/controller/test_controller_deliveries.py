"""Requests of the controller to a broker that does not listen: kept in order, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.broker.system_clock import SystemClock
from moldau.cluster import controller_deliveries
from moldau.cluster.controller_deliveries import WAITING_MAX, Deliveries
from moldau.engine.machine import Send
from moldau.engine.timers import Timers
from moldau.model.errors import Error
from moldau.net.peers import PeerUnreachable
from moldau.wire.messages.replication import UpdateMetadataRequest, UpdateMetadataResponse

ME, OTHER, EPOCH = 0, 1, 7


class Deaf:
    """A broker that is registered and does not answer until it does."""

    def __init__(self) -> None:
        self.listens = False
        self.heard: list[int] = []

    async def call(self, broker: int, request: Any, **_: object) -> UpdateMetadataResponse:
        await asyncio.sleep(0)
        if not self.listens:
            raise PeerUnreachable("nobody there")
        self.heard.append(request.controller_epoch)
        return UpdateMetadataResponse()

    def forget(self, broker: int) -> None:
        pass


async def _nothing_here(request: Any) -> Any:
    raise AssertionError("nothing was for this broker")


def new_deliveries(
    peer: Deaf,
    answered: Callable[[int, Any, Any], None],
    tell_again: Callable[[int], None] = lambda broker: None,
) -> Deliveries:
    return Deliveries(
        ME,
        peer,
        _nothing_here,
        epoch_of=lambda broker: EPOCH,
        answered=answered,
        tell_again=tell_again,
        timeout_ms=lambda: 1000,
        timers=Timers(SystemClock(), asyncio.get_running_loop().call_later),
    )


async def played(count: int) -> tuple[list[int], list[int]]:
    """What was heard, and who is to be told everything again, after so many requests."""
    deaf, again = Deaf(), []
    made = new_deliveries(deaf, lambda *_: None, again.append)
    for number in range(count):
        request = UpdateMetadataRequest(controller_epoch=number, broker_epoch=EPOCH)
        made.send(Send(OTHER, request))
        if number == 0:
            await asyncio.sleep(0.01)
    deaf.listens = True
    async with asyncio.timeout(10):
        while not again and len(deaf.heard) < count:
            await asyncio.sleep(0.01)
    await made.stop()
    return deaf.heard, again


def test_a_broker_that_listens_again_hears_everything_in_order() -> None:
    heard, again = asyncio.run(played(WAITING_MAX))
    assert heard == list(range(WAITING_MAX))
    assert again == []


def test_requests_that_pile_up_are_thrown_away_and_the_broker_is_told_anew() -> None:
    heard, again = asyncio.run(played(3 * WAITING_MAX))
    assert heard == [0]
    assert again == [OTHER]


def test_a_request_that_a_broker_could_not_do_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller_deliveries, "FAILED_RETRY_MS", 1)

    class Troubled(Deaf):
        async def call(self, broker: int, request: Any, **_: object) -> UpdateMetadataResponse:
            self.heard.append(request.controller_epoch)
            failed = len(self.heard) < 3
            return UpdateMetadataResponse(error_code=Error.UNKNOWN_SERVER_ERROR if failed else 0)

    async def story() -> list[int]:
        answers: list[int] = []
        made = new_deliveries(
            Troubled(), lambda b, r, response: answers.append(response.error_code)
        )
        made.send(Send(OTHER, UpdateMetadataRequest(controller_epoch=1, broker_epoch=EPOCH)))
        async with asyncio.timeout(10):
            while not answers:
                await asyncio.sleep(0.01)
        await made.stop()
        return answers

    assert asyncio.run(story()) == [Error.NONE]


def test_how_long_requests_took_is_kept_for_brokers_that_live() -> None:
    async def story() -> tuple[int, int, int]:
        deaf, living = Deaf(), {OTHER: EPOCH}
        deaf.listens = True
        made = new_deliveries(deaf, lambda *_: None)
        made._epoch_of = living.get
        for number in range(5):
            made.send(Send(OTHER, UpdateMetadataRequest(controller_epoch=number, broker_epoch=7)))
        async with asyncio.timeout(10):
            while len(deaf.heard) < 5:
                await asyncio.sleep(0.01)
        before = made.times[OTHER].count
        made.turn()
        after = made.times[OTHER].count
        living.clear()
        made.turn()
        await made.stop()
        return before, after, len(made.times)

    assert asyncio.run(story()) == (5, 5, 0)
