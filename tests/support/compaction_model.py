"""A random life of a compacted log, and what must hold whatever compaction left out."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from moldau.records.batch import BatchHeader
from moldau.records.batch_codec import Record, decode_batch, encode_batch
from moldau.records.compression import Codec
from tests.support.compaction import COMPACTED, NOW_MS, CompactionBench, small_cleaner

DAY_MS = 86_400_000
CODECS = [Codec.NONE] * 4 + [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@dataclass
class Written:
    """A record as it was appended, and what became of its transaction."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    state: str = "committed"
    producer_id: int = -1


class CompactedLife:
    def __init__(self, seed: int, root: Path) -> None:
        self.chance = random.Random(seed)
        pick = self.chance.choice
        settings = COMPACTED.__class__(
            cleanup_policy=("compact",),
            min_cleanable_dirty_ratio=0.0,
            index_interval_bytes=pick([0, 200, 4096]),
            segment_bytes=pick([900, 1500, 1 << 20]),
            delete_retention_ms=pick([0, 1000, DAY_MS]),
            min_compaction_lag_ms=pick([0, 0, 0, 50]),
            file_delete_delay_ms=pick([0, 60_000]),
        )
        map_bytes = pick([24 * 40, 1 << 20])
        self.bench = CompactionBench(root, settings, cleaning=small_cleaner(map_bytes=map_bytes))
        self.written: dict[int, Written] = {}
        self.sequences: dict[int, int] = {}
        self.cut_back: set[int] = set()
        """Producers whose last batches were truncated, and who have not written since."""
        self.open: set[int] = set()
        self.marker_end = 0
        self.steps = [
            *[self.append] * 10,
            *[self.append_idempotent] * 4,
            *[self.append_transactional] * 6,
            *[self.end_transaction] * 4,
            *[self.roll] * 4,
            *[self.compact] * 5,
            self.pass_time,
            self.crash,
            self.stop_and_start,
            self.truncate,
            self.delete_records,
        ]

    def step(self) -> str:
        step = self.chance.choice(self.steps)
        step()
        return step.__name__

    # -- what happens ------------------------------------------------------------------------

    def _records(self) -> list[Record]:
        self.bench.clock.now_ms += self.chance.randrange(3)
        return [
            Record(
                i,
                self.bench.clock.now_ms + self.chance.randrange(-5, 5),
                b"key-%d" % self.chance.randrange(12),
                self.chance.choice([None, b"", b"v%d" % self.chance.randrange(99), bytes(150)]),
                (("h", b"x"), ("n", None)) if self.chance.random() < 0.1 else (),
            )
            for i in range(self.chance.randrange(1, 6))
        ]

    def _write(self, records: list[Record], state: str, producer_id: int = -1) -> None:
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        append_time = self.bench.clock.now_ms if self.chance.random() < 0.15 else None
        content = encode_batch(
            records,
            codec=self.chance.choice(CODECS),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=state == "open",
            log_append_time_ms=append_time,
        )
        appended = self.bench.append(content)
        for i, record in enumerate(records):
            stamp = record.timestamp if append_time is None else append_time
            written = Written(record.key, record.value, stamp, state, producer_id)
            self.written[appended.base_offset + i] = written
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + len(records)
            self.cut_back.discard(producer_id)

    def append(self) -> None:
        self._write(self._records(), "committed")

    def append_idempotent(self) -> None:
        self._write(self._records(), "committed", self.chance.randrange(3))

    def append_transactional(self) -> None:
        producer_id = self.chance.randrange(10, 13)
        self.open.add(producer_id)
        self._write(self._records(), "open", producer_id)

    def end_transaction(self) -> None:
        if not self.open:
            return
        producer_id = self.chance.choice(sorted(self.open))
        self.open.discard(producer_id)
        commit = self.chance.random() < 0.5
        self.marker_end = self.bench.end_transaction(producer_id, commit=commit).offset_last + 1
        for each in self.written.values():
            if each.state == "open" and each.producer_id == producer_id:
                each.state = "committed" if commit else "aborted"

    def roll(self) -> None:
        self.bench.roll()

    def compact(self) -> None:
        self.bench.cleaner.look()

    def pass_time(self) -> None:
        self.bench.clock.now_ms += self.chance.choice([1, 60, 1500, 2 * DAY_MS // 5])

    def crash(self) -> None:
        self.bench.crash()

    def stop_and_start(self) -> None:
        self.bench.stop()
        self.bench.open()

    def truncate(self) -> None:
        """Only what was never committed, as a follower's new leader may ask: nothing that could
        have been compacted, and no marker."""
        log = self.bench.log
        offset = max(log.last_stable_offset(log.offset_end), self.marker_end)
        if self.chance.random() < 0.5 or offset >= log.offset_end:
            return
        log.truncate_to(offset)
        self.written = {o: each for o, each in self.written.items() if o < log.offset_end}
        self.open = {each.producer_id for each in self.written.values() if each.state == "open"}
        for producer_id in list(self.sequences):
            # Who wrote what was cut off goes on where the log says.
            entry = log.producers.entry(producer_id)
            if entry is None:
                del self.sequences[producer_id]
            elif self.sequences[producer_id] != entry.last_sequence + 1:
                self.sequences[producer_id] = entry.last_sequence + 1
                self.cut_back.add(producer_id)

    def delete_records(self) -> None:
        log = self.bench.log
        stable = log.last_stable_offset(log.offset_end)
        if self.chance.random() < 0.3 and stable > log.log_start_offset:
            log.advance_log_start(self.chance.randrange(log.log_start_offset, stable + 1))
            self.bench.store.write_checkpoints({})

    # -- what must hold ----------------------------------------------------------------------

    def check(self) -> None:
        log = self.bench.log
        batches = self.bench.batches()
        found = self._check_records(batches)
        visible = self._committed(batches)
        start, stable = log.log_start_offset, log.last_stable_offset(log.offset_end)
        newest: dict[bytes | None, int] = {}
        for offset, each in self.written.items():
            if start <= offset < stable and each.state == "committed":
                newest[each.key] = max(offset, newest.get(each.key, -1))
        for key, offset in newest.items():
            value = self.written[offset].value
            seen = max((o for o in visible if self.written[o].key == key), default=None)
            if value is not None:
                assert seen == offset, f"the newest record of {key!r}, {offset}, is gone: {seen}"
            else:
                assert seen in (None, offset), f"{key!r} was deleted at {offset}, seen {seen}"
        for offset, each in self.written.items():
            if offset >= max(log.segments.active.base_offset, start):
                assert offset in found, f"record {offset} was never to be compacted"
            if each.state == "open" and offset >= start:
                assert offset in found, f"record {offset} belongs to an open transaction"
        self._check_offsets()
        self._check_producers()
        leftovers = [*self.bench.names(".cleaned"), *self.bench.names(".swap")]
        assert not leftovers

    def _check_records(self, batches: list[tuple[BatchHeader, bytes]]) -> set[int]:
        found: set[int] = set()
        offset_end = 0
        for header, content in batches:
            assert header.base_offset >= offset_end, "batches overlap"
            offset_end = header.offset_end
            if header.is_control:
                continue
            for record in decode_batch(content):
                was = self.written[record.offset]
                assert (record.key, record.value) == (was.key, was.value)
                assert record.timestamp == was.timestamp
                assert header.base_offset <= record.offset <= header.last_offset
                found.add(record.offset)
        return found

    def _committed(self, batches: list[tuple[BatchHeader, bytes]]) -> set[int]:
        """What a read_committed consumer gets, by the rules that consumers follow."""
        log = self.bench.log
        stable = log.last_stable_offset(log.offset_end)
        ahead = log.aborted_transactions(log.log_start_offset, stable)
        aborted: set[int] = set()
        seen: set[int] = set()
        for header, content in batches:
            if header.last_offset >= stable:
                break
            while ahead and ahead[0].first_offset <= header.last_offset:
                aborted.add(ahead.pop(0).producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                records = decode_batch(content)
                seen |= {r.offset for r in records if r.offset >= log.log_start_offset}
        for offset in seen:
            assert self.written[offset].state == "committed", f"{offset} was aborted"
        return seen

    def _check_offsets(self) -> None:
        """Any offset that a consumer may hold leads on to the end."""
        log = self.bench.log
        held = range(log.log_start_offset, log.offset_end)
        for offset in self.chance.sample(held, min(len(held), 15)):
            read = log.read(offset, 1, log.offset_end)
            if read.region is None:
                # Nothing but compacted offsets up to the end of the log.
                assert not any(o >= offset for o in self._kept_offsets())
            else:
                assert read.offset_end > offset

    def _kept_offsets(self) -> set[int]:
        return {h.last_offset for h, _ in self.bench.batches()}

    def _check_producers(self) -> None:
        """Sequences go on where they were, also for those whose records are all compacted."""
        for producer_id, due in list(self.sequences.items()):
            entry = self.bench.log.producers.entry(producer_id)
            if producer_id in self.cut_back:
                # What is now its last batch was not when that was compacted, and so may be gone.
                known = 0 if entry is None else entry.last_sequence + 1
                assert known <= due
                self.sequences[producer_id] = known
                continue
            assert entry is not None, f"producer {producer_id} was forgotten"
            assert entry.last_sequence + 1 == due
        assert NOW_MS <= self.bench.clock.now_ms < NOW_MS + 20 * 365 * DAY_MS
