"""What `dump-log` shows of the files beside a log: indexes, aborted transactions, producers."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from moldau.cli.command_faults import CommandFault
from moldau.cli.output import Output
from moldau.records.checksum import crc32c
from moldau.storage.log.batch_walk import BatchPlace, walk_places
from moldau.storage.log_state.producer_snapshots import decode_snapshot
from moldau.storage.log_state.producer_state import ProducerEntry
from moldau.storage.storage_faults import CorruptFile

_INDEX_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")
_SNAPSHOT_HEAD = struct.Struct(">hIi")
"""Version, checksum of what follows it, number of entries."""
_SNAPSHOT_BODY = 6
SNAPSHOT_ENTRY_BYTES = 46


class Mismatches:
    """What does not fit together, by file; printed at the end."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[int, int]] = {}
        self.timestamps: dict[str, list[tuple[int, int]]] = {}
        self.disorder: dict[str, list[tuple[int, int]]] = {}
        self.missing: dict[str, list[tuple[int, int]]] = {}
        self.gaps: dict[str, dict[int, int]] = {}

    def print_to(self, out: Output) -> None:
        for path, pairs in self.offsets.items():
            out.remark(f"Mismatches in :{path}")
            for index_offset, log_offset in sorted(pairs.items(), reverse=True):
                out.remark(f"  Index offset: {index_offset}, log offset: {log_offset}")
        for path, rows in self.timestamps.items():
            out.remark(f"Found timestamp mismatch in :{path}")
            for index_time, log_time in rows:
                out.remark(f"  Index timestamp: {index_time}, log timestamp: {log_time}")
        for path, rows in self.disorder.items():
            out.remark(f"Found out of order timestamp in :{path}")
            for time, before in rows:
                out.remark(f"  Index timestamp: {time}, Previously indexed timestamp: {before}")
        for path, rows in self.missing.items():
            out.remark(f"The following indexed offsets are not found in :{path}")
            for index_offset, log_offset in rows:
                out.remark(f"Indexed offset: {index_offset}, found log offset: {log_offset}")
        for path, pairs in self.gaps.items():
            out.remark(f"Non-consecutive offsets in {path}")
            for offset, following in sorted(pairs.items()):
                out.remark(f"  {offset} is followed by {following}")


def base_offset_of(path: Path) -> int:
    digits = path.name.split(".")[0]
    if not digits.isdigit():
        raise CommandFault(
            f'For input string: "{digits}": the file\'s name must be its first offset'
        )
    return int(digits)


class Teller(Protocol):
    """Prints lines for people, and tells the same as data where that is wanted."""

    @property
    def out(self) -> Output: ...

    def tell(self, kind: str, fields: dict[str, Any]) -> None: ...


def dump_index(path: Path, to: Teller, remarks: Mismatches, *, sanity: bool, verify: bool) -> None:
    out = to.out
    base_offset = base_offset_of(path)
    entries = offset_entries(path)
    with path.with_suffix(".log").open("rb") as log:
        if not entries:
            out.line(f"{path} is empty.")
            to.tell("empty", {})
            return
        if sanity:
            check_sanity(path, _INDEX_ENTRY.size, base_offset, entries[-1][0])
            out.line(f"{path} passed sanity check.")
            to.tell("sane", {})
            return
        for number, (offset, position) in enumerate(entries):
            # A file that was given its full size early ends in zeros.
            if offset == base_offset and number > 0:
                return
            batch = next(batches_from(log.fileno(), position), None)
            if batch is None:
                raise CommandFault(f"{path} points to {position}, past the end of its log")
            if batch.offset_last != offset:
                remarks.offsets.setdefault(str(path.absolute()), {})[offset] = batch.offset_last
            if not verify:
                out.line(f"offset: {offset} position: {position}")
                to.tell("index", {"offset": offset, "position": position})


def offset_entries(path: Path) -> list[tuple[int, int]]:
    base_offset = base_offset_of(path)
    content = path.read_bytes()
    whole = len(content) - len(content) % _INDEX_ENTRY.size
    return [(base_offset + delta, at) for delta, at in _INDEX_ENTRY.iter_unpack(content[:whole])]


def check_sanity(path: Path, entry_bytes: int, base_offset: int, offset_last: int) -> None:
    size = path.stat().st_size
    if offset_last < base_offset:
        raise CommandFault(
            f"Corrupt index found, index file ({path.absolute()}) has non-zero size but the last"
            f" offset is {offset_last} which is less than the base offset {base_offset}"
        )
    if size % entry_bytes:
        raise CommandFault(
            f"Index file {path.absolute()} is corrupt, found {size} bytes which is neither"
            f" positive nor a multiple of {entry_bytes}"
        )


