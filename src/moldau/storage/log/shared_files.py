"""Files that a snapshot has as well, by a hard link.

A snapshot of a log holds the files of its closed segments themselves, and so does every fork of it:
what changes one of them in place would change all. So whoever is about to cut a file, empty it or
write behind its end makes it its own first. Appending to a log needs no look: a log whose last
segment is shared goes on in a new one when it is loaded (`recovery/log_recovery.py`).
"""

from __future__ import annotations

import contextlib
import os

from moldau.storage.log_files import TEMPORARY_SUFFIX
from moldau.storage.storage_faults import StorageFault

CHUNK_BYTES = 1 << 20


def is_shared(path: str) -> bool:
    """Whether it has another name; False if it is not there."""
    try:
        return os.stat(path).st_nlink > 1
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageFault.of("cannot read", path, error) from error


def make_own(path: str) -> None:
    """From now on the file has no other name: if it had one, it is a copy that took its place."""
    if not is_shared(path):
        return
    temporary = path + TEMPORARY_SUFFIX
    try:
        copy_beginning(path, temporary, os.stat(path).st_size)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise StorageFault.of("cannot copy", path, error) from error


def copy_beginning(path: str, target: str, size_bytes: int) -> None:
    """The first bytes of a file as a new file, forced to disk, with the time of its last change.
    Raises OSError, also if there are fewer."""
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        copy = os.open(target, flags, 0o644)
        try:
            _copy(source, copy, size_bytes, path)
            changed = os.fstat(source)
            os.utime(copy, ns=(changed.st_atime_ns, changed.st_mtime_ns))
            os.fsync(copy)
        finally:
            os.close(copy)
    finally:
        os.close(source)


def _copy(source: int, copy: int, size_bytes: int, path: str) -> None:
    position = 0
    while position < size_bytes:
        piece = os.pread(source, min(CHUNK_BYTES, size_bytes - position), position)
        if not piece:
            raise OSError(f"{path} ends at byte {position}, before {size_bytes}")
        view = memoryview(piece)
        while view:
            view = view[os.write(copy, view) :]
        position += len(piece)
