"""The files that hold the batches of a partition: written beside, complete when renamed, then never
changed.

A file is a row of chunks; a chunk is some whole batches with their length and checksum, compressed
where that helps. So a file of any size is written and read a few megabytes at a time. The checksum
of a file is that of its chunks' headers, which have the checksums of what follows them.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from moldau.backup.backup_faults import BackupFault, Damaged
from moldau.model.errors import ApiError
from moldau.records.batch import CODEC_MASK, HEADER_BYTES, Buffer
from moldau.records.checksum import crc32c
from moldau.records.compression import Codec, compress, decompress

MAGIC = b"MOLDAUB1"
SUFFIX = ".batches"
PARTIAL_SUFFIX = ".partial"
CHUNK_BYTES = 4 * 1024 * 1024
CHUNK_BYTES_MAX = 1 << 30
_CHUNK = struct.Struct(">BIII")
"""Codec, length unpacked, length here, checksum of what is here."""
PLAIN, ZSTD = 0, 1
LEVEL = 1


class Written(NamedTuple):
    stored_bytes: int
    checksum: int


def file_name(offset_start: int, offset_end: int) -> str:
    return f"{offset_start:020d}-{offset_end:020d}{SUFFIX}"


def parse_file_name(name: str) -> tuple[int, int] | None:
    start, dash, end = name.removesuffix(SUFFIX).partition("-")
    if not name.endswith(SUFFIX) or not dash or not (start.isdigit() and end.isdigit()):
        return None
    return int(start), int(end)


class BatchFile:
    """One that is being written. Blocks: for threads."""

    def __init__(self, directory: str, offset_start: int) -> None:
        self._directory = directory
        self._start = offset_start
        self._path = os.path.join(directory, f"{offset_start:020d}{PARTIAL_SUFFIX}")
        self._headers = bytearray()
        self.stored_bytes = len(MAGIC)
        try:
            os.makedirs(directory, exist_ok=True)
            self._file = open(self._path, "wb")  # noqa: SIM115
            self._file.write(MAGIC)
        except OSError as error:
            raise BackupFault(f"{self._path} cannot be written: {error.strerror}") from error

    def add(self, batches: Buffer) -> None:
        codec, stored = PLAIN, batches
        if len(batches) >= HEADER_BYTES and not batches[22] & CODEC_MASK:
            packed = compress(Codec.ZSTD, batches, LEVEL)
            if len(packed) < len(batches):
                codec, stored = ZSTD, packed
        header = _CHUNK.pack(codec, len(batches), len(stored), crc32c(stored))
        try:
            self._file.write(header)
            self._file.write(stored)
        except OSError as error:
            raise BackupFault(f"{self._path} cannot be written: {error.strerror}") from error
        self._headers += header
        self.stored_bytes += len(header) + len(stored)

    def finish(self, offset_end: int) -> Written:
        """From now on the file is there, also after a power cut."""
        path = os.path.join(self._directory, file_name(self._start, offset_end))
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._path, path)
            sync_directory(self._directory)
        except OSError as error:
            raise BackupFault(f"{path} cannot be written: {error.strerror}") from error
        return Written(self.stored_bytes, crc32c(self._headers))

    def give_up(self) -> None:
        self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)


class Reading:
    """A file that is being read, chunk by chunk; afterwards what it was is known."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.stored_bytes = 0
        self._headers = bytearray()

    @property
    def written(self) -> Written:
        return Written(self.stored_bytes, crc32c(self._headers))

    def chunks(self) -> Iterator[memoryview]:
        """The batches, some whole ones at a time. Raises Damaged."""
        try:
            with open(self.path, "rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise Damaged(self.path, "does not begin as a file of a backup does")
                self.stored_bytes = len(MAGIC)
                while header := file.read(_CHUNK.size):
                    yield self._chunk(header, file.read(self._length(header)))
        except FileNotFoundError:
            raise Damaged(self.path, "is missing") from None
        except OSError as error:
            raise Damaged(self.path, f"cannot be read: {error.strerror}") from error

    def _length(self, header: bytes) -> int:
        if len(header) < _CHUNK.size:
            raise Damaged(self.path, f"ends in the middle, at byte {self.stored_bytes}")
        _, unpacked, length, _ = _CHUNK.unpack(header)
        if max(unpacked, length) > CHUNK_BYTES_MAX:
            raise Damaged(self.path, f"is damaged at byte {self.stored_bytes}")
        return int(length)

    def _chunk(self, header: bytes, stored: bytes) -> memoryview:
        codec, unpacked, length, checksum = _CHUNK.unpack(header)
        at = self.stored_bytes
        if len(stored) < length:
            raise Damaged(self.path, f"ends in the middle, at byte {at + len(stored)}")
        if crc32c(stored) != checksum:
            raise Damaged(self.path, f"is damaged between bytes {at} and {at + length}")
        self._headers += header
        self.stored_bytes += len(header) + length
        if codec not in (PLAIN, ZSTD) or (codec == PLAIN and unpacked != length):
            raise Damaged(self.path, f"is damaged at byte {at}")
        if codec == PLAIN:
            return memoryview(stored)
        try:
            batches = decompress(Codec.ZSTD, stored, unpacked)
        except ApiError as fault:
            raise Damaged(self.path, f"is damaged at byte {at}: {fault.message}") from fault
        if len(batches) != unpacked:
            raise Damaged(self.path, f"is damaged at byte {at}")
        return memoryview(batches)


def sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
