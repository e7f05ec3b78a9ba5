"""A backup whose partitions are copied by Spark's executors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import moldau.testing
from tests.support.backups import back_up, restore_whole
from tests.support.backups import moldau as command
from tests.support.fork_load import TransactionalLoad, check_fork
from tests.support.tracked_topic import create, produce, read

pytestmark = pytest.mark.long


def test_executors_copy_what_one_process_would_copy(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with moldau.testing.broker(with_faults=False) as source:
        create(source.bootstrap, "spread", partitions=3)
        produce(source.bootstrap, "spread", range(3000), size=200)
        with TransactionalLoad(source.bootstrap, "spark") as load:
            load.wait_for_more(10)
            back_up(source.bootstrap, backup)
            load.wait_for_more(10)
            before = load.acknowledged
            said = back_up(source.bootstrap, backup, "--master", "local[2]", "--json")
            after = load.begun
        assert json.loads(said)["exact"] is True
        expected = [read(source.bootstrap, "spread", partition) for partition in range(3)]
    assert command("backup", "verify", str(backup)).returncode == 0
    with moldau.testing.broker(with_faults=False) as target:
        restore_whole(target.bootstrap, backup)
        check_fork(target.bootstrap, load, before, after)
        found = [read(target.bootstrap, "spread", partition) for partition in range(3)]
    assert found == expected
