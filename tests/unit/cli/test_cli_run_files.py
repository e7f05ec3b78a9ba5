"""Finding the brokers that run, and nobody else."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

from moldau.cli.servers import run_files, server_stop
from moldau.cli.zookeeper import zookeeper_server_stop


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOLDAU_RUN_DIR", str(tmp_path / "run"))
    return tmp_path / "run"


def test_nobody_runs_where_nobody_announced_himself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_files.running_brokers() == []
    assert server_stop.run(["-daemon", "config/server.properties"]) == 1
    said = capsys.readouterr()
    assert said.out == "No kafka server to stop\n"
    assert said.err.splitlines() == [
        "moldau server-stop: -daemon has no effect.",
        "moldau server-stop: config/server.properties has no effect.",
    ]


def test_a_file_left_by_a_dead_process_is_removed(folder: Path) -> None:
    folder.mkdir()
    (folder / "4194304999.pid").write_text("4194304 0\n")
    (folder / "garbage.pid").write_text("what?")
    assert run_files.running_brokers() == []
    assert sorted(path.name for path in folder.iterdir()) == ["garbage.pid"]


def test_a_process_that_is_no_broker_is_left_alone(folder: Path) -> None:
    path = run_files.announce(node_id=7)
    assert path.read_text() == f"{os.getpid()} 7\n"
    assert run_files.running_brokers() == []


@pytest.mark.parametrize(
    ("words", "node_id"),
    [
        ([], None),
        (["--node-id=3"], 3),
        (["--node-id", "3"], 3),
        (["--process-role=broker"], None),
        (["-daemon", "file"], None),
    ],
)
def test_one_broker_can_be_named(words: list[str], node_id: int | None) -> None:
    assert server_stop.understand(words)[0] == node_id


def test_a_node_id_that_is_none_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert server_stop.run(["--node-id=x"]) == 1
    assert "needs the number of a broker" in capsys.readouterr().err


@pytest.mark.parametrize("stop", [server_stop, zookeeper_server_stop])
def test_a_mistyped_flag_stops_nobody(stop: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert stop.run(["--nodeid=3"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "there is no option --nodeid" in said.err
    assert "Nothing was stopped." in said.err


def test_what_is_no_broker_is_not_stopped_by_stopping_brokers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert server_stop.run(["--process-role=controller"]) == 1
    assert "'controller' has no processes here" in capsys.readouterr().err
