"""Code of the user that the clients call: what it raises is told of, and harms nobody else.

As Kafka's clients do: a callback, an interceptor or a waiter that raises is an error in the log,
and everybody else hears what there is to hear. Ctrl-C and `sys.exit` are for whoever runs the loop:
on a loop of the user's they leave it a moment later, in a step of their own; on the background loop
there is nobody to hear them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from moldau.client.loop_thread import is_loop_thread

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
