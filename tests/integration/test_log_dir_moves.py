"""A replica moves to another log directory of its broker while clients write and read it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.shared.client_errors import LogDirNotFoundError
from moldau.testing.broker_process import BrokerProcess
from tests.support.doomed_files import MAIN, doom
from tests.support.eventually import eventually
from tests.support.two_disks import RECORDS, VALUE_BYTES, TwoDisks, cancel_by_plan, move_by_plan


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[TwoDisks]:
    two = TwoDisks(tmp_path)
    two.broker.start()
    try:
        two.produce(RECORDS)
        yield two
    finally:
        two.broker.stop()


def test_records_written_while_a_replica_moves_are_all_there_and_survive_a_kill(
    disks: TwoDisks,
) -> None:
    source, target = disks.home(), disks.other()
    assert disks.move(target) is None
    while not (Path(target) / "t-0").is_dir():
        disks.produce(200)
    assert disks.home() == target
    disks.produce(200)
    assert disks.read() == list(range(disks.delivered))
    assert [name for name in os.listdir(target) if name.endswith("-future")] == []
    assert any(name.endswith("-delete") for name in os.listdir(source))
    disks.broker.kill()
    disks.broker.start()
    disks.produce(10)
    assert disks.home() == target
    assert disks.read() == list(range(disks.delivered))


def tool(*arguments: str) -> str:
    command = [sys.executable, "-m", "moldau.main", "reassign-partitions", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_reassignment_tool_moves_a_replica_between_directories(
    disks: TwoDisks, tmp_path: Path
) -> None:
    move_by_plan(disks, tmp_path, tool)


def test_the_reassignment_tool_gives_up_a_move_between_directories(
    disks: TwoDisks, tmp_path: Path
) -> None:
    cancel_by_plan(disks, tmp_path, tool)


def test_a_move_goes_faster_as_soon_as_its_rate_is_raised(disks: TwoDisks) -> None:
    target = disks.other()
    disks.produce(3 * 1024 * 1024 // VALUE_BYTES)
    disks.slow_down(1)
    assert disks.move(target) is None
    disks.slow_down(1024 * 1024 * 1024)
    eventually(lambda: (Path(target) / "t-0").is_dir())
    assert disks.read() == list(range(disks.delivered))


def test_moves_that_cannot_be_are_refused_as_by_apache_kafka(disks: TwoDisks) -> None:
    assert isinstance(disks.move("/nowhere"), LogDirNotFoundError)
    assert disks.move(disks.home()) is None


@pytest.mark.long
def test_a_move_begun_right_after_a_start_loses_nothing(disks: TwoDisks) -> None:
    """The look for what an earlier run left unfinished comes while the copy is being made."""
    disks.produce(8_000)
    disks.broker.stop()
    disks.broker.start()
    target = disks.other()
    disks.slow_down(1024 * 1024)
    assert disks.move(target) is None
    eventually(lambda: (Path(target) / "t-0").is_dir(), 60)
    assert disks.read() == list(range(disks.delivered))
    disks.broker.kill()
    disks.broker.start()
    assert disks.read() == list(range(disks.delivered))


@pytest.mark.parametrize("step", [0, 1])
def test_a_kill_while_the_copy_takes_over_costs_neither_records_nor_a_directory(
    tmp_path: Path, step: int
) -> None:
    """Before the copy gets its name, and before the old directory loses it."""
    two = TwoDisks(tmp_path)
    armed = tmp_path / "armed"
    environment = doom(step, r"/t-0$", "rename", armed)
    two.broker = BrokerProcess(tmp_path, overrides=two.settings, main=MAIN, environment=environment)
    two.broker.start()
    two.produce(3_000)
    source, target = two.home(), two.other()
    armed.touch()
    assert two.move(target) is None
    two.broker.wait(60)
    assert (Path(source) / "t-0").is_dir()
    assert (Path(target) / "t-0").is_dir() == (step == 1)
    two.broker = BrokerProcess(tmp_path, overrides=two.settings)
    two.broker.start()
    try:
        assert two.read() == list(range(two.delivered))
        # The copy has its name for a moment before the old directory loses it.
        eventually(lambda: not (Path(source) / "t-0").is_dir(), 60)
        assert two.home() == target
        two.produce(100)
        assert two.read() == list(range(two.delivered))
        two.broker.kill()
        two.broker.start()
        assert two.home() == target
        assert two.read() == list(range(two.delivered))
        assert "offline" not in two.broker.log_text
    finally:
        two.broker.kill()