def batches_from(descriptor: int, position: int) -> Iterator[BatchPlace]:
    return walk_places(descriptor, position, os.fstat(descriptor).st_size)


def dump_time_index(
    path: Path, to: Teller, remarks: Mismatches, *, sanity: bool, verify: bool
) -> None:
    out = to.out
    base_offset = base_offset_of(path)
    content = path.read_bytes()
    whole = len(content) - len(content) % _TIME_ENTRY.size
    entries = [(t, base_offset + d) for t, d in _TIME_ENTRY.iter_unpack(content[:whole])]
    positions = offset_entries(path.with_suffix(".index"))
    if sanity:
        check_sanity(
            path, _TIME_ENTRY.size, base_offset, entries[-1][1] if entries else base_offset
        )
        out.line(f"{path} passed sanity check.")
        to.tell("sane", {})
        return
    before = -1
    with path.with_suffix(".log").open("rb") as log:
        for number, (timestamp, offset) in enumerate(entries):
            if offset == base_offset and number > 0:
                return
            start = max((at for known, at in positions if known <= offset), default=0)
            compare_time(log.fileno(), start, timestamp, offset, before, path, remarks)
            if not verify:
                out.line(f"timestamp: {timestamp} offset: {offset}")
                to.tell("timeindex", {"timestamp": timestamp, "offset": offset})
            before = timestamp


def compare_time(
    descriptor: int,
    start: int,
    timestamp: int,
    offset: int,
    before: int,
    path: Path,
    remarks: Mismatches,
) -> None:
    name = str(path.absolute())
    found = next((b for b in batches_from(descriptor, start) if b.offset_last >= offset), None)
    if found is None or found.offset_last != offset:
        where = -1 if found is None else found.offset_last
        remarks.missing.setdefault(name, []).append((offset, where))
        return
    if found.max_timestamp != timestamp:
        remarks.timestamps.setdefault(name, []).append((timestamp, found.max_timestamp))
    if before >= timestamp:
        remarks.disorder.setdefault(name, []).append((timestamp, before))


def dump_txn_index(path: Path, to: Teller) -> None:
    content = path.read_bytes()
    whole = len(content) - len(content) % _ABORTED_ENTRY.size
    for row in _ABORTED_ENTRY.iter_unpack(content[:whole]):
        version, producer_id, first, last, stable = row
        to.out.line(
            f"version: {version} producerId: {producer_id} firstOffset: {first}"
            f" lastOffset: {last} lastStableOffset: {stable}"
        )
        fields = {"firstOffset": first, "lastOffset": last, "lastStableOffset": stable}
        to.tell("txnindex", {"producerId": producer_id, **fields})


def dump_snapshot(path: Path, to: Teller) -> None:
    content = path.read_bytes()
    try:
        entries = decode_snapshot(content, str(path))
    except CorruptFile as fault:
        reason = snapshot_fault(content) or str(fault)
        to.out.remark(reason)
        to.tell("damaged", {"reason": reason})
        return
    for entry in entries:
        to.out.line(snapshot_line(entry))
        last = entry.batches[0] if entry.batches else None
        to.tell(
            "producer",
            {
                "producerId": entry.producer_id,
                "producerEpoch": entry.epoch,
                "coordinatorEpoch": entry.coordinator_epoch,
                "firstOpenOffset": entry.txn_first_offset if entry.txn_first_offset >= 0 else None,
                "lastTimestamp": entry.last_timestamp,
                "lastSequence": None if last is None else last.last_sequence,
                "lastOffset": None if last is None else last.offset_last,
            },
        )


def snapshot_fault(content: bytes) -> str:
    """What Kafka's tool says of a snapshot whose checksum is wrong; empty if that is not it."""
    if len(content) < _SNAPSHOT_HEAD.size:
        return ""
    _, stored, count = _SNAPSHOT_HEAD.unpack_from(content)
    computed = crc32c(memoryview(content)[_SNAPSHOT_BODY:])
    if len(content) != _SNAPSHOT_HEAD.size + count * SNAPSHOT_ENTRY_BYTES or stored == computed:
        return ""
    return (
        f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}."
        f" Computed crc: {computed}"
    )


def snapshot_line(entry: ProducerEntry) -> str:
    first = entry.txn_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.epoch}"
        f" coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: "
        + (f"OptionalLong[{first}]" if first >= 0 else "OptionalLong.empty")
        + f" lastTimestamp: {entry.last_timestamp}"
    )
    if entry.batches:
        batch = entry.batches[0]
        line += (
            f" firstSequence: {batch.last_sequence - batch.offset_delta & 0x7FFFFFFF}"
            f" lastSequence: {batch.last_sequence} lastOffset: {batch.offset_last}"
            f" offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
        )
    return line
