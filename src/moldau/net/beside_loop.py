"""Calls that may block for long, kept away from the loop: a question to a server of somebody else.

Each gets a thread of its own, so that one that hangs holds up nobody else, neither the threads that
work on disks nor the end of the process. Whoever calls sees to it that there are few at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def beside_loop(
    name: str, work: Callable[[], T], faults: type[Exception] | tuple[type[Exception], ...]
) -> T:
    """What `work` returns, or raises of `faults`; all else that it raises is a bug, and shown as
    one. If the caller is cancelled, the thread ends when it can and nobody hears of it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        outcome = partial(_fail, done, RuntimeError(f"{name} broke off"))
        try:
            outcome = partial(_succeed, done, work())
        except faults as fault:
            outcome = partial(_fail, done, fault)
        finally:
            try:
                loop.call_soon_threadsafe(outcome)
            except RuntimeError:
                # The loop was closed meanwhile.
                pass

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done


def _succeed(done: asyncio.Future[T], found: T) -> None:
    if not done.done():
        done.set_result(found)


def _fail(done: asyncio.Future[T], fault: Exception) -> None:
    if not done.done():
        done.set_exception(fault)
