"""Code of the user that the clients call: what it raises is told of, and harms nobody else.

As Kafka's clients do: a callback, an interceptor or a waiter that raises is an error in the log,
and everybody else hears what there is to hear. Ctrl-C and `sys.exit` are for whoever runs the loop:
on a loop of the user's they leave it a moment later, in a step of their own; on the background loop
there is nobody to hear them. What runs in the user's own call hands back what was raised instead,
and the caller tells it, logs it or wraps it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from moldau.client.shared.background_loop import is_loop_thread

T = TypeVar("T")

log = logging.getLogger("moldau.client")


def call(what: str, function: Callable[..., Any], *args: Any) -> None:
    """Call it; `what` names it where it raises."""
    try:
        function(*args)
    except BaseException as error:
        log.error("%s raised %r", what, error, exc_info=error)
        if isinstance(error, KeyboardInterrupt | SystemExit) and not is_loop_thread():
            _leave(error)


def _leave(error: BaseException) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise error from None
    loop.call_soon(_raise, error)


def _raise(error: BaseException) -> None:
    raise error


def tried(function: Callable[..., T], *args: Any) -> tuple[T | None, Exception | None]:
    """What it returned and None, or None and what it raised."""
    try:
        return function(*args), None
    except Exception as fault:
        return None, fault


async def awaited(call: Awaitable[object]) -> Exception | None:
    """What it raised, if it did."""
    try:
        await call
    except Exception as fault:
        return fault
    return None


def tell_all(
    listeners: Iterable[Any], method: str, *args: Any, log: logging.Logger, prefix: str
) -> None:
    """Call a method of everyone who has it; what one raises is logged, and the others are told."""
    for listener in listeners:
        function = getattr(listener, method, None)
        if function is not None:
            _, fault = tried(function, *args)
            if fault is not None:
                warn(function, fault, log=log, prefix=prefix)


def warn(
    function: Callable[..., Any], fault: Exception, *, log: logging.Logger, prefix: str
) -> None:
    name = getattr(function, "__qualname__", repr(function))
    log.warning("%s%s raised %r, and is passed over", prefix, name, fault, exc_info=fault)
