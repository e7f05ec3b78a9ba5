"""A process that appends is killed with SIGKILL again and again: what it reported as written is
there, once and in order, and so is the producer's sequence."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from moldau.model.names import TopicPartition
from moldau.records.batch_codec import decode_batch
from moldau.storage.directories.log_store import LogStore
from tests.support import seeds
from tests.support.broker_logs import broker_logs, topic_config
from tests.support.logs import SmallSettings, read_all, region_bytes
from tests.support.virtual_time import ManualClock

KILLS = 12
ROOT = Path(__file__).parents[2]
PARTITION = TopicPartition("killed", 0)
SETTINGS = SmallSettings(segment_bytes=60_000, index_interval_bytes=500)


def open_store(directory: str) -> LogStore:
    known = {PARTITION.topic: SETTINGS}
    store = broker_logs(directory, known, ManualClock(1_700_000_000_000))
    store.open("cluster")
    return store


def append_for_ever(directory: str) -> None:
    """The process to kill: prints the offset end after every append."""
    from moldau.records.batch import read_header
    from moldau.records.batch_codec import Record, encode_batch

    log = open_store(directory).create(PARTITION, bytes(range(16)), topic_config(SETTINGS))
    chance = random.Random(log.offset_end)
    while True:
        base = log.offset_end
        count = chance.randrange(1, 5)
        records = [Record(0, 1, None, b"%d" % (base + i)) for i in range(count)]
        buffer = bytearray(
            encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=base)
        )
        assert not log.append_as_leader(buffer, read_header(buffer), 0).duplicate
        os.write(1, b"%d\n" % log.offset_end)


def test_everything_reported_survives_every_kill(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    chance = seeds.chance(5)
    reported = 0
    for _ in range(KILLS):
        command = [sys.executable, "-m", "tests.integration.test_storage_kill", directory]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout is not None
        first = child.stdout.readline()
        assert int(first) > reported, "it goes on where it was killed"
        time.sleep(chance.uniform(0, 0.05))
        child.send_signal(signal.SIGKILL)
        lines = child.stdout.read().split(b"\n")
        child.stdout.close()
        child.wait()
        reported = max(reported, *(int(line) for line in lines[:-1]), int(first))
        store = open_store(directory)
        check(store, reported)
        for each in store.directories:
            each.unlock()


def check(store: LogStore, reported: int) -> None:
    log = store.logs[PARTITION]
    assert log.offset_end >= reported
    values = []
    offset = 0
    while offset < log.offset_end:
        read = log.read(offset, 1 << 20, log.offset_end)
        assert read.region is not None
        content = region_bytes(read.region)
        position = 0
        while position < len(content):
            size = int.from_bytes(content[position + 8 : position + 12], "big") + 12
            batch = decode_batch(content[position : position + size])
            values += [int(record.value or b"") for record in batch]
            position += size
        offset = read.offset_end
    assert values == list(range(log.offset_end))
    assert log.producers.is_next(7, 0, log.offset_end, False)
    assert len(read_all(log)) > 0


if __name__ == "__main__":
    append_for_ever(sys.argv[1])
