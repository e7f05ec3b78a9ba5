"""The outbox keeps the order per destination and gathers what waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from moldau.engine import outbox as outbox_module
from moldau.engine.machine import Send
from moldau.engine.outbox import Outbox
from tests.support.services import turns


class Post:
    """Deliveries that take as long as the test says."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[int, list[str]]] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.breaks = False
        self.outbox = Outbox(self.deliver)

    async def deliver(self, broker: int, messages: Sequence[str]) -> None:
        self.deliveries.append((broker, list(messages)))
        if self.breaks:
            raise AssertionError("a bug in the delivery")
        if broker in self.gates:
            await self.gates[broker].wait()

    def send(self, broker: int, *messages: str) -> None:
        for message in messages:
            self.outbox.send(Send(broker, message))


def play(scenario: Callable[[Post], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(Post())

    asyncio.run(whole())


def test_what_is_sent_in_one_turn_leaves_together() -> None:
    async def scenario(post: Post) -> None:
        post.send(1, "a", "b")
        post.send(2, "c")
        post.send(1, "d")
        await turns()
        assert post.deliveries == [(1, ["a", "b", "d"]), (2, ["c"])]

    play(scenario)


def test_what_comes_during_a_delivery_waits_for_the_next() -> None:
    async def scenario(post: Post) -> None:
        post.gates[1] = asyncio.Event()
        post.send(1, "a")
        await turns()
        post.send(1, "b")
        post.send(2, "other brokers are not held up")
        await turns()
        post.send(1, "c")
        assert post.deliveries == [(1, ["a"]), (2, ["other brokers are not held up"])]
        post.gates[1].set()
        await turns()
        assert post.deliveries[2:] == [(1, ["b", "c"])]

    play(scenario)


def test_a_delivery_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "DELIVERY_MESSAGES_MAX", 2)

    async def scenario(post: Post) -> None:
        post.send(1, "a", "b", "c", "d", "e")
        await turns()
        assert post.deliveries == [(1, ["a", "b"]), (1, ["c", "d"]), (1, ["e"])]

    play(scenario)


def test_a_delivery_that_fails_does_not_stop_the_next(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(post: Post) -> None:
        post.breaks = True
        post.send(1, "a")
        await turns()
        post.breaks = False
        post.send(1, "b")
        await turns()
        assert post.deliveries == [(1, ["a"]), (1, ["b"])]
        assert "delivery failed destination=1" in caplog.text

    play(scenario)


def test_a_stop_gives_up_what_is_under_way() -> None:
    async def scenario(post: Post) -> None:
        post.gates[1] = asyncio.Event()
        post.send(1, "a")
        await turns()
        post.send(1, "b")
        await post.outbox.stop()
        await turns()
        assert post.deliveries == [(1, ["a"])]

    play(scenario)
