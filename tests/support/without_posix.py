"""Runs the `moldau` command without what only POSIX has: `python -m tests.support.without_posix
topics --list ...`. It stands for Windows as far as modules and names go; sockets are Linux's."""

from __future__ import annotations

import os
import signal
import sys

MODULES = ("fcntl", "grp", "pwd", "pty", "resource", "syslog", "termios", "tty")
OF_OS = (
    *("fork", "geteuid", "getuid", "memfd_create", "posix_fallocate", "pread", "pwrite"),
    *("sched_getaffinity", "sendfile", "uname", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW"),
)
OF_SIGNAL = ("SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2")


def forget_posix() -> None:
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


if __name__ == "__main__":
    forget_posix()
    from moldau.main import main

    sys.exit(main())
