"""An open `.log` file: written at its end, cut, and handed to readers as regions."""

from __future__ import annotations

import os

from moldau.records.batch import Buffer
from moldau.storage.log.shared_files import make_own
from moldau.storage.storage_faults import StorageFault


class TornTail(StorageFault):
    """A failed write could not be cut off: the file no longer ends where memory says, so the log
    must not be written to until it has been recovered."""


class SegmentFile:
    """An open `.log`. The descriptor lives as long as somebody holds this object, so a region that
    is being sent stays readable after its segment was deleted."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, *, create: bool = False) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            raise StorageFault.of("cannot open", path, error) from error

    def fileno(self) -> int:
        return self._descriptor

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def write(self, records: Buffer, position: int) -> None:
        """Put the bytes at the end of the file, `position`; on a failure none of them stays."""
        try:
            written = os.pwrite(self._descriptor, records, position)
            while written < len(records):
                # A nearly full disk takes a part; asking for the rest tells why.
                rest = memoryview(records)[written:]
                written += os.pwrite(self._descriptor, rest, position + written)
        except OSError as error:
            try:
                os.ftruncate(self._descriptor, position)
            except OSError as failed:
                doing = "cannot cut off a failed write to"
                raise TornTail(doing, self.path, failed.errno) from error
            raise StorageFault.of("cannot write", self.path, error) from error

    def truncate(self, size_bytes: int) -> None:
        try:
            found = os.fstat(self._descriptor)
            if found.st_size == size_bytes:
                return
            if found.st_nlink > 1:
                self.make_own()
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            raise StorageFault.of("cannot truncate", self.path, error) from error

    def make_own(self) -> None:
        """Before it is written to: a snapshot may have the same file. Readers of regions go on
        with the copy, under the same descriptor."""
        make_own(self.path)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.dup2(descriptor, self._descriptor, inheritable=False)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageFault.of("cannot open", self.path, error) from error
