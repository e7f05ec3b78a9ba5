"""Whether a log directory can still be used, or only one file in it cannot.

A full disk is no broken one: writes are refused until there is room again. What a disk says when it
is failing is believed at once. After anything else, and from time to time, the directory itself
is looked at: whether it is still the one that was opened, and may be written to.
"""

from __future__ import annotations

import errno
import os

from moldau.storage.directories.log_directory import LOCK_FILE, LogDirectory
from moldau.storage.storage_faults import StorageFault

PASSING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
"""Room, descriptors or memory are short, for now."""
FATAL = frozenset({errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE})


def failure_behind(fault: StorageFault, directory: LogDirectory) -> StorageFault | None:
    """What is wrong with the whole directory, after `fault` was met in it; None if nothing is."""
    if fault.errno in PASSING:
        return None
    if fault.errno in FATAL:
        return fault.to_keep()
    return failure_of(directory)


def failure_of(directory: LogDirectory) -> StorageFault | None:
    """A look at the directory, which costs a few system calls."""
    path = directory.path
    try:
        found = os.stat(path)
        if (found.st_dev, found.st_ino) != directory.identity:
            return StorageFault("cannot use", path, reason="another directory is in its place")
        # Not opened: closing it again would give up the lock that Apache Kafka looks at.
        os.stat(directory.file(LOCK_FILE))
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return StorageFault("cannot use", path, errno.EROFS)
    except FileNotFoundError:
        return StorageFault("cannot use", path, reason="it was removed or emptied")
    except OSError as error:
        return StorageFault.of("cannot use", path, error)
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return StorageFault("cannot use", path, errno.EACCES)
    return None
