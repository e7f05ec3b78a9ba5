"""Random histories of a log against a model that is nothing but a list of batches.

Appends, transactions, rolls, truncations, retention, clean stops, crashes with torn tails and
damaged files; after every step the log must say what the list says. A failure names its seed.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.model.errors import ApiError, Error
from moldau.records.batch import BatchHeader
from tests.support import seeds
from tests.support.log_truth import SEQUENCE_MASK, Truth
from tests.support.logs import LogBench, SmallSettings, batch, first_from, headers_of, read_all

NOW_MS = 1_700_000_000_000
BLOCK = 50
BLOCKS_SHORT = range(6)
BLOCKS_LONG = range(6, 206)
STEPS = 40


class History:
    """One random life of a log."""

    def __init__(self, seed: int, root: Path) -> None:
        self.chance = random.Random(seed)
        settings = SmallSettings(
            segment_bytes=self.chance.choice([1200, 2500, 1 << 20]),
            index_interval_bytes=self.chance.choice([0, 200, 4096]),
            segment_ms=self.chance.choice([50, 10**9]),
            preallocate=self.chance.random() < 0.1,
        )
        self.bench = LogBench(root, settings)
        self.batches: list[BatchHeader] = []
        self.aborts: set[int] = set()
        self.epoch = 0
        self.actions = [
            *[self.append] * 12,
            *[self.append_idempotent] * 8,
            *[self.append_transactional] * 4,
            *[self.end_transaction] * 4,
            self.repeat,
            self.skip_sequence,
            self.roll,
            self.flush,
            self.stop,
            self.crash,
            self.power_cut,
            self.damage_and_crash,
            self.truncate,
            self.delete_records,
            self.retain,
            self.lead_again,
        ]

    @property
    def offset_end(self) -> int:
        return self.bench.log.offset_end

    def truth(self) -> Truth:
        return Truth.of(self.batches, self.aborts)

    def run(self) -> None:
        for _ in range(STEPS):
            self.chance.choice(self.actions)()
            self.check()

    # What may happen

    def stamp(self) -> int:
        return NOW_MS + len(self.batches) * 3 + self.chance.randrange(-40, 40)

    def store(self, sent: bytes, expected: int) -> None:
        appended = self.bench.append(sent, self.epoch)
        assert appended.base_offset == expected
        assert not appended.duplicate
        self.batches.append(self.last_stored())

    def last_stored(self) -> BatchHeader:
        read = self.bench.log.read(self.offset_end - 1, 1 << 20, self.offset_end)
        return headers_of(read.region)[-1]

    def append(self) -> None:
        size = self.chance.choice([0, 20, 200])
        sent = batch(self.chance.randrange(1, 6), timestamp=self.stamp(), size=size)
        self.store(sent, self.offset_end)

    def due(self, producer_id: int) -> int:
        """The next sequence; producers that the log may have forgotten go on all the same, but
        one of which only a marker is left has to start again."""
        entry = self.bench.log.producers.entry(producer_id)
        if entry is not None and not entry.batches:
            return 0
        return self.truth().sequences.get(producer_id, 0)

    def send(self, producer_id: int, sequence: int, transactional: bool) -> bytes:
        return batch(
            self.chance.randrange(1, 4),
            timestamp=self.stamp(),
            producer_id=producer_id,
            epoch=0,
            sequence=sequence,
            transactional=transactional,
        )

    def append_idempotent(self) -> None:
        producer_id = self.chance.randrange(3)
        self.store(self.send(producer_id, self.due(producer_id), False), self.offset_end)

    def append_transactional(self) -> None:
        producer_id = self.chance.randrange(100, 103)
        self.store(self.send(producer_id, self.due(producer_id), True), self.offset_end)

    def end_transaction(self) -> None:
        producer_id, commit = self.chance.randrange(100, 103), self.chance.random() < 0.5
        offset = self.offset_end
        self.bench.mark(producer_id, 0, commit=commit, leader_epoch=self.epoch)
        if commit:
            self.aborts.discard(offset)
        else:
            self.aborts.add(offset)
        self.batches.append(self.last_stored())

    def repeat(self) -> None:
        producer_id = self.chance.randrange(3)
        if self.bench.log.producers.entry(producer_id) is None:
            return
        sent = self.send(producer_id, self.due(producer_id), False)
        self.store(sent, self.offset_end)
        end = self.offset_end
        again = self.bench.append(sent, self.epoch)
        assert again.duplicate
        assert again.base_offset == self.batches[-1].base_offset
        assert self.offset_end == end

    def skip_sequence(self) -> None:
        producer_id = self.chance.randrange(3)
        entry = self.bench.log.producers.entry(producer_id)
        if entry is None or not entry.batches:
            return
        with pytest.raises(ApiError) as refused:
            self.bench.append(self.send(producer_id, self.due(producer_id) + 5, False))
        assert refused.value.error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER

    def roll(self) -> None:
        self.bench.log.roll()

    def flush(self) -> None:
        self.bench.log.flush()
        self.bench.remember()

    def lead_again(self) -> None:
        self.epoch += self.chance.randrange(1, 3)

    def stop(self) -> None:
        self.bench.stop_and_open()

    def crash(self) -> None:
        self.bench.crash_and_open()
        self.forget_unstored()

    def power_cut(self) -> None:
        """Whatever was not flushed may be missing from some byte on, or be garbage there."""
        active = self.bench.log.segments.active
        path = self.bench.file(active.base_offset, ".log")
        stored = [b for b in self.batches if b.base_offset >= active.base_offset]
        flushed = sum(b.size_bytes for b in stored if b.offset_end <= self.bench.recovery_point)
        size = active.size_bytes
        cut = self.chance.randrange(flushed, size + 1)
        with path.open("r+b") as file:
            file.truncate(cut)
            if self.chance.random() < 0.3:
                file.seek(cut)
                file.write(self.chance.randbytes(self.chance.randrange(1, 100)))
        self.bench.crash_and_open()
        kept, position = [], 0
        for each in stored:
            position += each.size_bytes
            if position <= cut:
                kept.append(each)
        self.batches = [b for b in self.batches if b.base_offset < active.base_offset] + kept
        self.forget_unstored()

    def damage_and_crash(self) -> None:
        """Files that can be rebuilt are lost or damaged."""
        suffixes = (".index", ".timeindex", ".snapshot")
        for name in self.bench.files():
            path = self.bench.directory / name
            if name.endswith(suffixes) and self.chance.random() < 0.4:
                if self.chance.random() < 0.5:
                    path.unlink()
                else:
                    path.write_bytes(self.chance.randbytes(self.chance.randrange(0, 40)))
        (self.bench.directory / "00000000000000009999.index").touch()
        (self.bench.directory / "00000000000000000000.log.deleted").touch()
        self.bench.crash_and_open()
        self.forget_unstored()

    def forget_unstored(self) -> None:
        """A crash loses nothing that was stored, but the log start goes back to its checkpoint; one
        that lies behind what a power cut has left is no reason to hide that."""
        log = self.bench.log
        if self.bench.log_start_offset > log.offset_end:
            self.bench.log_start_offset = 0
        assert log.log_start_offset == max(self.bench.log_start_offset, log.segments.base_offset)

    def truncate(self) -> None:
        if self.offset_end <= self.bench.log.log_start_offset:
            return
        offset = self.chance.randrange(self.bench.log.log_start_offset, self.offset_end + 1)
        self.bench.log.truncate_to(offset)
        self.batches = [b for b in self.batches if b.offset_end <= offset]
        self.bench.remember()

    def delete_records(self) -> None:
        log = self.bench.log
        log.advance_log_start(self.chance.randrange(log.log_start_offset, self.offset_end + 1))
        if self.chance.random() < 0.7:
            log.delete_old_segments(NOW_MS, self.offset_end)

    def retain(self) -> None:
        self.bench.change(retention_bytes=self.chance.choice([1000, 5000]))
        self.bench.log.delete_old_segments(NOW_MS, self.offset_end)
        self.bench.change(retention_bytes=-1)

    # What must hold

    def check(self) -> None:
        log = self.bench.log
        start = log.log_start_offset
        here = [b for b in self.batches if b.last_offset >= start]
        assert read_all(log, self.chance.choice([1, 500, 1 << 20])) == here
        if here:
            assert log.offset_end == here[-1].offset_end
            self.check_read(here)
            self.check_timestamp(here)
        truth = self.truth()
        for producer_id, sequence in truth.sequences.items():
            entry = log.producers.entry(producer_id)
            if entry is not None and entry.batches:
                assert (entry.last_sequence + 1) & SEQUENCE_MASK == sequence
        stable = min((o for o in truth.open.values() if o >= start), default=None)
        if stable is not None:
            assert log.last_stable_offset(log.offset_end) <= stable
        self.check_aborted(truth)
        if here:
            assert log.epoch_at(here[-1].last_offset) == here[-1].leader_epoch
            assert log.epoch_at(max(start, here[0].base_offset)) == here[0].leader_epoch

    def check_aborted(self, truth: Truth) -> None:
        log = self.bench.log
        base = log.segments.base_offset
        found = log.aborted_transactions(log.log_start_offset, log.offset_end)
        assert [each.first_offset for each in found] == sorted(each.first_offset for each in found)
        first_of = {each.last_offset: each.first_offset for each in found}
        for _, first, marker in truth.aborted:
            if first >= base and marker >= log.log_start_offset:
                assert first_of.pop(marker) == first
            elif marker in first_of:
                # It began in a segment that is gone; what is left of it is known, or all.
                first_of.pop(marker)
        assert not first_of

    def check_read(self, here: list[BatchHeader]) -> None:
        log, chance = self.bench.log, self.chance
        offset = chance.randrange(log.log_start_offset, log.offset_end)
        max_bytes = chance.choice([1, 150, 400, 3000])
        limit = chance.randrange(offset, log.offset_end + 1)
        min_one = chance.random() < 0.5
        bases = [segment.base_offset for segment in log.segments]
        expected: list[BatchHeader] = []
        size = 0
        for each in here:
            if each.last_offset < offset:
                continue
            size += each.size_bytes
            fits = size <= max_bytes or (min_one and not expected)
            new_segment = expected and each.base_offset in bases
            if each.offset_end > limit or not fits or new_segment:
                break
            expected.append(each)
        read = log.read(offset, max_bytes, limit, min_one)
        assert headers_of(read.region) == expected
        if expected:
            assert read.offset_end >= expected[-1].offset_end

    def check_timestamp(self, here: list[BatchHeader]) -> None:
        """Batches have timestamps that grow by one from record to record, so the model knows."""
        log = self.bench.log
        stamp = self.chance.choice(here).max_timestamp - self.chance.randrange(5)
        found = first_from(log, stamp)
        for each in here:
            offsets = range(max(each.base_offset, log.log_start_offset), each.offset_end)
            stamps = {o: each.base_timestamp + o - each.base_offset for o in offsets}
            match = [(t, o) for o, t in stamps.items() if t >= stamp]
            if match:
                assert found is not None
                assert found[:2] == match[0]
                return
        assert found is None


@pytest.fixture
def root() -> Iterator[Path]:
    """In memory where there is such a place: these runs fsync thousands of times."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="moldau-model-", dir=memory))
    yield path
    shutil.rmtree(path)


def live(block: int, root: Path) -> None:
    for seed in seeds.several(BLOCK, first=block * BLOCK):
        directory = root / str(seed)
        directory.mkdir()
        History(seed, directory).run()
        shutil.rmtree(directory)


@pytest.mark.parametrize("block", BLOCKS_SHORT)
def test_a_log_lives_through_anything_as_its_model_does(block: int, root: Path) -> None:
    live(block, root)


@pytest.mark.long
@pytest.mark.parametrize("block", BLOCKS_LONG)
def test_a_log_lives_through_anything_ten_thousand_times(block: int, root: Path) -> None:
    live(block, root)
