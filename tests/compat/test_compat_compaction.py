"""Apache Kafka and Moldau compact the same directory: what each leaves must be the same."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from moldau.model.names import TopicPartition
from moldau.records.batch import DELETE_HORIZON_FLAG, BatchHeader, read_header
from moldau.records.batch_codec import Record, decode_batch
from moldau.storage.compaction.compaction_scheduler import Cleaner, CleanerSettings
from moldau.storage.directories.log_store import LogStore
from moldau.storage.log_state.checkpoint_files import CLEANER_FILE, read_offsets
from tests.support.apache_kafka import ApacheKafka
from tests.support.at_once import AtOnce
from tests.support.logs import SmallSettings
from tests.support.virtual_time import ManualClock

pytestmark = pytest.mark.compat

SEGMENT_MS = 10_000
NEVER_MS = 10**14
CLEAN_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    settings = {"log.cleaner.backoff.ms": "100", "log.cleaner.dedupe.buffer.size": "20000000"}
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), settings) as running:
        yield running


class Compared:
    """One topic of Apache Kafka, copied before and after its cleaner has been there."""

    def __init__(self, kafka: ApacheKafka, topic: str, root: Path) -> None:
        self.kafka = kafka
        self.topic = topic
        self.root = root
        self.place = TopicPartition(topic, 0)
        # Markers carry the time of day, and segments are rolled by time.
        self.now_ms = int(time.time() * 1000)
        self.delete_retention_ms = 0
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        configs = {
            "cleanup.policy": "compact",
            "segment.ms": str(SEGMENT_MS),
            "min.compaction.lag.ms": str(NEVER_MS),
            "min.cleanable.dirty.ratio": "0.0",
            "delete.retention.ms": "0",
        }
        [made] = self.admin.create_topics([NewTopic(topic, 1, 1, config=configs)]).values()
        made.result(30)

    def producer(self, **settings: Any) -> Producer:
        common = {"bootstrap.servers": self.kafka.bootstrap, "linger.ms": 0, "log_level": 0}
        return Producer(common | settings)

    def send(self, producer: Producer, *pairs: tuple[str, str | None]) -> None:
        """As one batch where the producer makes one of it."""
        for key, value in pairs:
            producer.produce(
                self.topic, value, key, partition=0, timestamp=self.now_ms, headers={"h": b"x"}
            )
        producer.flush(30)
        self.now_ms += 7

    def roll(self) -> None:
        """The next record is so much later that it starts a segment."""
        self.now_ms += SEGMENT_MS + 1000

    def clean(self, number: int) -> tuple[Path, Path]:
        """Let the cleaner in; the directory as it was and as it is now."""
        before, after = self.root / f"before-{number}", self.root / f"after-{number}"
        self._copy(before)
        active = max(int(path.stem) for path in (before / str(self.place)).glob("*.log"))
        self._set("min.compaction.lag.ms", "0")
        deadline = time.monotonic() + CLEAN_SECONDS_MAX
        checkpoint = str(self.kafka.log_directory / CLEANER_FILE)
        while read_offsets(checkpoint).get(self.place, 0) < active:
            assert time.monotonic() < deadline, "Apache Kafka's cleaner did not come"
            time.sleep(0.05)
        self._set("min.compaction.lag.ms", str(NEVER_MS))
        self._copy(after)
        return before, after

    def _copy(self, target: Path) -> None:
        source = self.kafka.log_directory
        shutil.copytree(source / str(self.place), target / str(self.place))
        if (source / CLEANER_FILE).exists():
            shutil.copy(source / CLEANER_FILE, target)

    def _set(self, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", self.topic, incremental_configs=[entry])
        [changed] = self.admin.incremental_alter_configs([resource]).values()
        changed.result(30)


def compact(directory: Path, place: TopicPartition) -> None:
    """As Moldau does it, with the topic's settings."""
    settings = SmallSettings(
        cleanup_policy=("compact",),
        segment_ms=SEGMENT_MS,
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=0,
    )
    clock = ManualClock(int(time.time() * 1000))
    store = LogStore(
        [str(directory)],
        node_id=1,
        settings_for=lambda topic: settings,
        clock=clock,
        threads=AtOnce(),
    )
    store.open()
    cleaner = Cleaner(
        store,
        high_watermark=lambda partition: store.logs[partition].offset_end,
        settings=lambda: CleanerSettings(1, 20_000_000, 0.9, 512 * 1024, 1.7e308),
        clock=clock,
        new_thread=AtOnce,
    )
    cleaner.look()
    assert store.logs[place].cleaned_end == store.logs[place].segments.active.base_offset
    cleaner.stop()
    store.close({place: store.logs[place].offset_end})


