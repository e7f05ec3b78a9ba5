"""The backup killed by kill -9 at random points: run again it is whole, and has nothing twice. The
target killed in a restore: it has all of it or nothing."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

import moldau.testing
from moldau.testing.broker_process import BrokerProcess
from moldau.testing.local_broker import LocalBroker
from tests.support import seeds, tracked_topic
from tests.support.backups import back_up, files_of, restore, restore_whole
from tests.support.backups import moldau as command
from tests.support.doomed_files import MAIN, doom
from tests.support.fork_load import TransactionalLoad, check_fork
from tests.support.tracked_topic import create, read


def kill_at_random(bootstrap: str, directory: Path, chance: random.Random) -> bool:
    """Some files after it began, and a moment later. Whether it was still running."""
    words = ("backup", "--bootstrap-server", bootstrap, "--target-dir", str(directory))
    # Small files: many of them are complete when the end comes.
    small = ("--snapshot", "--max-segment-size", "200000")
    wanted = len(files_of(directory)) + chance.randrange(12)
    process = subprocess.Popen(
        [sys.executable, "-m", "moldau.main", *words, *small],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while len(files_of(directory)) < wanted and process.poll() is None:
        assert time.monotonic() < deadline, "the backup has written nothing"
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.05))
    was_running = process.poll() is None
    process.kill()
    process.wait()
    return was_running


def produce_noise(bootstrap: str, values: range, chance: random.Random) -> None:
    """Records that do not get smaller."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce("large", b"%d " % value + chance.randbytes(1000), partition=value % 4)
        producer.poll(0)
    assert producer.flush(60) == 0


def check_killed(broker: LocalBroker, directory: Path, count: int) -> None:
    chance = random.Random(seeds.fresh())
    bootstrap, backup = broker.bootstrap, directory / "backup"
    create(bootstrap, "large", partitions=4)
    produce_noise(bootstrap, range(20_000), chance)
    killed = 0
    with TransactionalLoad(bootstrap, "killed") as load:
        load.wait_for_more(10)
        for _ in range(count):
            killed += kill_at_random(bootstrap, backup, chance)
            produce_noise(bootstrap, range(2000), chance)
        load.wait_for_more(10)
        before = load.acknowledged
        said = json.loads(back_up(bootstrap, backup, "--json"))
        after = load.begun
    assert killed > count / 2, "most runs were over before their end came"
    assert said["exact"] is True
    assert command("backup", "verify", str(backup)).returncode == 0
    spans = [path.name.removesuffix(".batches").split("-") for path in files_of(backup)]
    assert len(spans) > 2 * count, "no file was complete before an end"
    with moldau.testing.broker(with_faults=False) as target:
        restore_whole(target.bootstrap, backup)
        check_fork(target.bootstrap, load, before, after)
        for partition in range(4):
            assert read(target.bootstrap, "large", partition) == read(bootstrap, "large", partition)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_backup_that_was_killed_twenty_times_goes_on_without_doubles(tmp_path: Path) -> None:
    with moldau.testing.broker(with_faults=False) as broker:
        check_killed(broker, tmp_path, 20)


def check_dying_restore(backup: Path, directory: Path, number: int) -> bool:
    """The target killed right before its file change of that number; whether it came so far."""
    armed = directory / "armed"
    changes = r"(doomed-|moldau\.metadata)"
    dying = BrokerProcess(
        directory,
        main=MAIN,
        environment=doom(number, changes, "mkdir,rename,replace,fsync", armed),
    )
    dying.start()
    armed.touch()
    done = restore(dying.bootstrap, backup)
    is_killed = done.returncode == 1
    if is_killed:
        dying.wait()
    else:
        dying.kill()
    with BrokerProcess(directory) as target:
        admin = moldau.Admin(bootstrap_servers=target.bootstrap)
        with admin:
            there = sorted(admin.list_topics())
        assert there in ([], ["doomed-a", "doomed-b"]), f"half of it, at change {number}"
        if not there:
            restore_whole(target.bootstrap, backup)
        for name in ("doomed-a", "doomed-b"):
            assert read(target.bootstrap, name) == [str(value) for value in range(300)]
        left = {path.name for path in target.data.iterdir() if path.name.startswith("doomed")}
        wanted = {"doomed-a-0", "doomed-b-0"}
        assert all(name.endswith("-stray") for name in left - wanted), left
        assert wanted <= left
    return is_killed


def doomed_backup(directory: Path) -> Path:
    with moldau.testing.broker(with_faults=False) as broker:
        for name in ("doomed-a", "doomed-b"):
            tracked_topic.produce(broker.bootstrap, name, range(300))
        back_up(broker.bootstrap, directory / "backup")
    return directory / "backup"


def test_a_broker_that_dies_in_a_restore_has_all_of_it_or_nothing(tmp_path: Path) -> None:
    backup = doomed_backup(tmp_path)
    chance = random.Random(seeds.fresh())
    assert check_dying_restore(backup, tmp_path / "broker", chance.randrange(20))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_broker_that_dies_at_any_change_of_a_restore_has_all_of_it_or_nothing(
    tmp_path: Path,
) -> None:
    backup = doomed_backup(tmp_path)
    number = 0
    while check_dying_restore(backup, tmp_path / f"broker-{number}", number):
        number += 1
    assert number > 20
