"""A lone broker keeps its place in the cluster while the disk of its metadata is full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from tests.support.small_disk import mounted

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small") as path:
        yield path


def create(admin: AdminClient, name: str) -> None:
    for future in admin.create_topics([NewTopic(name, 1, 1)]).values():
        future.result(20)


def is_refused(admin: AdminClient, name: str) -> bool:
    """The first ones find room in the last page of the journal."""
    try:
        create(admin, name)
    except KafkaException:
        return True
    return False


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size_bytes in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"\0" * size_bytes):
                    pass
            except OSError:
                continue


def test_a_broker_is_still_registered_once_its_full_disk_has_room_again(
    tmp_path: Path, small_disk: Path
) -> None:
    broker = BrokerProcess(tmp_path / "broker", overrides={"log.dirs": str(small_disk)})
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        create(admin, "before")
        fill(small_disk / "ballast")
        assert sum(is_refused(admin, f"during-{number}") for number in range(60)) > 3
        (small_disk / "ballast").unlink()
        create(admin, "after")
        metadata = admin.list_topics(timeout=20)
        assert len(metadata.brokers) == 1
        assert {"before", "after"} <= set(metadata.topics)
        assert metadata.topics["after"].partitions[0].leader == 0
        assert not list(small_disk.glob("*.tmp"))
    finally:
        broker.stop()
