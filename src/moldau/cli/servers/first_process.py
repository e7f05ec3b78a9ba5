"""As process 1 of a container: the command runs in a child, and this process does the duties of a
first one.

The kernel hands every orphan to process 1, which has to take their exit codes, and gives it no
signal that it has not asked for: without this a container would collect dead processes, and
`docker stop` in the first moments of a start would wait ten seconds for nothing.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def stand_before() -> None:
    """Returns in a child of this process, which goes on; this process never returns."""
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    child = os.fork()
    if child == 0:
        _own_group(0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        return
    _own_group(child)
    for number in FORWARDED:
        signal.signal(number, lambda number, frame: _forward(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    os._exit(_take_all_until(child))


def _own_group(child: int) -> None:
    """A Ctrl-C at the terminal reaches it once: by the terminal, not by us as well."""
    with suppress(OSError):
        os.setpgid(child, child)
        if child and os.isatty(0):
            os.tcsetpgrp(0, child)


def _forward(child: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, number)


def _take_all_until(child: int) -> int:
    """Its exit code, as a shell would say it."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
