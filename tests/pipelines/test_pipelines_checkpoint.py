"""Checkpoints that a kill has left: without a batch they are repaired, with one never touched.

What a kill leaves was taken from a real one, which `DoomedFiles.java` brings about.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.pipelines import Kafka, checkpoint
from moldau.pipelines.checkpoint import Checkpoint, repair
from moldau.pipelines.sink.sink_options import SinkError
from tests.support.doomed_files_java import doomed_files
from tests.support.pipeline_world import make_topic, read_committed, send

Name = Callable[[str], str]
UNFINISHED = ".0.0f2a5c1e-55b5-4c5e-8a35-2c9d2f1f7b1e.tmp"
DRIVER_SECONDS_MAX = 150


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else writes here."""
    monkeypatch.setattr(checkpoint, "LIVE_WRITE_SECONDS", 0.0)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A checkpoint as a driver leaves it that is killed while it plans the first batch."""
    place = tmp_path / "checkpoint"
    for folder in ("offsets", "commits", "sources/0"):
        (place / folder).mkdir(parents=True)
    (place / "metadata").write_text('{"id":"40ea2c8c-cf67-4b36-a06d-7b2a6d3ea14b"}')
    (place / "offsets" / UNFINISHED).write_text("v1\n{")
    (place / "offsets" / f".{UNFINISHED}.crc").write_bytes(b"crc\0")
    (place / "sources/0/0").write_text("0v1\nsomething of the source")
    return place


def contents(place: Path) -> dict[str, bytes]:
    files = (path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def test_a_pipeline_goes_on_after_a_kill_while_spark_wrote_its_first_plan(
    spark: Any, bootstrap: str, fresh_name: Name, killed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = (make_topic(bootstrap, fresh_name(stem)) for stem in ("in", "out"))
    send(bootstrap, source, [(None, "a"), (None, "b")])
    k = Kafka(spark, bootstrap)
    rows = k.stream(source, startingOffsets="earliest")
    with caplog.at_level(logging.WARNING):
        query = k.to(
            rows,
            target,
            app=fresh_name("app"),
            checkpoint=str(killed),
            trigger="available_now",
        )
    assert query.awaitTermination(120)
    assert f"{killed} is repaired" in caplog.text
    assert [record.value for record in read_committed(bootstrap, target)] == [b"a", b"b"]
    left = contents(killed)
    assert left["sources/0/0"] == b"0v1\nsomething of the source"
    assert json.loads(left["metadata"])["id"] == "40ea2c8c-cf67-4b36-a06d-7b2a6d3ea14b"


@pytest.mark.parametrize(
    "name",
    [
        "offsets/0",  # Planned: it may be in the output already.
        "offsets/17",
        "commits/0",
        "commits/.0.0f2a5c1e.tmp",  # Planned, run, and its plan lost since.
        "offsets/.1.0f2a5c1e.tmp",  # There was a batch 0.
        "offsets/notes.txt",
        "state/0/_metadata/metadata",
    ],
)
def test_a_checkpoint_with_any_trace_of_a_batch_is_left_alone(
    spark: Any, killed: Path, name: str
) -> None:
    (killed / name).parent.mkdir(parents=True, exist_ok=True)
    (killed / name).write_text("v1\n{}")
    before = contents(killed)
    repair(Checkpoint(spark, str(killed)))
    assert contents(killed) == before


def test_a_folder_that_is_no_checkpoint_is_left_alone(spark: Any, killed: Path) -> None:
    (killed / "metadata").unlink()
    before = contents(killed)
    repair(Checkpoint(spark, str(killed)))
    assert contents(killed) == before
    repair(Checkpoint(spark, str(killed / "nothing is here")))


@pytest.mark.parametrize("text", ["", '{"id":"40ea2c8c-cf', '{"id":null}', "[]"])
def test_a_damaged_metadata_file_is_refused_in_a_sentence_and_nothing_is_touched(
    spark: Any, killed: Path, text: str
) -> None:
    (killed / "metadata").write_text(text)
    before = contents(killed)
    with pytest.raises(SinkError, match=f"metadata of the checkpoint {killed} is damaged"):
        repair(Checkpoint(spark, str(killed)))
    assert contents(killed) == before


def test_a_file_that_another_driver_is_writing_is_not_taken_away(
    spark: Any, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LIVE_WRITE_SECONDS", 60.0)
    offsets = killed / "offsets"

    def finish(_: float) -> None:
        (offsets / UNFINISHED).rename(offsets / "0")

    monkeypatch.setattr(checkpoint.time, "sleep", finish)
    repair(Checkpoint(spark, str(killed)))
    assert (offsets / "0").exists()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("javac") is None, reason="needs javac")
def test_a_driver_killed_in_its_first_plan_is_followed_by_one_that_writes_everything(
    bootstrap: str, fresh_name: Name, tmp_path: Path
) -> None:
    source, target = (make_topic(bootstrap, fresh_name(stem)) for stem in ("in", "out"))
    send(bootstrap, source, [(None, "a"), (None, "b"), (None, "a")])
    place, log = tmp_path / "checkpoint", tmp_path / "driver.log"
    command = [
        *(sys.executable, "-m", "tests.support.doomed_pipeline", bootstrap, source, target),
        *(fresh_name("app"), str(place), "local[2]"),
    ]

    def run(classes: str) -> int:
        with log.open("ab") as told:
            return subprocess.run(
                command,
                env={**os.environ, "DOOMED_FILES": classes},
                stdout=told,
                stderr=told,
                timeout=DRIVER_SECONDS_MAX,
                check=False,
            ).returncode

    assert run(str(doomed_files(tmp_path / "classes"))) != 0, log.read_text()[-3000:]
    assert not (place / "offsets/0").exists()
    assert list((place / "offsets").glob(".0.*.tmp")), contents(place).keys()
    assert run("") == 0, log.read_text()[-3000:]
    assert "is repaired" in log.read_text()
    found = {record.key: record.value[-1] for record in read_committed(bootstrap, target)}
    assert found == {b"a": 2, b"b": 1}
