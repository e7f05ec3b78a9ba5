"""A broker that comes back with the log of a topic that was deleted and made anew meanwhile."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from moldau.model.cluster import ClusterImage, PartitionImage
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.replication.replica_roles import Role
from tests.support.logs import batch, read_all
from tests.unit.replication.test_replication_future_replicas import BATCH_MS, NODE, TwoDirectories

PLACE = TopicPartition("t", 0)
OLD, NEW = b"t" * 16, b"n" * 16


def role(topic_id: bytes, *, is_new: bool, epoch: int = 0) -> Role:
    state = PartitionImage(NODE, epoch, (NODE,), (NODE,), 0, (), ())
    return Role(PLACE, topic_id, state, is_new)


def strays(two: TwoDirectories) -> list[str]:
    return [n for path in two.paths for n in os.listdir(path) if n.endswith("-stray")]


def write_old_topic(root: Path, topic_id: bytes) -> None:
    async def run() -> None:
        two = TwoDirectories(root)
        two.store.create(PLACE, topic_id, two.store._settings_for("t"))
        two.replicas.take_roles([role(topic_id, is_new=False)])
        two.append(4)
        two.store.close(two.replicas.high_watermarks())

    asyncio.run(run())


@pytest.mark.parametrize("is_new", [True, False])
def test_the_log_of_the_old_topic_is_put_aside_and_a_new_one_made(
    tmp_path: Path, is_new: bool
) -> None:
    async def come_back() -> None:
        two = TwoDirectories(tmp_path)
        assert two.replicas.take_roles([role(NEW, is_new=is_new)]) == {PLACE: Error.NONE}
        replica = two.replica()
        assert (replica.log.topic_id, replica.log.offset_end) == (NEW, 0)
        assert replica.partition.high_watermark == 0
        assert len(strays(two)) == 1
        replica.append(memoryview(bytearray(batch(1))), 1, BATCH_MS)
        for directory in two.store.directories:
            directory.unlock()
        again = TwoDirectories(tmp_path)
        assert len(read_all(again.store.logs[PLACE])) == 1
        assert again.store.logs[PLACE].topic_id == NEW

    write_old_topic(tmp_path, OLD)
    asyncio.run(come_back())


def test_a_log_in_service_is_not_given_up_for_another_topic(tmp_path: Path) -> None:
    async def come_back() -> None:
        two = TwoDirectories(tmp_path)
        assert two.replicas.take_roles([role(OLD, is_new=False)]) == {PLACE: Error.NONE}
        refused = two.replicas.take_roles([role(NEW, is_new=True, epoch=1)])
        assert refused == {PLACE: Error.INCONSISTENT_TOPIC_ID}
        assert len(read_all(two.replica().log)) == 4
        assert strays(two) == []

    write_old_topic(tmp_path, OLD)
    asyncio.run(come_back())


@pytest.mark.parametrize(("is_new", "count"), [(True, 0), (False, 4)])
def test_a_log_without_an_id_is_of_a_topic_that_was_there_and_not_of_a_new_one(
    tmp_path: Path, is_new: bool, count: int
) -> None:
    async def come_back() -> None:
        two = TwoDirectories(tmp_path)
        assert two.replicas.take_roles([role(NEW, is_new=is_new)]) == {PLACE: Error.NONE}
        assert len(read_all(two.replica().log)) == count
        assert two.replica().log.topic_id == NEW

    write_old_topic(tmp_path, NO_TOPIC_ID)
    asyncio.run(come_back())


def test_a_lone_broker_keeps_the_log_of_a_topic_that_its_metadata_do_not_know(
    tmp_path: Path,
) -> None:
    async def come_back() -> None:
        two = TwoDirectories(tmp_path)
        known = ClusterImage("c", NODE)
        two.replicas.apply(two.empty, known)
        two.empty = known
        assert two.replicas.strays() == [PLACE]
        two.place(NODE)
        assert two.replica().log.offset_end == 0
        assert len(strays(two)) == 1

    write_old_topic(tmp_path, b"o" * 16)
    asyncio.run(come_back())
