"""The aborted transactions whose markers lie in one segment (`.txnindex`, entries of 34 bytes).

Most segments have none, and then there is no file. Entries are few: they are kept in memory once
somebody has asked.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from moldau.storage.log_files import read_whole, remove_if_there, write_fully
from moldau.storage.log_state.producer_state import CompletedTransaction
from moldau.storage.storage_faults import CorruptFile, StorageFault

VERSION = 0
_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Where the ABORT marker is."""
    last_stable_offset: int
    """As it was after the abort: a search may stop once this passes the range it looks for."""

    @classmethod
    def of(cls, done: CompletedTransaction) -> AbortedTransaction:
        return cls(done.producer_id, done.first_offset, done.offset_last, done.last_stable_offset)


def encode_aborted(aborted: AbortedTransaction) -> bytes:
    return _ENTRY.pack(VERSION, *aborted)


class TxnIndex:
    __slots__ = ("_entries", "base_offset", "path")

    def __init__(self, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._entries: list[AbortedTransaction] | None = None

    @property
    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self.entries
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.lseek(descriptor, len(entries) * ENTRY_BYTES, os.SEEK_SET)
                write_fully(descriptor, encode_aborted(aborted))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageFault.of("cannot write", self.path, error) from error
        entries.append(aborted)

    def overlapping(
        self, offset_start: int, offset_end: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """Transactions that touch the range, and whether later segments need not be searched."""
        found = []
        for aborted in self.entries:
            if aborted.last_offset >= offset_start and aborted.first_offset < offset_end:
                found.append(aborted)
            if aborted.last_stable_offset >= offset_end:
                return found, True
        return found, False

    def truncate(self, offset: int) -> None:
        """Drop transactions whose marker is at `offset` or beyond."""
        kept = [aborted for aborted in self.entries if aborted.last_offset < offset]
        if len(kept) == len(self.entries):
            return
        try:
            os.truncate(self.path, len(kept) * ENTRY_BYTES)
        except OSError as error:
            raise StorageFault.of("cannot truncate", self.path, error) from error
        self._entries = kept

    def clear(self) -> None:
        remove_if_there(self.path)
        self._entries = []

    def check(self) -> None:
        self._entries = self._read()

    def _read(self) -> list[AbortedTransaction]:
        content = read_whole(self.path) or b""
        entries = []
        for version, *fields in _ENTRY.iter_unpack(
            content[: len(content) // ENTRY_BYTES * ENTRY_BYTES]
        ):
            aborted = AbortedTransaction(*fields)
            if version > VERSION:
                raise CorruptFile(self.path, f"unknown version {version} of an entry")
            if aborted.last_offset < self.base_offset:
                raise CorruptFile(
                    self.path,
                    f"last offset {aborted.last_offset} is less than the first {self.base_offset}",
                )
            entries.append(aborted)
        return entries
