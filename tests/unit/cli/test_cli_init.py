"""`moldau init`: a folder with all that stands beside the package, and nothing overwritten."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from moldau.main import main

PROJECT = Path(__file__).parents[3]


def test_a_folder_gets_scripts_settings_examples_and_units(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "my-kafka"
    assert main(["init", str(target)]) == 0
    for part in ("bin", "config", "examples", "services"):
        there = {path.name for path in (PROJECT / part).rglob("*") if path.is_file()}
        made = {path.name for path in (target / part).rglob("*") if path.is_file()}
        assert {name for name in there if not name.endswith(".pyc")} <= made
    assert "bin/kafka-server-start.sh config/server.properties" in capsys.readouterr().out


def test_its_scripts_run_the_command_that_made_them(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path)]) == 0
    told = subprocess.run(
        [tmp_path / "bin" / "kafka-topics.sh", "--version"],
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert "(moldau)" in told.stdout


def test_what_is_there_already_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "config" / "server.properties"
    settings.parent.mkdir()
    settings.write_text("broker.id=7\n")
    assert main(["init", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kept"] == ["config/server.properties"]
    assert "bin/kafka-topics.sh" in told["made"]
    assert settings.read_text() == "broker.id=7\n"
    assert main(["init", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["made"] == []


def test_a_place_that_cannot_be_written_to_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["init", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err == f"Cannot write to {tmp_path / 'file'}: Not a directory\n"
