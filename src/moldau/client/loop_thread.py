"""The event loop behind the synchronous clients: one thread per process, started when needed.

`run` gives a coroutine to that loop and waits for its result; `blocking` makes a synchronous
method of an asynchronous one, with the same signature. Everything else about the clients happens
on the loop, so no client needs a lock. A forked child starts with a loop of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

STOP_SECONDS_MAX = 2.0

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def background_loop() -> asyncio.AbstractEventLoop:
    """The running loop of the process; the same one on every call."""
    global _loop, _thread
    loop = _loop
    if loop is not None:
        return loop
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            started = threading.Event()
            loop.call_soon(started.set)
            _thread = threading.Thread(
                target=_serve, args=(loop,), name="moldau-client", daemon=True
            )
            _thread.start()
            started.wait()
            _loop = loop
        return _loop


def is_loop_thread() -> bool:
    return threading.current_thread() is _thread


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, awaited on the background loop while the caller blocks.

    Ctrl-C cancels the coroutine before KeyboardInterrupt goes on.
    """
    if is_loop_thread():
        coroutine.close()
        raise RuntimeError(
            "a synchronous client was called from its own loop, for instance in a callback;"
            " use its moldau.aio twin there"
        )
    future = asyncio.run_coroutine_threadsafe(coroutine, background_loop())
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The synchronous twin of a method; the object that has it keeps the other in `_twin`."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self._twin, *args, **kwargs))

    return call


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        leftover = asyncio.all_tasks(loop)
        for task in leftover:
            task.cancel()
        if leftover:
            loop.run_until_complete(asyncio.wait(leftover, timeout=STOP_SECONDS_MAX))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _stop() -> None:
    global _loop, _thread
    loop, thread = _loop, _thread
    _loop = _thread = None
    if loop is not None and thread is not None and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
        thread.join(2 * STOP_SECONDS_MAX)


def _forget() -> None:
    """In a forked child the thread does not exist, and the loop's sockets are the parent's."""
    global _loop, _thread, _lock
    _loop = _thread = None
    _lock = threading.Lock()


atexit.register(_stop)
os.register_at_fork(after_in_child=_forget)
