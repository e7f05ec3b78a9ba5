"""The embedded store's file: frames of changes, each with a CRC, appended and synced.

A frame is what one sync made durable: magic, payload length, CRC-32 and the payload, which holds
the last transaction number and the changes. Because a frame is synced before the next is begun,
only the last one can be torn. A broken frame with a whole one behind it is damage to durable
data: the file is refused then, because dropping topics silently would be worse than not starting.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moldau.metadata.store import StoreUnavailable
from moldau.metadata.znode_tree import Change, Put, Removed

log = logging.getLogger("kafka.server.KafkaServer")

FILE_HEADER = b"moldau-metadata\x01"
FRAME_MAGIC = b"\xf0mdl"
MODE = 0o600
"""For nobody else: what users log in with is in the file."""
_FRAME = struct.Struct(">4sII")
_FRAME_START = struct.Struct(">QI")
_PUT = struct.Struct(">BHIiQI")
_REMOVED = struct.Struct(">BH")
_PUT_KIND, _REMOVED_KIND = 1, 2

_sync = getattr(os, "fdatasync", os.fsync)


class Frame(NamedTuple):
    transaction: int
    changes: list[Change]


class JournalFile:
    """Not bound to a thread: one call at a time, from whichever thread may block."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size_bytes = 0
        self._fd = -1

    def open(self) -> list[Frame]:
        """Everything that was durable; what a crash tore off is cut away."""
        try:
            self._fd = _open_locked(self.path)
            content = _read_whole(self._fd)
            frames, end = read_frames(content, self.path)
            if end != len(content) or not content:
                if content:
                    cut_bytes = len(content) - end
                    log.warning("%s: %d bytes of a torn write are cut off", self.path, cut_bytes)
                self._start_over_at(end)
        except StoreUnavailable:
            self.close()
            raise
        except OSError as fault:
            self.close()
            raise StoreUnavailable(self.path, f"cannot be opened: {fault}") from fault
        self.size_bytes = max(end, len(FILE_HEADER))
        return frames

    def append(self, frame: bytes) -> None:
        """Durable when it returns; when it raises, nothing of the frame is left behind."""
        try:
            _write_whole(self._fd, frame, self.size_bytes)
            _sync(self._fd)
        except OSError:
            os.ftruncate(self._fd, self.size_bytes)
            raise
        self.size_bytes += len(frame)

    def rewrite(self, frame: bytes) -> None:
        """Replace the whole file by one frame; a crash leaves the old file or the new one."""
        beside = self.path + ".tmp"
        fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write_whole(fd, FILE_HEADER + frame, 0)
            os.fsync(fd)
            os.rename(beside, self.path)
        except OSError:
            os.close(fd)
            # Half a file is of no use, and takes room on a disk that may have none.
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        os.close(self._fd)
        self._fd = fd
        self.size_bytes = len(FILE_HEADER) + len(frame)
        _sync_directory_of(self.path)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _start_over_at(self, end: int) -> None:
        os.ftruncate(self._fd, end)
        if end == 0:
            _write_whole(self._fd, FILE_HEADER, 0)
        os.fsync(self._fd)
        _sync_directory_of(self.path)


def encode_frame(transaction: int, changes: Iterable[Change]) -> bytes:
    parts = [b""]
    for change in changes:
        path = change.path.encode()
        if isinstance(change, Put):
            parts.append(
                _PUT.pack(
                    _PUT_KIND,
                    len(path),
                    len(change.data),
                    change.version,
                    change.created_by,
                    change.children_made,
                )
            )
            parts += (path, change.data)
        else:
            parts.append(_REMOVED.pack(_REMOVED_KIND, len(path)))
            parts.append(path)
    parts[0] = _FRAME_START.pack(transaction, len(parts))
    payload = b"".join(parts)
    return _FRAME.pack(FRAME_MAGIC, len(payload), zlib.crc32(payload)) + payload


def read_frames(content: bytes, path: str) -> tuple[list[Frame], int]:
    """The whole frames and where the last of them ends."""
    if len(content) < len(FILE_HEADER) and FILE_HEADER.startswith(content):
        return [], 0
    if not content.startswith(FILE_HEADER):
        raise StoreUnavailable(path, "is not a metadata journal of this version")
    frames = []
    position = len(FILE_HEADER)
    while payload := _payload_at(content, position):
        frames.append(_decode_payload(payload))
        position += _FRAME.size + len(payload)
    if _whole_frame_behind(content, position):
        raise StoreUnavailable(
            path, f"is damaged at byte {position}: restore it from a backup of this directory"
        )
    return frames, position


def _payload_at(content: bytes, position: int) -> bytes:
    """Empty if there is no whole frame: a payload never is."""
    if position + _FRAME.size > len(content):
        return b""
    magic, length, crc = _FRAME.unpack_from(content, position)
    start = position + _FRAME.size
    if magic != FRAME_MAGIC or start + length > len(content):
        return b""
    payload = content[start : start + length]
    return payload if zlib.crc32(payload) == crc else b""


def _whole_frame_behind(content: bytes, position: int) -> bool:
    candidate = content.find(FRAME_MAGIC, position)
    while candidate >= 0:
        if _payload_at(content, candidate):
            return True
        candidate = content.find(FRAME_MAGIC, candidate + 1)
    return False


def _decode_payload(payload: bytes) -> Frame:
    transaction, _ = _FRAME_START.unpack_from(payload)
    return Frame(transaction, list(_decode_changes(payload, _FRAME_START.size)))


def _decode_changes(payload: bytes, position: int) -> Iterator[Change]:
    end = len(payload)
    unpack_put = _PUT.unpack_from
    while position < end:
        if payload[position] == _PUT_KIND:
            _, path_size, data_size, version, created_by, made = unpack_put(payload, position)
            start = position + _PUT.size
            middle = start + path_size
            position = middle + data_size
            path = payload[start:middle].decode()
            yield Put(path, payload[middle:position], version, created_by, made)
        else:
            _, path_size = _REMOVED.unpack_from(payload, position)
            start = position + _REMOVED.size
            position = start + path_size
            yield Removed(payload[start:position].decode())


def _open_locked(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as held:
        os.close(fd)
        directory, name = os.path.split(path)
        raise StoreUnavailable(
            path,
            f"Failed to acquire lock on file {name} in {directory}. "
            "A Kafka instance in another process or thread is using this directory.",
        ) from held
    return fd


def _read_whole(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    parts = []
    position = 0
    while position < size:
        part = os.pread(fd, size - position, position)
        if not part:
            break
        parts.append(part)
        position += len(part)
    return b"".join(parts)


def _write_whole(fd: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, position)
        view = view[written:]
        position += written


def _sync_directory_of(path: str) -> None:
    fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
