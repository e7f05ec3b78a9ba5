"""Backup and restore of a broker by the commands, on real processes."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

import moldau.testing
from moldau import ConsumerRecord
from moldau.admin import ConfigResource, NewTopic, TopicPartition
from moldau.backup.batch_files import Reading
from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.own.restores_admin import TopicToRestore
from moldau.testing.broker_process import BrokerProcess
from moldau.testing.local_broker import LocalBroker
from tests.support import seeds
from tests.support.backups import (
    back_up,
    files_of,
    flip_a_byte,
    restore,
    restore_whole,
    run_script,
)
from tests.support.backups import (
    moldau as command,
)
from tests.support.eventually import eventually
from tests.support.fork_load import TOPICS, TransactionalLoad, check_fork
from tests.support.tracked_topic import create, delete, produce, read

SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "50",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with moldau.testing.broker(SETTINGS, with_faults=False) as broker:
        yield broker


@pytest.fixture
def target() -> Iterator[LocalBroker]:
    with moldau.testing.broker(SETTINGS, with_faults=False) as target:
        yield target


async def begin(bootstrap: str, topic: str) -> None:
    """A restore that nobody goes on with."""
    admin = AdminCore(bootstrap_servers=bootstrap)
    try:
        await admin.begin_restore([TopicToRestore(topic, [0])])
    finally:
        await admin.close()


def texts(numbers: range) -> list[str]:
    return [str(number) for number in numbers]


def test_in_a_restored_backup_every_transaction_is_whole_or_absent(
    broker: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    chance = random.Random(seeds.fresh())
    with TransactionalLoad(broker.bootstrap, "torn") as load:
        for _ in range(3):
            load.wait_for_more(chance.randrange(1, 30))
            before = load.acknowledged
            said = back_up(broker.bootstrap, tmp_path, "--topics-regex", "torn-.*", "--json")
            after = load.begun
            assert json.loads(said)["exact"] is True
    restore_whole(target.bootstrap, tmp_path)
    check_fork(target.bootstrap, load, before, after)
    target.kill()
    target.restart()
    check_fork(target.bootstrap, load, before, after)


def test_a_backup_goes_on_where_it_ended_and_copies_nothing_twice(
    broker: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    topic = ("--topics", "grows", "--json")
    produce(broker.bootstrap, "grows", range(1000))
    assert json.loads(back_up(broker.bootstrap, tmp_path, *topic))["newRecords"] >= 1000
    assert json.loads(back_up(broker.bootstrap, tmp_path, *topic))["newRecords"] == 0
    produce(broker.bootstrap, "grows", range(1000, 1100))
    # A run that was cut off has left whole files without a moment, and a torn one.
    back_up(broker.bootstrap, tmp_path, *topic)
    (tmp_path / "moments" / "00000003.json").unlink()
    torn = files_of(tmp_path)[-1].parent / "00000000000000001100.partial"
    torn.write_bytes(b"half")
    assert json.loads(back_up(broker.bootstrap, tmp_path, *topic))["newRecords"] == 100
    assert not torn.exists()
    assert command("backup", "verify", str(tmp_path)).returncode == 0
    restore_whole(target.bootstrap, tmp_path)
    assert read(target.bootstrap, "grows") == texts(range(1100))


def test_settings_ids_and_partitions_come_back_and_other_names_get_other_ids(
    broker: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    create(broker.bootstrap, "set", partitions=3, **{"max.message.bytes": "2000000"})
    produce(broker.bootstrap, "set", range(100))
    back_up(broker.bootstrap, tmp_path, "--topics", "set")
    original = broker.admin().describe_topics(["set"])["set"]
    restore_whole(target.bootstrap, tmp_path)
    restore_whole(target.bootstrap, tmp_path, "--rename", "set=set-again")
    admin = target.admin()
    found = admin.describe_topics(["set", "set-again"])
    assert found["set"].topic_id == original.topic_id
    assert found["set-again"].topic_id not in (original.topic_id, bytes(16))
    assert [len(found[name].partitions) for name in found] == [3, 3]
    resource = ConfigResource.topic("set-again")
    settings = admin.describe_configs([resource])[resource]
    assert settings["max.message.bytes"].value == "2000000"
    again = restore(target.bootstrap, tmp_path)
    assert again.returncode == 1
    assert "Topic 'set' already exists." in again.stderr


def test_an_idempotent_producer_goes_on_after_a_restore(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with BrokerProcess(tmp_path / "first") as first:
        create(first.bootstrap, "numbers")
        producer = Producer(
            {
                "bootstrap.servers": first.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        failures: list[object] = []
        heard = lambda error, _: failures.append(error) if error else None  # noqa: E731
        for number in range(500):
            producer.produce("numbers", str(number), on_delivery=heard)
        assert producer.flush(60) == 0
        back_up(first.bootstrap, backup)
        first.kill()
        port = first.port
    shutil.rmtree(tmp_path / "first")
    # The producer still asks for its topic, and must not have it made anew before the restore.
    alone = {"auto.create.topics.enable": "false"}
    with BrokerProcess(tmp_path / "second", port=port, overrides=alone) as second:
        restore_whole(second.bootstrap, backup)
        for number in range(500, 1000):
            producer.produce("numbers", str(number), on_delivery=heard)
        assert producer.flush(60) == 0
        assert not failures
        assert read(second.bootstrap, "numbers") == texts(range(1000))
        fresh = Producer({"bootstrap.servers": second.bootstrap, "enable.idempotence": True})
        fresh.produce("numbers", "1000")
        assert fresh.flush(60) == 0, "an id that is in the restored log was given away again"
        assert read(second.bootstrap, "numbers")[-1] == "1000"


def test_a_flipped_byte_or_a_missing_file_is_named_and_nothing_half_is_restored(
    broker: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    chance = random.Random(seeds.fresh())
    good = tmp_path / "good"
    produce(broker.bootstrap, "precious", range(5000), size=200)
    produce(broker.bootstrap, "other", range(10))
    back_up(broker.bootstrap, good, "--topics", "precious,other")
    for number in range(3):
        bad = tmp_path / f"bad-{number}"
        shutil.copytree(good, bad)
        path = next(each for each in files_of(bad) if "precious" in str(each))
        if number:
            at = flip_a_byte(path, chance)
        else:
            path.unlink()
            at = -1
        found = command("backup", "verify", str(bad))
        assert found.returncode == 3, f"byte {at}"
        assert path.name in found.stdout
        refused = restore(target.bootstrap, bad)
        assert refused.returncode == 1, f"byte {at}"
        assert path.name in refused.stderr
        assert set(target.admin().list_topics()) == set(), "nothing half"
    bad = tmp_path / "bad-moment"
    shutil.copytree(good, bad)
    flip_a_byte(bad / "moments" / "00000001.json", chance)
    assert command("backup", "verify", str(bad)).returncode == 3
    assert "00000001.json" in restore(target.bootstrap, bad).stderr
    restore_whole(target.bootstrap, good)


def test_a_restore_that_is_cut_off_leaves_nothing(
    broker: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    produce(broker.bootstrap, "cut-off", range(100))
    back_up(broker.bootstrap, tmp_path, "--topics", "cut-off")
    for _ in range(2):
        asyncio.run(begin(target.bootstrap, "cut-off"))
        assert "cut-off" not in target.admin().list_topics()
        assert list(target.data.glob("cut-off-0.*-delete"))
        target.kill()
        target.restart()
        assert "cut-off" not in target.admin().list_topics()
    restore_whole(target.bootstrap, tmp_path)
    assert read(target.bootstrap, "cut-off") == texts(range(100))


def test_gaps_of_compaction_and_every_codec_come_back_as_they_were(
    broker: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    often = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    wanted = NewTopic("gaps", 1, configs={"cleanup.policy": "compact", **often})
    broker.admin().create_topics([wanted])
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec})
        for number in range(200):
            producer.produce("gaps", b"%d" % number, key=b"%d" % (number % 50))
        assert producer.flush(60) == 0
        time.sleep(0.15)
    eventually(lambda: len(read(broker.bootstrap, "gaps")) < 900)
    back_up(broker.bootstrap, tmp_path, "--topics", "gaps")
    restore_whole(target.bootstrap, tmp_path, "--topic-config", "cleanup.policy=delete")
    values = read(target.bootstrap, "gaps")
    assert len(values) < 900 and values[-1] == "199"
    again = tmp_path / "again"
    back_up(target.bootstrap, again, "--topics", "gaps")
    assert content_of(again) == content_of(tmp_path)


def content_of(backup: Path) -> bytes:
    """The batches of the one topic that is not internal."""
    paths = [path for path in files_of(backup) if "/__" not in str(path)]
    return b"".join(bytes(chunk) for path in paths for chunk in Reading(str(path)).chunks())


# The drills: what people need backups for


def test_drill_a_wrong_retention_has_deleted_records(broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.bootstrap, "kept")
    produce(broker.bootstrap, "kept", range(3000), size=1000)
    back_up(broker.bootstrap, tmp_path, "--topics", "kept")
    admin, resource = broker.admin(), ConfigResource.topic("kept")
    admin.incremental_alter_configs({resource: {"retention.ms": "1"}})
    deadline = time.monotonic() + 30
    while read(broker.bootstrap, "kept"):
        assert time.monotonic() < deadline, "retention has deleted nothing"
        time.sleep(0.1)
    back_up(broker.bootstrap, tmp_path, "--topics", "kept")
    delete(broker.bootstrap, "kept")
    restore_whole(broker.bootstrap, tmp_path, "--topic-config", "retention.ms=604800000")
    assert read(broker.bootstrap, "kept") == texts(range(3000))


def test_drill_a_deleted_topic_comes_back_with_its_groups(
    broker: LocalBroker, tmp_path: Path
) -> None:
    produce(broker.bootstrap, "lost", range(100))
    place = TopicPartition("lost", 0)
    broker.admin().alter_group_offsets("readers", {place: 60})
    back_up(broker.bootstrap, tmp_path, "--topics", "lost")
    delete(broker.bootstrap, "lost")
    restore_whole(broker.bootstrap, tmp_path)
    assert read(broker.bootstrap, "lost") == texts(range(100))
    committed = broker.admin().list_group_offsets(["readers"])["readers"][place]
    assert committed is not None and committed.offset == 60
    with broker.consumer(group_id="readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["lost"])
        records: list[ConsumerRecord] = []
        deadline = time.monotonic() + 30
        while len(records) < 40 and time.monotonic() < deadline:
            records += consumer.poll(1)
    assert [int(record.value) for record in records] == list(range(60, 100))


def test_drill_a_deleted_cluster_comes_back(target: LocalBroker, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with BrokerProcess(tmp_path / "gone") as gone:
        for name in ("one", "two"):
            produce(gone.bootstrap, name, range(500), size=100)
        back_up(gone.bootstrap, backup)
        gone.kill()
    shutil.rmtree(tmp_path / "gone")
    restore_whole(target.bootstrap, backup)
    assert [read(target.bootstrap, name) for name in ("one", "two")] == [texts(range(500))] * 2


def test_drill_a_bug_has_written_bad_records_since_a_known_time(
    broker: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    admin = broker.admin()
    admin.create_topics([NewTopic("good", 1)])
    place = TopicPartition("good", 0)
    begun = time.time_ns() // 1_000_000 - 60_000
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 200})
    # One batch has records from before and after the time.
    for number in range(100):
        producer.produce("good", str(number), timestamp=begun + number)
    assert producer.flush(60) == 0
    admin.alter_group_offsets("users-of-good", {place: 100})
    back_up(broker.bootstrap, tmp_path, "--topics", "good")
    restore_whole(target.bootstrap, tmp_path, "--until", str(begun + 42), "--rename", "good=before")
    assert read(target.bootstrap, "before") == texts(range(42))
    restore_whole(target.bootstrap, tmp_path)
    vector = tmp_path / "vector.json"
    vector.write_text(json.dumps({"good": {"0": 17}}))
    restore_whole(target.bootstrap, tmp_path, "--as-of", str(vector), "--rename", "good=exactly")
    assert read(target.bootstrap, "exactly") == texts(range(17))
    moved = target.admin().list_group_offsets(["users-of-good"])["users-of-good"]
    assert {found.topic: row.offset for found, row in moved.items() if row is not None} == {
        "good": 100,
        "exactly": 17,
    }
    produce(target.bootstrap, "before", range(42, 50))
    assert read(target.bootstrap, "before") == texts(range(50))


# Names and ways of other tools


def test_the_scripts_take_flags_and_variables(
    broker: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    produce(broker.bootstrap, "topic1", range(10))
    produce(broker.bootstrap, "topic2", range(20))
    backup = tmp_path / "dir"
    run_script(
        "backup-standalone.sh",
        *("--bootstrap-server", broker.bootstrap, "--target-dir", str(backup)),
        *("--topics", "topic1,topic2", "--max-segment-size", "1000000", "--snapshot"),
    )
    produce(broker.bootstrap, "topic2", range(20, 25))
    variables = {
        "BOOTSTRAP_SERVER": broker.bootstrap,
        "TARGET_DIR": str(backup),
        "TOPICS_REGEX": "topic[12]",
        "SNAPSHOT": "true",
    }
    run_script("backup-standalone.sh", env=variables)
    # The second spelling of where the backup is.
    run_script(
        "restore-standalone.sh",
        *("--bootstrap-server", target.bootstrap, "--target-dir", str(backup)),
        env={"TOPICS": "topic1,topic2"},
    )
    assert read(target.bootstrap, "topic1") == texts(range(10))
    assert read(target.bootstrap, "topic2") == texts(range(25))


def test_a_directory_packed_by_tar_while_the_broker_is_stopped_is_a_backup(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "kafka") as first:
        produce(first.bootstrap, "BackupTopic", range(1), prefix="Test Message ")
        assert first.stop() == 0
    archive = tmp_path / "kafka-backup.tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", tmp_path, "kafka/data"], check=True)
    shutil.rmtree(tmp_path / "kafka")
    again = tmp_path / "again" / "data"
    again.mkdir(parents=True)
    unpack = ("tar", "-xzf", str(archive), "-C", str(again), "--strip-components", "2")
    subprocess.run(unpack, check=True)
    with BrokerProcess(tmp_path / "again") as second:
        assert read(second.bootstrap, "BackupTopic") == ["Test"]


def test_parquet_has_the_committed_records(broker: LocalBroker, tmp_path: Path) -> None:
    from pyarrow import parquet

    with TransactionalLoad(broker.bootstrap, "table") as load:
        load.wait_for_more(12)
        back_up(broker.bootstrap, tmp_path / "backup", "--topics", load.topic(TOPICS[0]))
    done = command("backup", "parquet", str(tmp_path / "backup"), "--to", str(tmp_path / "lake"))
    assert done.returncode == 0, done.stderr
    rows = parquet.read_table(tmp_path / "lake" / load.topic(TOPICS[0])).to_pylist()
    assert [row["value"] for row in rows] == [b"%d" % number for number in range(len(rows))]
    assert len(rows) >= 12
    assert [row["offset"] for row in rows] != list(range(len(rows))), "there are markers between"


def test_a_backup_without_an_end_goes_on_until_it_is_killed(
    broker: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    produce(broker.bootstrap, "goes-on", range(10))
    words = ("--bootstrap-server", broker.bootstrap, "--target-dir", str(tmp_path))
    chosen = ("--topics", "goes-on", "--interval", "1")
    with subprocess.Popen(
        [sys.executable, "-m", "moldau.main", "backup", *words, *chosen],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert "Moment 1," in process.stdout.readline()
            produce(broker.bootstrap, "goes-on", range(10, 20))
            line = process.stdout.readline()
            while "10 new records" not in line:
                assert line.startswith("Moment "), line
                line = process.stdout.readline()
        finally:
            process.kill()
    restore_whole(target.bootstrap, tmp_path)
    assert read(target.bootstrap, "goes-on") == texts(range(20))


def test_quotas_come_back_where_they_are_asked_for(
    broker: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    entity = (("user", "alice"),)
    broker.admin().alter_client_quotas({entity: {"producer_byte_rate": 1e6}})
    produce(broker.bootstrap, "limited", range(1))
    back_up(broker.bootstrap, tmp_path, "--topics", "limited")
    restore_whole(target.bootstrap, tmp_path)
    assert target.admin().describe_client_quotas() == {}
    restore_whole(target.bootstrap, tmp_path, "--rename", "limited=again", "--with-access")
    assert target.admin().describe_client_quotas() == {entity: {"producer_byte_rate": 1e6}}
