"""Copying one partition up to an offset: the files that a run before left, then what is missing.

A file is complete when it has its name; until a moment names it too it belongs to nobody. A run
that was killed leaves complete files without a moment: those that follow what is known are read,
counted and taken over, everything else goes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.backup.backup_faults import BackupFault, Damaged
from moldau.backup.batch_files import (
    BatchFile,
    Reading,
    file_name,
    parse_file_name,
)
from moldau.backup.batch_scan import BatchScan, OpenTransaction, whole_batches
from moldau.backup.cluster_source import ClusterSource
from moldau.backup.moments import FileRow
from moldau.backup.progress import Progress
from moldau.client.shared.client_errors import KafkaError
from moldau.model.errors import Error
from moldau.model.names import TopicPartition

Look = Callable[[memoryview], None]
"""Sees every chunk that is copied, in order."""
EMPTY_TRIES = 3
"""What an answer without records means is asked again: the rest may be a gap."""


class Wanted(NamedTuple):
    place: TopicPartition
    directory: str
    offset_start: int
    """Where the moment before ended."""
    offset_end: int
    open: Sequence[OpenTransaction]
    segment_bytes: int


class Copied(NamedTuple):
    place: TopicPartition
    files: tuple[FileRow, ...]
    open: tuple[OpenTransaction, ...]


class PartitionCopy:
    def __init__(
        self, source: ClusterSource, wanted: Wanted, look: Look | None, progress: Progress
    ) -> None:
        self._source = source
        self._wanted = wanted
        self._look = look
        self._progress = progress
        self._open = {each.producer_id: each for each in wanted.open}
        self._rows: list[FileRow] = []
        self._offset = wanted.offset_start
        self._file: BatchFile | None = None
        self._file_start = 0
        self._scan = BatchScan()
        self._writing: asyncio.Task[None] | None = None

    async def run(self) -> Copied:
        await asyncio.to_thread(self._take_over)
        wanted = self._wanted
        try:
            while self._offset < wanted.offset_end:
                await self._go_on()
            await self._finish_file()
        finally:
            if self._file is not None:
                await asyncio.shield(self._give_up(self._file))
        return Copied(wanted.place, tuple(self._rows), tuple(self._open.values()))

    async def _give_up(self, file: BatchFile) -> None:
        if self._writing is not None:
            # Whatever came of it, it is not wanted any more.
            await asyncio.gather(self._writing, return_exceptions=True)
        file.give_up()

    # What a run before has left

    def _take_over(self) -> None:
        directory = self._wanted.directory
        found = {}
        for name in os.listdir(directory) if os.path.isdir(directory) else ():
            span = parse_file_name(name)
            if span is None:
                os.unlink(os.path.join(directory, name))
            elif span[0] >= self._wanted.offset_start:
                found[name] = span
        for name, (start, end) in sorted(found.items()):
            # Where one begins later, its leader had deleted what is between.
            if start < self._offset or end > self._wanted.offset_end or not self._adopt(name):
                os.unlink(os.path.join(directory, name))

    def _adopt(self, name: str) -> bool:
        """Whether it is whole."""
        span = parse_file_name(name)
        assert span is not None, name
        reading, scan = Reading(os.path.join(self._wanted.directory, name)), BatchScan()
        scan.open = dict(self._open)
        try:
            for chunk in reading.chunks():
                scan.take(chunk)
        except Damaged:
            return False
        if self._look is not None:
            # Only now is it known to be whole.
            for chunk in Reading(reading.path).chunks():
                self._look(chunk)
        self._open = scan.open
        self._rows.append(FileRow(name, *span, scan.counts, *reading.written))
        self._progress.copied(scan.counts.raw_bytes, span[1] - self._offset)
        self._offset = span[1]
        return True

    # What is missing

    async def _go_on(self) -> None:
        wanted = self._wanted
        batches, offset_next = await self._next_batches()
        if not len(batches):
            self._offset = max(offset_next, self._offset)
            return
        await self._written()
        if self._file is not None and self._file.stored_bytes >= wanted.segment_bytes:
            await self._finish_file()
        if self._file is None:
            self._begin_file()
        self._scan.take(batches)
        if self._look is not None:
            self._look(batches)
        assert self._file is not None
        self._writing = asyncio.create_task(asyncio.to_thread(self._file.add, batches))
        self._progress.copied(len(batches), offset_next - self._offset)
        self._offset = offset_next

    async def _next_batches(self) -> tuple[memoryview, int]:
        wanted = self._wanted
        for _ in range(EMPTY_TRIES):
            try:
                fetched = await self._source.fetch(
                    wanted.place, self._offset, wanted.offset_end, wanted.segment_bytes
                )
            except KafkaError as error:
                if error.code is not Error.OFFSET_OUT_OF_RANGE:
                    raise
                return memoryview(b""), await self._behind_deleted()
            batches, offset_next = whole_batches(fetched, self._offset, wanted.offset_end)
            if len(batches):
                return batches, offset_next
            if len(fetched):
                break
        if wanted.place.topic not in self._source.compacted:
            raise BackupFault(
                f"{wanted.place} has nothing between offsets {self._offset} and"
                f" {wanted.offset_end}, and is not compacted: its leader leaves records out"
            )
        # Compaction has left nothing up to the end.
        return memoryview(b""), wanted.offset_end

    async def _behind_deleted(self) -> int:
        """Retention was quicker: the file ends here, another one begins behind the gap."""
        wanted = self._wanted
        start = (await self._source.starts([wanted.place]))[wanted.place]
        if start <= self._offset:
            raise BackupFault(
                f"{wanted.place} ends before offset {self._offset}, which it had before: its"
                " leader has lost records. Begin another backup in a new directory"
            )
        await self._finish_file()
        return min(start, wanted.offset_end)

    def _begin_file(self) -> None:
        self._file_start = self._offset
        self._scan = BatchScan()
        self._scan.open = self._open
        self._file = BatchFile(self._wanted.directory, self._offset)

    async def _written(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            await writing

    async def _finish_file(self) -> None:
        await self._written()
        if self._file is None:
            return
        file, self._file = self._file, None
        span = self._file_start, self._offset
        written = await asyncio.to_thread(file.finish, self._offset)
        self._rows.append(FileRow(file_name(*span), *span, self._scan.counts, *written))
