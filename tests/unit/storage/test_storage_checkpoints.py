"""Checkpoint files, partition.metadata and meta.properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.storage.directories.meta_properties import (
    MetaProperties,
    random_id,
    read_meta_properties,
    write_meta_properties,
)
from moldau.storage.log_state.checkpoint_files import read_epochs, read_offsets, write_offsets
from moldau.storage.log_state.leader_epoch_checkpoint import EpochFile
from moldau.storage.log_state.partition_metadata import read_topic_id, write_topic_id
from moldau.storage.storage_faults import CorruptFile


def test_offsets_are_written_as_version_count_and_rows(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {TopicPartition("ref", 0): 6, TopicPartition("a.b-c_d", 12): 10}
    write_offsets(str(path), offsets)
    assert path.read_text() == "0\n2\nref 0 6\na.b-c_d 12 10\n"
    assert read_offsets(str(path)) == offsets
    assert [each.name for each in tmp_path.iterdir()] == [path.name], "no temporary file is left"


def test_a_checkpoint_that_is_missing_or_empty_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    assert read_offsets(str(path)) == {}
    path.touch()
    assert read_offsets(str(path)) == {}


@pytest.mark.parametrize(
    "content", ["1\n0\n", "0\n2\nt 0 5\n", "0\n1\nt 0\n", "0\nx\nt 0 1\n", "0\n1\nt a b\n", "\xff"]
)
def test_a_checkpoint_that_breaks_the_form_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content.encode("latin-1") + b"\n\n" if content == "\xff" else content.encode())
    with pytest.raises(CorruptFile):
        read_offsets(str(path))


def test_epochs_are_kept_in_their_file(tmp_path: Path) -> None:
    epochs = EpochFile(str(tmp_path))
    epochs.assign(0, 0)
    epochs.assign(3, 100)
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 100\n"
    assert read_epochs(epochs.path) == [(0, 0), (3, 100)]
    assert epochs.take_unflushed() == [epochs.path]
    assert epochs.take_unflushed() == []
    again = EpochFile(str(tmp_path))
    again.truncate_from_end(100)
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_a_damaged_epoch_file_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n9\n0 0\n")
    assert EpochFile(str(tmp_path)).history.entries == []


def test_a_topic_id_is_written_as_apache_kafka_does(tmp_path: Path) -> None:
    topic_id = bytes(range(1, 17))
    write_topic_id(str(tmp_path), topic_id)
    content = (tmp_path / "partition.metadata").read_text()
    assert content == "version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA"
    assert read_topic_id(str(tmp_path)) == topic_id


@pytest.mark.parametrize("content", [b"", b"version: 0\n", b"topic_id: short", b"\xff\xfe"])
def test_an_unreadable_topic_id_is_none(tmp_path: Path, content: bytes) -> None:
    assert read_topic_id(str(tmp_path)) == NO_TOPIC_ID
    (tmp_path / "partition.metadata").write_bytes(content)
    assert read_topic_id(str(tmp_path)) == NO_TOPIC_ID


def test_meta_properties_say_whose_directory_it_is(tmp_path: Path) -> None:
    meta = MetaProperties(3, "4L6g3nShT-eMCtK--X86sw", "65squQmBD_H6PdnwAZbu-w")
    write_meta_properties(str(tmp_path), meta)
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    assert lines == [
        "version=1",
        "node.id=3",
        "directory.id=65squQmBD_H6PdnwAZbu-w",
        "cluster.id=4L6g3nShT-eMCtK--X86sw",
    ]
    assert read_meta_properties(str(tmp_path)) == meta


def test_meta_properties_of_the_zookeeper_era_are_understood(tmp_path: Path) -> None:
    text = "#\n#Sun Nov 15 22:10:06 UTC 2020\nversion=0\nbroker.id=5\ncluster.id=abc\n"
    (tmp_path / "meta.properties").write_text(text)
    assert read_meta_properties(str(tmp_path)) == MetaProperties(5, "abc", None)


@pytest.mark.parametrize("text", ["version=2\nnode.id=1\n", "version=1\nnode.id=x\n"])
def test_meta_properties_from_the_future_or_damaged_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(CorruptFile):
        read_meta_properties(str(tmp_path))


def test_random_ids_never_look_like_options() -> None:
    ids = {random_id() for _ in range(300)}
    assert len(ids) == 300
    assert all(len(each) == 22 and not each.startswith("-") for each in ids)
