"""`storage adopt` that is killed at any of its changes leaves logs that can be adopted again, and
none that a client could be the end of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.testing.broker_process import BrokerProcess
from tests.support.doomed_files import MAIN, doom
from tests.support.eventually import eventually
from tests.support.tracked_topic import SMALL, create, delete, produce, read

CHANGES = "open,write,pwrite,fsync,fdatasync,rename,replace"
RECORDS = range(500)


def abandoned(tmp_path: Path) -> BrokerProcess:
    """Logs and meta.properties as a stopped broker leaves them, without metadata of ours."""
    broker = BrokerProcess(tmp_path, overrides=SMALL)
    with broker:
        create(broker.bootstrap, "t")
        produce(broker.bootstrap, "t", RECORDS)
    (broker.data / "moldau.metadata").unlink()
    return broker


def adopt(broker: BrokerProcess, **environment: str) -> subprocess.CompletedProcess[str]:
    main = MAIN if environment else "moldau.main"
    return subprocess.run(
        [sys.executable, "-m", main, "storage", "adopt", "--log-dir", str(broker.data)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def is_killed(broker: BrokerProcess, number: int, calls: str = CHANGES) -> bool:
    """Kill at that change, and adopt again; False if there were not so many."""
    killed = adopt(broker, **doom(number, r"moldau\.metadata", calls))
    if killed.returncode == 0:
        return False
    assert killed.returncode == -9, killed.stderr
    again = adopt(broker)
    assert again.returncode == 0, f"after a kill at change {number}: {again.stderr}"
    return True


@pytest.mark.long
def test_an_adoption_that_was_killed_at_any_change_is_done_again(tmp_path: Path) -> None:
    broker = abandoned(tmp_path)
    number = 0
    while is_killed(broker, number):
        (broker.data / "moldau.metadata").unlink()
        number += 1
    assert number > 3
    with broker:
        assert read(broker.bootstrap, "t") == [str(value) for value in RECORDS]


def test_an_adoption_that_was_killed_before_its_rename_is_done_again(tmp_path: Path) -> None:
    broker = abandoned(tmp_path)
    assert is_killed(broker, 0, "rename")
    with broker:
        assert read(broker.bootstrap, "t") == [str(value) for value in RECORDS]


def test_a_client_after_a_killed_adoption_costs_no_record(tmp_path: Path) -> None:
    broker = abandoned(tmp_path)
    assert adopt(broker, **doom(3, r"moldau\.metadata", CHANGES)).returncode == -9
    broker.spawn()
    assert broker.wait() != 0
    eventually(lambda: "storage adopt" in broker.log_text)
    assert adopt(broker).returncode == 0
    with broker:
        assert read(broker.bootstrap, "t") == [str(value) for value in RECORDS]


def test_a_broker_does_not_start_on_logs_that_were_never_adopted(tmp_path: Path) -> None:
    broker = abandoned(tmp_path)
    broker.spawn()
    assert broker.wait() != 0
    eventually(lambda: "storage adopt" in broker.log_text)
    assert adopt(broker).returncode == 0
    with broker:
        assert read(broker.bootstrap, "t") == [str(value) for value in RECORDS]


def test_new_producers_are_not_taken_for_those_of_a_broker_that_was_killed(tmp_path: Path) -> None:
    """What they wrote last is in no snapshot, and what others wrote before them is gone."""
    broker = BrokerProcess(tmp_path, overrides=SMALL)
    for topic in ("t", "gone", "t"):
        # Each start gives out ids of another block.
        broker.start()
        create(broker.bootstrap, "gone")
        if not (broker.data / "t-0").exists():
            create(broker.bootstrap, "t")
        produce_idempotently(broker.bootstrap, topic, 0)
        delete(broker.bootstrap, "gone")
        broker.kill()
    (broker.data / "moldau.metadata").unlink()
    assert adopt(broker).returncode == 0
    with broker:
        for value in range(1, 4):
            produce_idempotently(broker.bootstrap, "t", value)
        assert read(broker.bootstrap, "t") == ["0", "0", "1", "2", "3"]


def produce_idempotently(bootstrap: str, topic: str, value: int) -> None:
    failures: list[object] = []
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True}
    producer = Producer(settings)
    producer.produce(topic, b"%d" % value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None]
