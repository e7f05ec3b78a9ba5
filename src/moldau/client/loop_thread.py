"""The event loop behind the synchronous clients: one thread per process, started when needed.

`run` gives a coroutine to that loop and waits for its result; `blocking` makes a synchronous
method of an asynchronous one, with the same signature. Everything else about the clients happens
on the loop, so no client needs a lock. A client stays with the loop that it first ran on: where
that is gone, in a forked child or after a fault of the loop itself, every call is refused with the
reason (`loop_of`), and whoever is registered with `tell_when_lost` is told at once.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from moldau.client.errors import IllegalStateError

T = TypeVar("T")
P = ParamSpec("P")

STOP_SECONDS_MAX = 2.0
FORKED = (
    "This client was made before the process forked, and only the parent can use it: make a new one"
    " in the child"
)

log = logging.getLogger("moldau.client")


class Tenant(Protocol):
    """A client that has to know at once when its loop is gone."""

    def lost(self, error: IllegalStateError, *, is_forked: bool) -> None:
        """Nothing can be sent any more. In a forked child neither lock nor loop may be touched."""


class Home:
    """A loop, its thread, and why it is gone if it is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.fault: str | None = None
        self.is_forked = False
        self.pending: set[Future[Any]] = set()
        """Calls that wait for the loop."""
        self.thread = threading.Thread(
            target=_serve, args=(self,), name="moldau-client", daemon=True
        )

    def check(self) -> None:
        if self.fault is not None:
            raise IllegalStateError(self.fault)

    def end(self, fault: str) -> None:
        """Whoever waits is told, and nobody can come in any more."""
        self.fault = fault
        for tenant in list(_tenants):
            if _homes.get(tenant) is self:
                tenant.lost(IllegalStateError(fault), is_forked=False)
        for call in list(self.pending):
            _fail(call, fault)


_lock = threading.Lock()
_home: Home | None = None
_homes: WeakKeyDictionary[Any, Home] = WeakKeyDictionary()
"""The loop of every client that has run on one."""
_tenants: WeakSet[Any] = WeakSet()
_here = threading.local()


def background_loop() -> asyncio.AbstractEventLoop:
    """The running loop of the process; the same one on every call."""
    return _current().loop


def loop_of(client: object) -> asyncio.AbstractEventLoop:
    """The background loop that the client runs on; IllegalStateError if that is gone."""
    return _home_of(client).loop


def is_inherited(client: object) -> bool:
    """Whether the client is the parent process's, who goes on using it: there is nothing to end."""
    home = _homes.get(client)
    return home is not None and home.is_forked


def tell_when_lost(client: Tenant) -> None:
    """Also for clients on loops of the user's, as far as forks are concerned."""
    _tenants.add(client)


def is_loop_thread() -> bool:
    return getattr(_here, "is_loop", False)


def run(coroutine: Coroutine[Any, Any, T], client: object = None) -> T:
    """The coroutine's result, awaited on the background loop while the caller blocks.

    `client` is whose loop it has to be. Ctrl-C cancels the coroutine before KeyboardInterrupt goes
    on."""
    if is_loop_thread():
        coroutine.close()
        raise RuntimeError(
            "a synchronous client was called from its own loop, for instance in a callback;"
            " use its moldau.aio twin there"
        )
    future = submit(coroutine, client)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


def submit(coroutine: Coroutine[Any, Any, T], client: object = None) -> Future[T]:
    """Start it on the background loop and go on."""
    try:
        home = _current() if client is None else _home_of(client)
        future = asyncio.run_coroutine_threadsafe(coroutine, home.loop)
    except (IllegalStateError, RuntimeError):
        coroutine.close()
        raise
    home.pending.add(future)
    future.add_done_callback(home.pending.discard)
    if home.fault is not None:
        # The loop ended between the two: it will not come to this call.
        _fail(future, home.fault)
    return future


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The synchronous twin of a method; the object that has it keeps the other in `_twin`."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self._twin, *args, **kwargs), self._twin)

    return call


def _fail(call: Future[Any], fault: str) -> None:
    try:
        call.set_exception(IllegalStateError(fault))
    except InvalidStateError:
        pass  # It was answered or cancelled before.


def _current() -> Home:
    global _home
    home = _home
    if home is not None:
        return home
    with _lock:
        if _home is None:
            home = Home(asyncio.new_event_loop())
            started = threading.Event()
            home.loop.call_soon(started.set)
            home.thread.start()
            started.wait()
            _home = home
        return _home


def _home_of(client: object) -> Home:
    home = _homes.get(client)
    if home is None:
        home = _homes[client] = _current()
    home.check()
    return home


def _serve(home: Home) -> None:
    loop = home.loop
    _here.is_loop = True
    asyncio.set_event_loop(loop)
    is_stopped = False
    try:
        while not is_stopped:
            is_stopped = _serve_until_stopped(loop)
        leftover = asyncio.all_tasks(loop)
        for task in leftover:
            task.cancel()
        if leftover:
            loop.run_until_complete(asyncio.wait(leftover, timeout=STOP_SECONDS_MAX))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        if not is_stopped:
            _died(home, sys.exception())
        loop.close()


def _serve_until_stopped(loop: asyncio.AbstractEventLoop) -> bool:
    """Code of the user may run on the loop, and `sys.exit` in it is not meant for this thread:
    asyncio has given the exception to whoever waits, and the loop can go on."""
    try:
        loop.run_forever()
    except (KeyboardInterrupt, SystemExit) as error:
        log.warning("%r was raised on the client loop, which goes on", error)
        return False
    return True


def _died(home: Home, error: BaseException | None) -> None:
    global _home
    if _home is home:
        _home = None
    log.error("The client loop of the process has ended", exc_info=error)
    home.end(f"The client loop of this process has ended with {error!r}: make a new client")


def _stop() -> None:
    global _home
    home, _home = _home, None
    if home is not None and not home.loop.is_closed():
        home.loop.call_soon_threadsafe(home.loop.stop)
        home.thread.join(2 * STOP_SECONDS_MAX)
        home.end("The process is ending, and its client loop has stopped")


def _forget() -> None:
    """In a forked child the thread does not exist, and the loop's sockets are the parent's."""
    global _home, _lock
    home, _home = _home, None
    _lock = threading.Lock()
    _here.is_loop = False
    for each in {id(known): known for known in (home, *_homes.values()) if known}.values():
        each.fault, each.is_forked = FORKED, True
        each.pending = set()
    for tenant in list(_tenants):
        tenant.lost(IllegalStateError(FORKED), is_forked=True)


atexit.register(_stop)
os.register_at_fork(after_in_child=_forget)
