"""A topic that is deleted and made anew under its name begins with nothing of the old one, and
loses nothing by what the old one has left behind, whenever the broker is killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.testing.broker_process import BrokerProcess
from tests.support.doomed_files import MAIN, doom
from tests.support.tracked_topic import SMALL, create, delete, delete_records, produce, read


def words(values: range) -> list[str]:
    return [str(value) for value in values]


def test_records_of_a_topic_made_anew_survive_a_kill(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, overrides=SMALL)
    with broker:
        create(broker.bootstrap, "t")
        produce(broker.bootstrap, "t", range(1000))
        delete_records(broker.bootstrap, "t", 900)
    broker.start()
    try:
        delete(broker.bootstrap, "t")
        create(broker.bootstrap, "t")
        produce(broker.bootstrap, "t", range(500))
        broker.kill()
        broker.start()
        assert read(broker.bootstrap, "t") == words(range(500))
    finally:
        broker.kill()


def test_a_topic_whose_deletion_was_cut_short_by_a_kill_does_not_come_back_in_its_successor(
    tmp_path: Path,
) -> None:
    armed = tmp_path / "armed"
    # The topic is gone from the metadata; the broker dies before it renames the log.
    dying = BrokerProcess(
        tmp_path,
        overrides=SMALL,
        main=MAIN,
        environment=doom(0, r"/t-0$", "rename", armed),
    )
    dying.start()
    produce(dying.bootstrap, "t", range(100), prefix="old")
    armed.touch()
    with pytest.raises(Exception):  # noqa: B017 - whatever the client makes of a broker that died
        delete(dying.bootstrap, "t")
    dying.wait()
    assert (dying.data / "t-0").is_dir()
    with BrokerProcess(tmp_path, overrides=SMALL) as broker:
        produce(broker.bootstrap, "t", range(50))
        assert read(broker.bootstrap, "t") == words(range(50))
        strays = [name for name in os.listdir(broker.data) if name.endswith("-stray")]
        assert len(strays) == 1
        assert (broker.data / strays[0] / f"{0:020d}.log").stat().st_size > 0
        broker.kill()
        broker.start()
        assert read(broker.bootstrap, "t") == words(range(50))


def test_nothing_is_found_of_a_large_topic_whose_deletion_was_answered_before_a_kill(
    tmp_path: Path,
) -> None:
    broker = BrokerProcess(tmp_path, overrides=SMALL)
    with broker:
        create(broker.bootstrap, "large", partitions=200)
        delete(broker.bootstrap, "large")
        broker.kill()
        names = os.listdir(broker.data)
        assert [name for name in names if name.startswith("large-") and "." not in name] == []
        broker.start()
        assert "belong to no topic" not in broker.log_text
