"""`meta.properties` keeps the form that whoever used the directory before can read."""

from __future__ import annotations

from pathlib import Path

from moldau.storage.directories.meta_properties import (
    MetaProperties,
    join_zookeeper,
    read_meta_properties,
    write_meta_properties,
)

META = MetaProperties(5, "abc", "def")


def lines(directory: Path) -> list[str]:
    text = (directory / "meta.properties").read_text()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_file_of_a_broker_on_zookeeper_stays_of_version_0(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=5\ncluster.id=abc\n")
    write_meta_properties(str(tmp_path), META)
    assert lines(tmp_path) == ["version=0", "broker.id=5", "directory.id=def", "cluster.id=abc"]
    assert read_meta_properties(str(tmp_path)) == META


def test_a_broker_that_joins_zookeeper_writes_what_others_there_can_read(tmp_path: Path) -> None:
    write_meta_properties(str(tmp_path), META)
    assert "version=1" in lines(tmp_path)
    join_zookeeper(str(tmp_path))
    assert lines(tmp_path) == ["version=0", "broker.id=5", "directory.id=def", "cluster.id=abc"]
    before = (tmp_path / "meta.properties").stat().st_mtime_ns
    join_zookeeper(str(tmp_path))
    assert (tmp_path / "meta.properties").stat().st_mtime_ns == before
    assert read_meta_properties(str(tmp_path)) == META
