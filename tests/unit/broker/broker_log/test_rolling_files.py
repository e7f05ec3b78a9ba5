"""A log file begins anew every hour; older ones are bounded; a full disk costs lines."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from moldau.broker.broker_log import rolling_files
from moldau.broker.broker_log.rolling_files import RolledFiles, RollingFile

SEVEN = time.mktime((2026, 11, 16, 7, 59, 59, 0, 0, -1))
HOUR = 3600.0


class World:
    """A folder with one log file, a clock, and what was said about the disk."""

    def __init__(self, folder: Path, files_max: int = 100, bytes_max: int = 1024**2) -> None:
        self.folder = folder
        self.now = SEVEN
        self.alarms: list[str] = []
        self.bounds = (files_max, bytes_max)
        self.file = self.opened("server.log")

    def opened(self, name: str) -> RollingFile:
        return RollingFile(
            self.folder / name,
            RolledFiles(self.folder, *self.bounds),
            self.alarms.append,
            lambda said: f"WARN {said}\n",
            now=lambda: self.now,
        )

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.folder.iterdir())}


def test_the_first_line_of_an_hour_begins_a_file(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.file.write(["a\n"])
    world.now += 2
    world.file.write(["b\n", "c\n"])
    world.now += 5 * HOUR
    world.file.write(["d\n"])
    assert world.files() == {
        "server.log.2026-11-16-07": "a\n",
        "server.log.2026-11-16-08": "b\nc\n",
        "server.log": "d\n",
    }


def test_a_file_of_an_earlier_hour_is_rolled_by_the_next_process(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("left\n")
    os.utime(tmp_path / "server.log", (SEVEN - HOUR, SEVEN - HOUR))
    world = World(tmp_path)
    world.file.write(["new\n"])
    assert world.files() == {"server.log.2026-11-16-06": "left\n", "server.log": "new\n"}


def test_a_file_of_this_hour_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("before\n")
    os.utime(tmp_path / "server.log", (SEVEN - 60, SEVEN - 60))
    world = World(tmp_path)
    world.file.write(["after\n"])
    assert world.files() == {"server.log": "before\nafter\n"}


def test_an_hour_that_comes_twice_overwrites_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    for line in ("a\n", "b\n", "c\n", "d\n"):
        world.file.write([line])
        world.now += HOUR if line in ("a\n", "c\n") else -HOUR
    assert "".join(sorted(world.files().values())) == "a\nb\nc\nd\n"


def test_an_hour_that_gets_too_long_is_cut(tmp_path: Path) -> None:
    world = World(tmp_path, bytes_max=16 * 100)
    for number in range(12):
        world.file.write([f"{number:03d}{'x' * 46}\n"])
    files = world.files()
    assert len(files) == 6 and all(len(text) == 100 for text in files.values())
    assert "".join(text for _, text in sorted(files.items())).count("x") == 12 * 46


def test_the_oldest_beyond_the_number_go(tmp_path: Path) -> None:
    world = World(tmp_path, files_max=3)
    for hour in range(8):
        world.file.write([f"{hour}\n"])
        os.utime(tmp_path / "server.log", (world.now, world.now))
        world.now += HOUR
    assert sorted(world.files().values()) == ["4\n", "5\n", "6\n", "7\n"]


def test_the_oldest_beyond_the_size_go_and_nothing_else(tmp_path: Path) -> None:
    strangers = ["server.log.bak", "server.logs.2026-11-16-01", "notes.2026-11-16-01"]
    for name in strangers:
        (tmp_path / name).write_text("keep")
    (tmp_path / "server.log.2026-11-16-02").mkdir()
    (tmp_path / "server.log.2026-11-16-03").symlink_to(tmp_path / "notes.2026-11-16-01")
    world = World(tmp_path, bytes_max=1600)
    for _ in range(100):
        world.file.write(["y" * 99 + "\n"])
        world.now += HOUR
    names = set(os.listdir(tmp_path))
    assert names >= {*strangers, "server.log.2026-11-16-02", "server.log.2026-11-16-03"}
    ours = [path for path in tmp_path.iterdir() if path.is_file() and "y" in path.read_text()]
    assert sum(path.stat().st_size for path in ours) == 1600


def test_a_file_that_somebody_moves_or_removes_is_made_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.file.write(["a\n"])
    (tmp_path / "server.log").rename(tmp_path / "mine")
    world.file.write(["b\n"])
    (tmp_path / "server.log").unlink()
    world.file.write(["c\n"])
    assert world.files() == {"mine": "a\n", "server.log": "c\n"}


def test_a_folder_that_vanishes_is_made_again_and_one_that_cannot_be_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "logs")
    world.file.write(["a\n"])
    shutil.rmtree(world.folder)
    world.file.write(["b\n"])
    assert world.files() == {"server.log": "b\n"}
    shutil.rmtree(world.folder)
    world.folder.write_text("somebody's file")
    world.file.write(["lost\n", "lost too\n"])
    (alarm,) = world.alarms
    assert "server.log cannot be written: " in alarm
    assert world.folder.read_text() == "somebody's file"
    world.folder.unlink()
    monkeypatch.setattr(world.file, "_retry_at", 0.0)
    world.file.write(["c\n"])
    (text,) = world.files().values()
    assert text.startswith("WARN 2 lines are missing here: ") and text.endswith("\nc\n")


def test_a_full_disk_is_told_once_and_its_lines_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.file.write(["before\n"])
    write = os.write

    def write_some(descriptor: int, data: bytes) -> int:
        if len(data) <= 2:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(data)[:-2])

    with monkeypatch.context() as patched:
        patched.setattr(rolling_files.os, "write", write_some)
        world.file.write(["lost\n", "lost too\n"])
        world.file.write(["not even tried\n"])
    assert world.files() == {"server.log": "before\n"}
    (alarm,) = world.alarms
    assert alarm.startswith(f"The log file {tmp_path}/server.log cannot be written: No space left")
    monkeypatch.setattr(rolling_files, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(world.file, "_retry_at", 0.0)
    world.file.write(["after\n"])
    missing = "WARN 3 lines are missing here: No space left on device\n"
    assert world.files() == {"server.log": f"before\n{missing}after\n"}


def test_the_parts_of_an_hour_are_numbered_on_when_the_first_are_gone(tmp_path: Path) -> None:
    world = World(tmp_path, files_max=2, bytes_max=16 * 100)
    for number in range(10):
        world.file.write([f"{number:099d}\n"])
        os.utime(tmp_path / "server.log", (world.now - 99 + number,) * 2)
    hour = "server.log.2026-11-16-07"
    assert sorted(os.listdir(tmp_path)) == ["server.log", f"{hour}.7", f"{hour}.8"]
    world.file.close()
    (tmp_path / f"{hour}.7").unlink()
    world = World(tmp_path, bytes_max=16 * 100)
    world.file.write(["x"])
    assert f"{hour}.9" in os.listdir(tmp_path)
