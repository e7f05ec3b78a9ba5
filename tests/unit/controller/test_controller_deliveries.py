"""Requests of the controller to a broker that does not listen: kept in order, and not for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.broker.system_clock import SystemClock
from moldau.controller.deliveries import WAITING_MAX, Deliveries
from moldau.engine.machine import Send
from moldau.engine.timers import Timers
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


async def played(count: int) -> tuple[list[int], list[int]]:
    """What was heard, and who is to be told everything again, after so many requests."""
    deaf, again = Deaf(), []
    deliveries = Deliveries(
        ME,
        deaf,
        _nothing_here,
        epoch_of=lambda broker: EPOCH,
        answered=lambda *_: None,
        tell_again=again.append,
        timeout_ms=lambda: 1000,
        timers=Timers(SystemClock(), asyncio.get_running_loop().call_later),
    )
    for number in range(count):
        request = UpdateMetadataRequest(controller_epoch=number, broker_epoch=EPOCH)
        deliveries.send(Send(OTHER, request))
        if number == 0:
            await asyncio.sleep(0.01)
    deaf.listens = True
    async with asyncio.timeout(10):
        while not again and len(deaf.heard) < count:
            await asyncio.sleep(0.01)
    await deliveries.stop()
    return deaf.heard, again


def test_a_broker_that_listens_again_hears_everything_in_order() -> None:
    heard, again = asyncio.run(played(WAITING_MAX))
    assert heard == list(range(WAITING_MAX))
    assert again == []


def test_requests_that_pile_up_are_thrown_away_and_the_broker_is_told_anew() -> None:
    heard, again = asyncio.run(played(3 * WAITING_MAX))
    assert heard == [0]
    assert again == [OTHER]
