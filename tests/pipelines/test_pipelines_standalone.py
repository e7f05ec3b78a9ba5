"""The same pipeline on a Spark cluster: a master, two workers, executors in their own processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pipelines.test_pipelines_exactly_once import Fire
from tests.support.spark_cluster import spark_cluster

Name = Callable[[str], str]


@pytest.fixture
def fire(
    bootstrap: str, fresh_name: Name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Fire]:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with spark_cluster(tmp_path) as master:
        yield Fire(bootstrap, fresh_name, tmp_path, master)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_kills_of_drivers_and_tasks_leave_each_batch_once_on_a_cluster(fire: Fire) -> None:
    fire.send(300)
    assert fire.run("ended:1") == -signal.SIGKILL
    assert fire.run("end:0") == -signal.SIGKILL
    fire.send(100)
    assert fire.run("tasks:0") == -signal.SIGKILL
    assert fire.run("task:0") == 0
    fire.check()
    executors = list(fire.log.parent.glob("worker-*/app-*/*/stderr"))
    assert len({path.parent.parent.parent for path in executors}) == 2, "both workers took part"
