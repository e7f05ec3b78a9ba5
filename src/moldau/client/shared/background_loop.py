"""The event loop behind the synchronous clients: one thread per process, started when needed.

`run` gives a coroutine to that loop and waits for its result. Everything else about the clients
happens on the loop, so no client needs a lock. A client stays with the loop that it first ran on:
where that is gone, in a forked child or after a fault of the loop itself, every call is refused
with the reason (`loop_of`), and whoever is registered with `tell_when_lost` is told at once. When
the process ends, what clients have not sent yet is sent, for a few seconds at most.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import socket
import sys
import threading
import warnings
from collections.abc import Coroutine
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import wait as wait_for
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from moldau.client.shared.client_errors import IllegalStateError

T = TypeVar("T")

STOP_SECONDS_MAX = 2.0
EXIT_FLUSH_SECONDS_MAX = 5.0
"""A process that ends waits so long for records that its producers have not sent yet."""
FORKED = (
    "This client was made before the process forked, and only the parent can use it: make a new one"
    " in the child"
)

log = logging.getLogger("moldau.client")


class Tenant(Protocol):
    """A client that has to know at once when its loop is gone."""

    client_id: str

    def unsent(self) -> int:
        """How many records it holds whose outcome is open. From any thread."""
        ...

    async def flush(self) -> None:
        """Send them and wait for the outcome."""

    async def close(self) -> None:
        """Flush, and let go of everything."""

    def lost(self, error: IllegalStateError, *, is_forked: bool) -> None:
        """Nothing can be sent any more. In a forked child neither lock nor loop may be touched."""


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """A process that ends has no threads for this any more. Its loop may wait then."""
        kind = {"family": family, "type": type, "proto": proto, "flags": flags}
        try:
            return await super().getaddrinfo(host, port, **kind)
        except RuntimeError:
            return socket.getaddrinfo(host, port, **kind)


class Home:
    """A loop, its thread, and why it is gone if it is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.fault: str | None = None
        self.is_forked = False
        self.pending: set[Future[Any]] = set()
        """Calls that wait for the loop."""
        self.closings: set[Future[Any]] = set()
        """Of clients that were dropped."""
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


def abandon(client: Tenant) -> None:
    """Nobody has the blocking client any more, and it was not closed: have that done on its loop.

    For `__del__`, which runs in any thread at any time: takes no lock and waits for nothing."""
    home = _homes.get(client)
    if home is None or home.fault is not None:
        return
    left = client.unsent()
    closing = submit(client.close(), client)
    home.closings.add(closing)
    closing.add_done_callback(home.closings.discard)
    closing.add_done_callback(_tell_fault)
    if left:
        warnings.warn(
            f"{client.client_id} was dropped without close(): it had {left} records to send,"
            " which are sent now",
            ResourceWarning,
            stacklevel=3,
        )


def say_unsent(client: Tenant, stacklevel: int = 3) -> None:
    """For a client on a loop of the user's, which is gone or about to go."""
    if left := client.unsent():
        warnings.warn(
            f"{client.client_id} was not closed: {left} records of it were not sent",
            ResourceWarning,
            stacklevel=stacklevel,
        )


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
            home = Home(_Loop())
            _stop_at_exit()
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
    home = _home
    if home is None:
        _say_all_unsent()
        return
    left = {client: client.unsent() for client in _tenants if _homes.get(client) is home}
    try:
        if not home.loop.is_closed():
            _flush_at_exit(home, [client for client, count in left.items() if count])
    finally:
        _home = None
        if not home.loop.is_closed():
            home.loop.call_soon_threadsafe(home.loop.stop)
            home.thread.join(2 * STOP_SECONDS_MAX)
        home.end("The process is ending, and its client loop has stopped")
    for client, count in left.items():
        if count:
            warnings.warn(
                f"{client.client_id} was not closed before the process ended: it had {count}"
                " records to send",
                ResourceWarning,
                stacklevel=2,
            )
    _say_all_unsent()


def _flush_at_exit(home: Home, clients: list[Tenant]) -> None:
    calls = [submit(client.flush(), client) for client in clients]
    calls += home.closings
    wait_for(calls, EXIT_FLUSH_SECONDS_MAX)
    for call in calls:
        call.cancel()


def _say_all_unsent() -> None:
    for client in list(_tenants):
        say_unsent(client)


def _stop_at_exit() -> None:
    """Registered with the loop's start: a child of multiprocessing forgets what its parent
    registered, and until Python 3.12 it ends without `atexit`."""
    atexit.unregister(_stop)
    atexit.register(_stop)
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _stop, exitpriority=0)


def _tell_fault(call: Future[Any]) -> None:
    if not call.cancelled() and call.exception() is not None:
        log.warning("A client that was dropped could not be closed: %r", call.exception())


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