Batch = tuple[BatchHeader, list[Record]]


def closed_segments(directory: Path) -> dict[str, list[Batch]]:
    """The batches of every segment but the last, without what depends on the time of day."""
    paths = sorted(directory.glob("*.log"))
    return {path.name: list(_batches(path.read_bytes())) for path in paths[:-1]}


def _batches(content: bytes) -> Iterator[Batch]:
    at = 0
    while at < len(content):
        header = read_header(content, at)
        records = decode_batch(content, at)
        at += header.size_bytes
        if header.attributes & DELETE_HORIZON_FLAG:
            header = header._replace(base_timestamp=0)
        # Codecs are free to compress as they like, and a horizon is a timestamp.
        yield header._replace(crc=0, batch_length=0), records


def indexes(directory: Path, suffix: str) -> dict[str, bytes]:
    active = max(path.stem for path in directory.glob("*.log"))
    found = {path.name: path.read_bytes() for path in directory.glob(f"*{suffix}")}
    return {name: data for name, data in found.items() if data and not name.startswith(active)}


def assert_same(compared: Compared, number: int) -> dict[str, list[Batch]]:
    before, after = compared.clean(number)
    compact(before, compared.place)
    ours, theirs = before / str(compared.place), after / str(compared.place)
    expected = closed_segments(theirs)
    assert closed_segments(ours) == expected
    assert indexes(ours, ".txnindex") == indexes(theirs, ".txnindex")
    assert read_offsets(str(before / CLEANER_FILE)).get(compared.place) == read_offsets(
        str(after / CLEANER_FILE)
    ).get(compared.place)
    return expected


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_plain_records_are_compacted_as_apache_kafka_does(
    kafka: ApacheKafka, tmp_path: Path, codec: str
) -> None:
    compared = Compared(kafka, f"plain-{codec}", tmp_path)
    producer = compared.producer(**{"compression.type": codec, "linger.ms": 50})
    for i in range(12):
        compared.send(producer, *((f"k{(i * 3 + j) % 10}", f"{i}-{j}" * 9) for j in range(5)))
        compared.send(producer, ("gone", None if i > 8 else str(i)), (f"only-once-{i}", "x"))
        if i % 4 == 3:
            compared.roll()
    compared.send(producer, ("last", "stays"))
    first = assert_same(compared, 1)
    kept = [record for batches in first.values() for _, records in batches for record in records]
    assert any(record.value is None for record in kept)
    # A second round merges what has become small and drops the tombstone.
    for i in range(3):
        compared.roll()
        compared.send(producer, (f"k{i}", "again"), ("gone-too", None))
    second = assert_same(compared, 2)
    kept = [record for batches in second.values() for _, records in batches for record in records]
    assert b"gone" not in {record.key for record in kept}


def test_transactions_are_compacted_as_apache_kafka_does(
    kafka: ApacheKafka, tmp_path: Path
) -> None:
    compared = Compared(kafka, "transactions", tmp_path)
    plain = compared.producer(**{"enable.idempotence": True})
    writers = [compared.producer(**{"transactional.id": f"compaction-{i}"}) for i in range(3)]
    for writer in writers:
        writer.init_transactions(30)

    def transactions(count: int) -> None:
        for i in range(count):
            writer = writers[i % 3]
            writer.begin_transaction()
            compared.send(writer, (f"k{i % 7}", f"in {i}"), (f"t{i}", None if i % 5 == 4 else "x"))
            compared.send(plain, (f"k{i % 4}", f"beside {i}"))
            if i % 3 == 1:
                compared.roll()
            compared.send(writer, (f"k{i % 6}", f"more {i}"))
            writer.commit_transaction(30) if i % 4 else writer.abort_transaction(30)

    transactions(12)
    compared.roll()
    compared.send(plain, ("last", "stays"))
    first = assert_same(compared, 1)
    assert any(header.is_control for batches in first.values() for header, _ in batches)
    for number in (2, 3):
        transactions(4)
        compared.roll()
        compared.send(plain, ("last", "again"))
        assert_same(compared, number)
