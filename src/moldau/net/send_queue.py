"""What waits to be sent on one connection: bytes and pieces of files, in order.

Neighbouring byte strings leave in one call; how a piece of a file leaves is the transport's
affair. A turn is bounded, so that one fast reader with a
long queue cannot keep the loop from the others.
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Iterable

from moldau.model.file_regions import FileRegion
from moldau.net.transport import Octets, Transport
from moldau.wire.request_framing import Chunk

TURN_BYTES_MAX = 2 * 1024 * 1024
"""Sent on one connection before the others get their turn."""
GATHER_MAX = 64
MORE_FOLLOWS = getattr(socket, "MSG_MORE", 0)


class RegionCutShort(OSError):
    """The file ended before the region did: the rest of the promised response cannot be sent."""


class SendQueue:
    __slots__ = ("_chunks", "_transport", "bytes_unsent")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._chunks: deque[Octets | FileRegion] = deque()
        self.bytes_unsent = 0

    @property
    def memory_unsent(self) -> int:
        """What waits in memory; pieces of files cost none."""
        return sum(len(chunk) for chunk in self._chunks if type(chunk) is not FileRegion)

    def push(self, chunks: Iterable[Chunk | memoryview]) -> None:
        for chunk in chunks:
            size_bytes = chunk.size_bytes if type(chunk) is FileRegion else len(chunk)
            if size_bytes:
                self._chunks.append(chunk)
                self.bytes_unsent += size_bytes

    def send(self) -> int:
        """Give the kernel what it takes in one turn; how many bytes it took.

        Raises OSError if the connection is broken or a file is shorter than promised.
        """
        taken = 0
        try:
            while self._chunks and taken < TURN_BYTES_MAX:
                head = self._chunks[0]
                if type(head) is FileRegion:
                    sent = self._send_region(head, TURN_BYTES_MAX - taken)
                else:
                    sent = self._send_bytes()
                taken += sent
                self.bytes_unsent -= sent
        except (BlockingIOError, InterruptedError):
            pass
        return taken

    def drop(self) -> None:
        self._chunks.clear()
        self.bytes_unsent = 0

    def _send_region(self, region: FileRegion, bytes_max: int) -> int:
        wanted = min(region.size_bytes, bytes_max)
        sent = self._transport.send_file(region.file, region.position, wanted)
        if sent == 0:
            raise _cut_short(region)
        if sent == region.size_bytes:
            self._chunks.popleft()
        else:
            self._chunks[0] = FileRegion(
                region.file, region.position + sent, region.size_bytes - sent
            )
        return sent

    def _send_bytes(self) -> int:
        """One system call for the byte strings at the head of the queue."""
        pieces: list[Octets] = []
        flags = 0
        for chunk in self._chunks:
            if isinstance(chunk, FileRegion):
                # The head of a Fetch response shares a packet with the records after it.
                flags = MORE_FOLLOWS
                break
            if len(pieces) == GATHER_MAX:
                break
            pieces.append(chunk)
        if len(pieces) == 1:
            sent = self._transport.send(pieces[0], flags)
        else:
            sent = self._transport.send_pieces(pieces, flags)
        self._forget(pieces, sent)
        return sent

    def _forget(self, pieces: list[Octets], sent: int) -> None:
        for piece in pieces:
            if sent < len(piece):
                if sent:
                    self._chunks[0] = memoryview(piece)[sent:]
                return
            sent -= len(piece)
            self._chunks.popleft()


def _cut_short(region: FileRegion) -> RegionCutShort:
    return RegionCutShort(
        errno.EIO, f"a file ended at {region.position}, {region.size_bytes} bytes too early"
    )
