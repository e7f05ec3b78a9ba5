"""Notes about changes are followed one by one, whatever one of them brings about."""

from __future__ import annotations

import asyncio

import pytest

from moldau.cluster.tree import change_notifications
from moldau.cluster.tree.change_notifications import ChangeNotes
from moldau.engine.timers import Timers
from moldau.testing.shared_tree import SharedTree
from tests.support.services import turns
from tests.support.virtual_time import ManualClock


def test_a_note_that_cannot_be_followed_does_not_end_the_following(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(change_notifications, "RETRY_MS", 0)

    async def scenario() -> None:
        tree = SharedTree().session()
        await tree.create("/notes")
        seen: list[bytes] = []

        async def follow(note: bytes) -> None:
            if note == b"bad":
                raise ArithmeticError("nobody thought of this")
            seen.append(note)

        clock = ManualClock()
        timers = Timers(clock, asyncio.get_running_loop().call_later)
        notes = ChangeNotes(tree, "/notes", follow, clock=clock, timers=timers)
        await notes.watch()
        notes.start()
        for note in (b"first", b"bad", b"second"):
            await tree.create("/notes/note_", note, sequential=True)
        async with asyncio.timeout(10):
            while b"second" not in seen:
                await turns()
        await tree.create("/notes/note_", b"third", sequential=True)
        async with asyncio.timeout(10):
            while b"third" not in seen:
                await turns()
        assert seen == [b"first", b"second", b"third"]
        await notes.stop()

    asyncio.run(scenario())
    assert "/notes/note_0000000001 is passed over" in caplog.text
