"""What the disk can do to us, as exceptions that name the file.

A `StorageFault` is a fault of the world, not a refusal: whoever can do something about it (answer
KAFKA_STORAGE_ERROR, take the directory offline, stop the broker) catches it.
"""

from __future__ import annotations

import os


class StorageFault(Exception):
    """An operation on a file or directory failed; what is in memory still agrees with the disk."""

    def __init__(self, doing: str, path: str, errno: int | None = None, reason: str = "") -> None:
        cause = reason or (os.strerror(errno) if errno is not None else "unknown error")
        super().__init__(f"{doing} {path}: {cause}")
        self.doing = doing
        self.path = path
        self.errno = errno
        self.cause = cause

    @classmethod
    def of(cls, doing: str, path: str, error: OSError) -> StorageFault:
        return cls(doing, path, error.errno)

    def to_keep(self) -> StorageFault:
        """The same without a traceback, which would keep the buffers of the failed call alive; to
        be kept, and to be raised again."""
        return StorageFault(self.doing, self.path, self.errno, self.cause)


class CorruptFile(Exception):
    """A file's content breaks its format; recovery rebuilds or drops the file."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
