"""That one process at a time compacts a partition, or puts mended segments in place.

A broker that was killed may leave a compacting process behind for a moment, which goes on writing
while the next broker has started. So whoever compacts first locks the partition's directory, and
only then removes what others left: a `.cleaned` file that nobody is about to swap in would, after
a crash during the next swap, pass for a sign that this swap had not begun
(`directory_leftovers.py`).
"""

from __future__ import annotations

import fcntl
import os
import time

from moldau.storage.log_files import CLEANED_SUFFIX, remove_if_there
from moldau.storage.storage_faults import StorageFault

WAIT_SECONDS_MAX = 10.0
"""A process that was left behind ends at its next look at its pipe; only an fsync delays that."""
PAUSE_SECONDS = 0.02


def claim(directory: str, *, waits: bool = True) -> int:
    """A descriptor: as long as it is open, nobody else compacts what is in the directory. On the
    loop nobody may wait for a process that is still at it."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageFault.of("cannot open", directory, error) from error
    is_claimed = False
    try:
        _lock(descriptor, directory, WAIT_SECONDS_MAX if waits else 0)
        for name in os.listdir(directory):
            if name.endswith(CLEANED_SUFFIX):
                remove_if_there(os.path.join(directory, name))
        is_claimed = True
    except OSError as error:
        raise StorageFault.of("cannot read", directory, error) from error
    finally:
        if not is_claimed:
            os.close(descriptor)
    return descriptor


def _lock(descriptor: int, directory: str, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                reason = "another process is at it"
                raise StorageFault("cannot compact", directory, reason=reason) from None
            time.sleep(PAUSE_SECONDS)
        except OSError:
            # Not every file system locks directories. Then the pipe alone has to do.
            return
        else:
            return
