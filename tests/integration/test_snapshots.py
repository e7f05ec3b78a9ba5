"""Snapshots of a running broker, and forks of them, on real processes."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import moldau
import moldau.testing
from moldau.admin import Admin
from moldau.errors import KafkaError
from moldau.testing.broker_process import BrokerProcess
from moldau.testing.forks import fork
from moldau.testing.local_broker import LocalBroker
from tests.support import seeds
from tests.support.doomed_files import MAIN, doom
from tests.support.eventually import eventually
from tests.support.fork_load import TransactionalLoad, check_fork
from tests.support.tracked_topic import SMALL, create, delete, delete_records, produce, read

SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with moldau.testing.broker(SETTINGS, with_faults=False) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: LocalBroker) -> Admin:
    return broker.admin()


def snapshot_path(broker: LocalBroker | BrokerProcess, name: str) -> Path:
    return broker.data.parent / f"{broker.data.name}-snapshots" / name


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "moldau.main", *words], capture_output=True, text=True, timeout=120
    )


def verified(path: Path) -> subprocess.CompletedProcess[str]:
    data = str(path.parent).removesuffix("-snapshots")
    return command("snapshot", "verify", "--log-dir", data, "--name", path.name)


def check_forks_under_load(broker: LocalBroker, count: int) -> None:
    """Snapshots at random moments: in each fork every transaction is whole or absent."""
    chance = random.Random(seeds.fresh())
    admin = broker.admin()
    with TransactionalLoad(broker.bootstrap, f"load-{count}") as load:
        for number in range(count):
            load.wait_for_more(chance.randrange(1, 30))
            before = load.acknowledged
            admin.create_snapshot(f"moment-{number}")
            after = load.begun
            with fork(snapshot_path(broker, f"moment-{number}"), with_faults=False) as forked:
                check_fork(forked.bootstrap, load, before, after)
    for number in range(count):
        admin.delete_snapshot(f"moment-{number}")


def test_in_a_fork_every_transaction_is_whole_or_absent(broker: LocalBroker) -> None:
    check_forks_under_load(broker, 3)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_in_thirty_forks_every_transaction_is_whole_or_absent(broker: LocalBroker) -> None:
    check_forks_under_load(broker, 30)


def test_a_fork_and_its_original_go_their_own_ways(broker: LocalBroker, admin: Admin) -> None:
    produce(broker.bootstrap, "ways", range(3000), size=1000)
    admin.create_snapshot("ways")
    produce(broker.bootstrap, "ways", range(3000, 3010))
    with fork(snapshot_path(broker, "ways"), with_faults=False) as first:
        assert read(first.bootstrap, "ways") == [str(value) for value in range(3000)]
        produce(first.bootstrap, "ways", range(9000, 9010))
        first.restart()
        expected = [str(value) for value in (*range(3000), *range(9000, 9010))]
        assert read(first.bootstrap, "ways") == expected
        first.kill()
        first.restart()
        assert read(first.bootstrap, "ways") == expected
        assert first.admin().describe_cluster().cluster_id != admin.describe_cluster().cluster_id
        with first.admin() as of_fork:
            of_fork.delete_topics(["ways"])
    assert read(broker.bootstrap, "ways") == [str(value) for value in range(3010)]
    delete(broker.bootstrap, "ways")
    assert verified(snapshot_path(broker, "ways")).returncode == 0
    with fork(snapshot_path(broker, "ways"), with_faults=False) as second:
        assert read(second.bootstrap, "ways") == [str(value) for value in range(3000)]
    admin.delete_snapshot("ways")
    assert not snapshot_path(broker, "ways").exists()


def test_what_comes_first_to_an_empty_topic_is_not_in_a_snapshot_made_before(
    broker: LocalBroker, admin: Admin
) -> None:
    create(broker.bootstrap, "late")
    admin.create_snapshot("early")
    produce(broker.bootstrap, "late", range(20))
    assert verified(snapshot_path(broker, "early")).returncode == 0
    with fork(snapshot_path(broker, "early"), with_faults=False) as forked:
        assert read(forked.bootstrap, "late") == []
        produce(forked.bootstrap, "late", range(100, 103))
        assert read(forked.bootstrap, "late") == ["100", "101", "102"]
    assert read(broker.bootstrap, "late") == [str(value) for value in range(20)]
    assert verified(snapshot_path(broker, "early")).returncode == 0
    admin.delete_snapshot("early")


def test_records_deleted_from_a_log_at_rest_do_not_come_back_in_a_fork(tmp_path: Path) -> None:
    # Nothing looks at the logs after the start, so that this one stays at rest.
    quiet = {"log.initial.task.delay.ms": "600000"}
    with BrokerProcess(tmp_path, overrides={**SMALL, **SETTINGS, **quiet}) as broker:
        create(broker.bootstrap, "front")
        produce(broker.bootstrap, "front", range(3000), size=1000)
        delete_records(broker.bootstrap, "front", 500)
        broker.stop()
        broker.start()
        with moldau.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_snapshot("rested")
        with fork(snapshot_path(broker, "rested"), with_faults=False) as forked:
            assert read(forked.bootstrap, "front")[0] == "500"


def test_retention_compaction_and_deletion_take_nothing_out_of_a_snapshot(
    broker: LocalBroker, admin: Admin
) -> None:
    small = {"retention.bytes": "1048576", "segment.bytes": "1048576"}
    create(broker.bootstrap, "expiring", **small)
    create(broker.bootstrap, "compacted", **{"cleanup.policy": "compact", "segment.ms": "100"})
    produce(broker.bootstrap, "expiring", range(900), size=1000)
    with broker.producer() as producer:
        for value in range(200):
            producer.send("compacted", b"%d" % value, key=b"%d" % (value % 7))
    admin.create_snapshot("kept")
    before = read(broker.bootstrap, "compacted")
    produce(broker.bootstrap, "expiring", range(900, 4000), size=1000)
    with broker.producer() as producer:
        for value in range(200, 400):
            producer.send("compacted", b"%d" % value, key=b"%d" % (value % 7))
    eventually(lambda: read(broker.bootstrap, "expiring")[0] != "0")
    assert verified(snapshot_path(broker, "kept")).stdout.endswith(
        "nothing is missing or damaged.\n"
    )
    with fork(
        snapshot_path(broker, "kept"), {"log.cleaner.enable": "false"}, with_faults=False
    ) as forked:
        words = read(forked.bootstrap, "expiring")
        assert words[-1] == "899"
        assert set(before) <= set(read(forked.bootstrap, "compacted"))
    admin.delete_snapshot("kept")


def test_groups_settings_and_producers_are_as_they_were(broker: LocalBroker, admin: Admin) -> None:
    create(broker.bootstrap, "whole", partitions=2, **{"max.message.bytes": "54321"})
    produce(broker.bootstrap, "whole", range(100))
    with broker.consumer("whole", **{"group.id": "readers"}) as consumer:
        taken = list(itertools.islice(consumer, 40))
        consumer.commit()
    offsets = admin.list_group_offsets("readers")
    admin.create_snapshot("whole")
    with (
        fork(snapshot_path(broker, "whole"), with_faults=False) as forked,
        forked.admin() as of_fork,
    ):
        assert of_fork.list_group_offsets("readers") == offsets
        with forked.consumer("whole", **{"group.id": "readers"}) as consumer:
            rest = list(itertools.islice(consumer, 60))
        assert sorted(int(r.value) for r in (*taken, *rest)) == list(range(100))
        described = of_fork.describe_topics(["whole"])["whole"]
        assert described.topic_id == admin.describe_topics(["whole"])["whole"].topic_id
        from moldau.admin import ConfigResource, ResourceType

        resource = ConfigResource(ResourceType.TOPIC, "whole")
        assert of_fork.describe_configs([resource])[resource]["max.message.bytes"].value == "54321"
    admin.delete_snapshot("whole")


def test_damage_is_named(broker: LocalBroker, admin: Admin) -> None:
    produce(broker.bootstrap, "damaged", range(500), size=1000)
    admin.create_snapshot("damaged")
    segment = snapshot_path(broker, "damaged") / "data" / "damaged-0" / f"{0:020d}.log"
    # The file is the broker's too: the damage is done to a copy.
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.unlink()
    segment.write_bytes(content)
    told = verified(snapshot_path(broker, "damaged"))
    assert told.returncode == 3
    assert f"{segment} is damaged at bytes" in told.stdout
    segment.unlink()
    told = verified(snapshot_path(broker, "damaged"))
    assert told.returncode == 3
    assert f"{segment} is missing" in told.stdout
    checkpoint = segment.parent.parent / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n0\n\n")
    assert f"{checkpoint} is not what was written" in verified(segment.parents[2]).stdout
    admin.delete_snapshot("damaged")


def test_what_cannot_be_is_refused_in_one_sentence(broker: LocalBroker, admin: Admin) -> None:
    for name in ("", "../up", "a" * 101, ".hidden", "x.partial"):
        with pytest.raises(KafkaError, match="a snapshot cannot be called"):
            admin.create_snapshot(name)
    admin.create_snapshot("once")
    with pytest.raises(KafkaError, match="there is a snapshot once already"):
        admin.create_snapshot("once")
    with pytest.raises(KafkaError, match="there is no snapshot other"):
        admin.delete_snapshot("other")
    admin.delete_snapshot("once")
    assert admin.describe_snapshots() == []


def test_the_command_forks_a_running_broker_and_keeps_no_snapshot(
    broker: LocalBroker, admin: Admin, tmp_path: Path
) -> None:
    produce(broker.bootstrap, "forked", range(50))
    target = str(tmp_path / "fork")
    words = ("fork", "--bootstrap-server", broker.bootstrap, "--dir", target, "--json")
    done = command(*words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    try:
        assert read(told["bootstrap"], "forked") == [str(value) for value in range(50)]
        assert admin.describe_snapshots() == []
        again = command(*words)
        assert again.returncode == 1
        assert "is not empty" in json.loads(again.stdout)["error"]["message"]
        assert f"{target} is not empty" in again.stderr
    finally:
        os.kill(told["pid"], 15)


@pytest.mark.parametrize("number", [0, 3, 9, 14])
def test_a_kill_while_a_snapshot_is_made_leaves_nothing_of_it(tmp_path: Path, number: int) -> None:
    armed = tmp_path / "armed"
    dying = BrokerProcess(
        tmp_path,
        overrides={**SMALL, **SETTINGS},
        main=MAIN,
        environment=doom(number, r"\.partial", "link,mkdir,rename,replace,fsync", armed),
    )
    dying.start()
    create(dying.bootstrap, "t")
    produce(dying.bootstrap, "t", range(200))
    admin = moldau.Admin(bootstrap_servers=dying.bootstrap)
    armed.touch()
    asking = threading.Thread(target=_ask, args=(admin,))
    asking.start()
    dying.wait()
    asking.join()
    admin.close()
    root = snapshot_path(dying, "doomed").parent
    with BrokerProcess(tmp_path, overrides={**SMALL, **SETTINGS}) as broker:
        assert os.listdir(root) == []
        assert read(broker.bootstrap, "t") == [str(value) for value in range(200)]
        with moldau.Admin(bootstrap_servers=broker.bootstrap) as again:
            again.create_snapshot("doomed")
        assert verified(snapshot_path(broker, "doomed")).returncode == 0


def _ask(admin: Admin) -> None:
    with pytest.raises(KafkaError):
        admin.create_snapshot("doomed", timeout=20)
