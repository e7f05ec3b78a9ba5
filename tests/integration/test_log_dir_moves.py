"""A replica moves to another log directory of its broker while clients write and read it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.errors import LogDirNotFoundError
from tests.support.two_disks import RECORDS, TwoDisks, move_by_plan


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


def test_the_reassignment_tool_moves_a_replica_between_directories(
    disks: TwoDisks, tmp_path: Path
) -> None:
    def tool(*arguments: str) -> str:
        command = [sys.executable, "-m", "moldau.main", "reassign-partitions", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    move_by_plan(disks, tmp_path, tool)


def test_moves_that_cannot_be_are_refused_as_by_apache_kafka(disks: TwoDisks) -> None:
    assert isinstance(disks.move("/nowhere"), LogDirNotFoundError)
    assert disks.move(disks.home()) is None
