"""`moldau zookeeper-server-start`: the real server, from the command, by a person."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli.zookeeper.zookeeper_server import ZooKeeperFault, jars, java
from moldau.testing.broker_process import free_ports
from moldau.testing.zookeeper_process import serves
from tests.support.eventually import eventually

COMMAND = [sys.executable, "-m", "moldau.main", "zookeeper-server-start"]


def test_the_server_comes_up_from_a_file_and_ends_with_a_signal(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    config = tmp_path / "zoo.cfg"
    config.write_text(
        f"dataDir={tmp_path / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\n4lw.commands.whitelist=*\n"
    )
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen([*COMMAND, str(config)], stdout=log, stderr=log)
        try:
            eventually(lambda: serves(port))
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 128 + signal.SIGTERM
        finally:
            server.kill()
            server.wait()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere.cfg"], "cannot read nowhere.cfg: there is no such file"),
        (["--port", "1"], "there is no option --port; see --help"),
        (["a", "b"], "one settings file is enough: a and b were given"),
    ],
)
def test_what_it_cannot_use_is_one_sentence(words: list[str], sentence: str) -> None:
    ended = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"moldau zookeeper-server-start: {sentence}.\n"


def test_a_machine_without_java_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ZooKeeperFault, match="needs Java and there is none: install Java 17"):
        java()


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    shell = shutil.which("sh")
    old.write_text(f"#!{shell}\necho 'openjdk version \"11.0.2\"' >&2\n")
    os.chmod(old, 0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ZooKeeperFault, match=r"is Java 11: install Java 17"):
        java()


def test_a_folder_of_jars_stands_in_for_sparks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spark = jars()
    for jar in spark:
        (tmp_path / jar.name).symlink_to(jar)
    monkeypatch.setenv("ZOOKEEPER_JARS", str(tmp_path))
    assert [jar.name for jar in jars()] == [jar.name for jar in spark]
    assert {jar.parent for jar in jars()} == {tmp_path}


def test_a_folder_without_zookeeper_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZOOKEEPER_JARS", str(tmp_path))
    with pytest.raises(ZooKeeperFault, match=f"ZOOKEEPER_JARS names {tmp_path}, and there is no"):
        jars()
