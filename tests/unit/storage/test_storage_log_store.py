"""All logs of a broker: directories, locks, creation, deletion, checkpoints, stops and crashes."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.topic_config import TopicConfig
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.records.batch import read_header
from moldau.storage.directories.log_directory import DirectoryInUse
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.storage_threads import OneThread, Threads, run_each
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log_settings import LogSettings
from moldau.storage.storage_faults import StorageFault
from tests.support.at_once import AtOnce
from tests.support.logs import SmallSettings, batch
from tests.support.virtual_time import ManualClock

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
TOPIC_ID = bytes(range(16))


@dataclass
class StoreBench:
    root: Path
    names: tuple[str, ...] = ("a",)
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_700_000_000_000))
    settings: SmallSettings = field(default_factory=SmallSettings)
    node_id: int = 1
    opened: list[LogStore] = field(default_factory=list)

    def open(
        self, cluster_id: str | None = CLUSTER, loading_threads: Threads | None = None
    ) -> LogStore:
        store = LogStore(
            [str(self.root / name) for name in self.names],
            node_id=self.node_id,
            settings_for=lambda topic: self.settings,
            clock=self.clock,
            threads=AtOnce(),
            loading_threads=loading_threads,
        )
        store.open(cluster_id)
        self.opened.append(store)
        return store

    def create(self, topic: str = "t", partition: int = 0) -> PartitionLog:
        return self.opened[-1].create(TopicPartition(topic, partition), TOPIC_ID, self.settings)

    def crash(self) -> None:
        """The process is gone, and with it its locks."""
        store = self.opened.pop()
        for directory in store.directories:
            directory.unlock()

    def close(self) -> None:
        self.opened.pop().close({})


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[StoreBench]:
    bench = StoreBench(tmp_path)
    yield bench
    while bench.opened:
        bench.crash()


def append(log: PartitionLog, count: int = 1, epoch: int = 0) -> None:
    buffer = bytearray(batch(count))
    log.append_as_leader(buffer, read_header(buffer), epoch)


def test_logs_are_there_again_after_a_clean_stop(bench: StoreBench, tmp_path: Path) -> None:
    bench.open()
    for partition in range(3):
        append(bench.create("t", partition), partition + 1)
    bench.close()
    assert (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    store = bench.open()
    assert store.was_clean
    assert {p.partition: log.offset_end for p, log in store.logs.items()} == {0: 1, 1: 2, 2: 3}
    assert all(log.topic_id == TOPIC_ID for log in store.logs.values())
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()


def test_logs_are_recovered_after_a_crash(
    bench: StoreBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.open()
    append(bench.create(), 5)
    bench.crash()
    with caplog.at_level(logging.INFO):
        store = bench.open()
    assert not store.was_clean
    assert store.logs[TopicPartition("t", 0)].offset_end == 5
    text = "\n".join(caplog.messages)
    assert "Recovering 1 logs from" in text
    assert "since no clean shutdown file was found" in text
    assert "Recovering unflushed segment 0. 0/1 recovered for t-0." in text
    assert "Loaded 1 logs in" in text


def test_a_crash_during_loading_counts_as_one(bench: StoreBench) -> None:
    bench.open()
    bench.create()
    bench.close()
    bench.open()
    bench.crash()
    assert not bench.open().was_clean


def test_a_new_directory_is_clean_and_gets_its_properties(
    bench: StoreBench, tmp_path: Path
) -> None:
    store = bench.open()
    assert store.was_clean
    lines = (tmp_path / "a" / "meta.properties").read_text().splitlines()
    assert lines[:2] == ["version=1", "node.id=1"]
    assert lines[2] == f"directory.id={store.directories[0].id}"
    assert lines[3] == f"cluster.id={CLUSTER}"


def test_the_cluster_id_may_come_later_and_is_remembered(bench: StoreBench) -> None:
    store = bench.open(None)
    assert store.cluster_id is None
    store.claim_cluster(CLUSTER)
    directory_id = store.directories[0].id
    bench.close()
    store = bench.open(None)
    assert store.cluster_id == CLUSTER
    assert store.directories[0].id == directory_id


def test_a_directory_of_another_node_or_cluster_is_refused(bench: StoreBench) -> None:
    bench.open()
    bench.close()
    with pytest.raises(StorageFault, match="belongs to cluster"):
        bench.open("bbbbbbbbbbbbbbbbbbbbbb")
    bench.node_id = 2
    with pytest.raises(StorageFault, match="belongs to node 1 and this is node 2"):
        bench.open()
    bench.node_id = 1
    bench.open()


def test_two_brokers_cannot_share_a_directory(bench: StoreBench, tmp_path: Path) -> None:
    bench.open()
    with pytest.raises(DirectoryInUse) as fault:
        bench.open()
    assert str(fault.value) == (
        f"Failed to acquire lock on file .lock in {tmp_path / 'a'}. A Kafka instance in another "
        "process or thread is using this directory."
    )


def test_new_logs_go_to_the_directory_with_the_fewest(bench: StoreBench, tmp_path: Path) -> None:
    bench.names = ("a", "b", "c")
    bench.open()
    for partition in range(6):
        bench.create("t", partition)
    found = [sorted(p.name for p in (tmp_path / name).iterdir() if p.is_dir()) for name in "abc"]
    assert found == [["t-0", "t-3"], ["t-1", "t-4"], ["t-2", "t-5"]]
    bench.opened[-1].delete(TopicPartition("t", 4))
    assert bench.create("u").directory == str(tmp_path / "b" / "u-0")


def test_a_directory_that_cannot_be_used_is_left_out_while_others_remain(
    bench: StoreBench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "b").write_text("a file in the way")
    bench.names = ("b", "a")
    store = bench.open()
    assert [directory.path for directory in store.online] == [str(tmp_path / "a")]
    assert f"cannot use log directory {tmp_path / 'b'}: not a directory" in caplog.text
    assert bench.create().directory == str(tmp_path / "a" / "t-0")
    bench.close()


def test_without_any_usable_directory_the_store_does_not_open(
    bench: StoreBench, tmp_path: Path
) -> None:
    (tmp_path / "b").write_text("a file in the way")
    bench.names = ("b",)
    with pytest.raises(StorageFault, match="not a directory"):
        bench.open()


def test_directories_that_are_no_logs_are_left_alone(bench: StoreBench, tmp_path: Path) -> None:
    for name in ("lost+found", "t-0.aa-future", "nodash", "-5", "t-x"):
        (tmp_path / "a" / name).mkdir(parents=True)
    store = bench.open()
    assert not store.logs
    assert (tmp_path / "a" / "lost+found").exists()


def test_creating_a_log_that_exists_returns_it(bench: StoreBench) -> None:
    store = bench.open()
    created = bench.create()
    assert bench.create() is created
    with pytest.raises(ApiError) as refused:
        store.create(TopicPartition("t", 0), bytes(range(1, 17)), bench.settings)
    assert refused.value.error == Error.INCONSISTENT_TOPIC_ID


def test_a_log_without_topic_id_takes_the_one_it_is_given(
    bench: StoreBench, tmp_path: Path
) -> None:
    bench.open()
    bench.create()
    bench.close()
    (tmp_path / "a" / "t-0" / "partition.metadata").unlink()
    store = bench.open()
    assert store.logs[TopicPartition("t", 0)].topic_id == NO_TOPIC_ID
    assert bench.create().topic_id == TOPIC_ID
    assert (tmp_path / "a" / "t-0" / "partition.metadata").exists()


def test_a_deleted_log_is_gone_at_once_and_its_files_later(
    bench: StoreBench, tmp_path: Path
) -> None:
    store = bench.open()
    log = bench.create()
    append(log)
    region = log.read(0, 1000, 1).region
    store.delete(TopicPartition("t", 0))
    assert store.get(TopicPartition("t", 0)) is None
    (left,) = [path for path in (tmp_path / "a").iterdir() if path.is_dir()]
    assert left.name.startswith("t-0.")
    assert left.name.endswith("-delete")
    with pytest.raises(StorageFault, match="was deleted"):
        append(log)
    bench.clock.now_ms += 59_999
    store.remove_deleted_files()
    assert left.exists()
    bench.clock.now_ms += 1
    store.remove_deleted_files()
    assert not left.exists()
    assert region is not None
    assert len(os.pread(region.file.fileno(), 1000, 0)) == region.size_bytes


def test_a_topic_can_be_made_anew_while_the_old_files_wait(bench: StoreBench) -> None:
    store = bench.open()
    append(bench.create(), 3)
    store.delete(TopicPartition("t", 0))
    assert bench.create().offset_end == 0


def test_directories_waiting_to_be_deleted_go_at_the_next_start(
    bench: StoreBench, tmp_path: Path
) -> None:
    store = bench.open()
    bench.create("x" * 249, 0)
    store.delete(TopicPartition("x" * 249, 0))
    bench.crash()
    store = bench.open()
    assert not store.logs
    assert not [path for path in (tmp_path / "a").iterdir() if path.is_dir()]


def test_checkpoints_say_recovery_points_log_starts_and_high_watermarks(
    bench: StoreBench, tmp_path: Path
) -> None:
    store = bench.open()
    log = bench.create()
    append(log, 10)
    bench.create("u")
    log.flush()
    log.advance_log_start(4)
    store.write_checkpoints({TopicPartition("t", 0): 7})
    directory = tmp_path / "a"
    assert (directory / "recovery-point-offset-checkpoint").read_text() == "0\n2\nt 0 10\nu 0 0\n"
    assert (directory / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 4\n"
    assert (directory / "replication-offset-checkpoint").read_text() == "0\n2\nt 0 7\nu 0 0\n"
    bench.crash()
    store = bench.open()
    found = store.logs[TopicPartition("t", 0)]
    # What recovery rebuilt has not been flushed: the segment counts as unflushed again.
    assert (found.log_start_offset, found.recovery_point) == (4, 0)
    assert store.high_watermarks == {TopicPartition("t", 0): 7, TopicPartition("u", 0): 0}


def test_a_checkpoint_is_written_only_when_it_changed(bench: StoreBench, tmp_path: Path) -> None:
    store = bench.open()
    bench.create()
    store.write_checkpoints({})
    path = tmp_path / "a" / "recovery-point-offset-checkpoint"
    before = path.stat().st_ino
    store.write_checkpoints({})
    assert path.stat().st_ino == before


def test_damaged_checkpoints_cost_time_but_no_records(bench: StoreBench, tmp_path: Path) -> None:
    bench.open()
    append(bench.create(), 3)
    bench.close()
    for path in (tmp_path / "a").glob("*-checkpoint"):
        path.write_text("0\n7\nnonsense")
    assert bench.open().logs[TopicPartition("t", 0)].offset_end == 3


def test_a_log_is_flushed_when_flush_ms_has_passed(bench: StoreBench) -> None:
    bench.settings = SmallSettings(flush_ms=1000)
    store = bench.open()
    log = bench.create()
    append(log, 3)
    store.flush_due()
    assert log.recovery_point == 0
    bench.clock.now_ms += 1000
    store.flush_due()
    assert log.recovery_point == 3


def test_closed_segments_are_flushed_after_a_roll(bench: StoreBench) -> None:
    bench.open()
    log = bench.create()
    append(log, 3)
    log.roll()
    assert log.recovery_point == 3


def test_retention_runs_over_all_logs_with_a_high_watermark(bench: StoreBench) -> None:
    bench.settings = SmallSettings(retention_ms=1000)
    store = bench.open()
    append(bench.create("t"), 2)
    append(bench.create("u"), 2)
    bench.clock.now_ms += 5000
    assert store.delete_old_segments(lambda p: 2 if p.topic == "t" else None) == 1
    assert store.logs[TopicPartition("t", 0)].log_start_offset == 2
    assert store.logs[TopicPartition("u", 0)].log_start_offset == 0


def test_silent_producers_are_forgotten(bench: StoreBench) -> None:
    store = bench.open()
    log = bench.create()
    buffer = bytearray(batch(producer_id=1, epoch=0, sequence=0))
    log.append_as_leader(buffer, read_header(buffer), 0)
    assert store.expire_producers() == 0
    bench.clock.now_ms += 86_400_000
    assert store.expire_producers() == 1


def test_a_directory_with_a_faulty_log_is_not_left_clean(bench: StoreBench, tmp_path: Path) -> None:
    bench.open()
    log = bench.create()
    append(log)
    log.fault = StorageFault("cannot write", "x")
    bench.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert bench.open().logs[TopicPartition("t", 0)].offset_end == 1


def test_a_topics_settings_are_what_a_log_needs() -> None:
    broker, _ = BrokerConfig.parse({})
    settings: LogSettings = TopicConfig.of(broker, {})
    assert settings.segment_bytes == 1 << 30
    assert "delete" in settings.cleanup_policy


# Threads


def test_works_are_done_in_order_and_reported_back() -> None:
    done: list[int] = []
    reported: list[int] = []
    thread = OneThread(lambda callback, outcome: callback(outcome))
    for number in range(50):
        thread.run(
            lambda number=number: done.append(number),  # type: ignore[misc]
            lambda outcome, number=number: reported.append(number),  # type: ignore[misc]
        )
    thread.stop()
    assert done == reported == list(range(50))


def test_a_thread_that_got_no_work_is_never_started() -> None:
    before = threading.active_count()
    thread = OneThread(lambda callback, outcome: callback(outcome))
    assert threading.active_count() == before
    thread.stop()


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_many_works_are_all_done(threads: int) -> None:
    done: list[int] = []
    run_each([lambda number=number: done.append(number) for number in range(40)], threads)  # type: ignore[misc]
    assert sorted(done) == list(range(40))


def test_many_logs_are_recovered_in_threads(bench: StoreBench) -> None:
    bench.open()
    for partition in range(100):
        append(bench.create("t", partition), partition % 7 + 1)
    bench.crash()
    store = bench.open()
    assert [log.offset_end for log in sorted_logs(store)] == [p % 7 + 1 for p in range(100)]
    bench.close()
    assert len(bench.open().logs) == 100


def sorted_logs(store: LogStore) -> list[PartitionLog]:
    return [store.logs[partition] for partition in sorted(store.logs)]


def test_a_disk_that_says_it_is_broken_takes_its_directory_offline(bench: StoreBench) -> None:
    bench.names = ("a", "b")
    store = bench.open()
    logs = [bench.create(partition=number) for number in range(4)]
    heard: list[tuple[str, int]] = []
    store.on_failure.append(lambda directory, lost: heard.append((directory.path, len(lost))))
    fault = StorageFault("cannot write", logs[0].directory, errno.EIO)
    store.suspect(logs[0], fault)
    store.suspect(logs[0], fault)
    failed = os.path.dirname(logs[0].directory)
    assert heard == [(failed, 2)]
    assert failed not in [directory.path for directory in store.online]
    lost = [log for log in logs if os.path.dirname(log.directory) == failed]
    assert all(log.fault is not None for log in lost)
    assert all(log.topic_partition not in store.logs for log in lost)
    assert os.path.dirname(bench.create("new").directory) != failed


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENOENT])
def test_a_fault_that_is_not_the_directorys_leaves_it_online(
    bench: StoreBench, number: int
) -> None:
    store = bench.open()
    log = bench.create()
    store.suspect(log, StorageFault("cannot write", log.directory, number))
    store.look_at_directories()
    assert store.online


def test_a_directory_that_went_away_is_noticed_without_being_used(bench: StoreBench) -> None:
    bench.names = ("a", "b")
    store = bench.open()
    for number in range(4):
        bench.create(partition=number)
    (bench.root / "a").rename(bench.root / "elsewhere")
    store.look_at_directories()
    (directory,) = store.online
    assert directory.path == str(bench.root / "b")
    assert len(store.logs) == 2
