"""Exactly once when checkpoint and markers disagree: refused in a sentence, never guessed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, ConfigResource, TopicPartition
from moldau.pipelines import Kafka
from moldau.pipelines.sink.batch_continuation import Plan
from moldau.pipelines.sink.batch_markers import Marker, marker_topic
from moldau.pipelines.sink.sink_options import ContinuationError
from moldau.pipelines.sink.sink_transaction import PipelineTransactions
from tests.support.pipeline_world import make_topic, read_committed, send

Name = Callable[[str], str]


class Copying:
    """A pipeline that copies a topic, ten records at a time."""

    def __init__(self, spark: Any, bootstrap: str, fresh_name: Name) -> None:
        self.bootstrap = bootstrap
        self.kafka = Kafka(spark, bootstrap)
        self.source = make_topic(bootstrap, fresh_name("in"), 1)
        self.target = make_topic(bootstrap, fresh_name("out"), 1)
        self.app = fresh_name("app")
        self.sent = 0

    def send(self, count: int) -> None:
        rows = [(None, str(n)) for n in range(self.sent, self.sent + count)]
        send(self.bootstrap, self.source, rows)
        self.sent += count

    def run(self, checkpoint: Path, **options: Any) -> None:
        frame = self.kafka.stream(self.source, startingOffsets="earliest", **options)
        query = self.kafka.to(
            frame,
            self.target,
            app=self.app,
            checkpoint=str(checkpoint),
            trigger="available_now",
        )
        query.awaitTermination()

    def written(self) -> list[int]:
        return [int(record.value) for record in read_committed(self.bootstrap, self.target)]


def test_a_checkpoint_that_fell_back_is_refused_and_the_newer_one_goes_on(
    spark: Any, bootstrap: str, fresh_name: Name, tmp_path: Path
) -> None:
    copying = Copying(spark, bootstrap, fresh_name)
    backup, newer = tmp_path / "backup", tmp_path / "newer"
    copying.send(10)
    copying.run(tmp_path / "a")
    shutil.copytree(tmp_path / "a", backup)
    copying.send(10)
    copying.run(tmp_path / "a")
    shutil.copytree(tmp_path / "a", newer)
    copying.send(10)
    # The batch after the backup's last one is planned anew: from 10 to 30, where 10 to 20 is there.
    with pytest.raises(Exception, match="checkpoint") as refusal:
        copying.run(backup)
    assert f"{copying.source}-0" in str(refusal.value)
    assert "startingOffsets" in str(refusal.value)
    assert copying.written() == list(range(20))
    copying.run(newer)
    assert copying.written() == list(range(30))


class Driver:
    """A pipeline without Spark: its checkpoint is a list of ends, one for every batch."""

    def __init__(self, bootstrap: str, app: str, query_id: str, group: str | None = None) -> None:
        self.transactions = PipelineTransactions(app, {"bootstrap.servers": bootstrap}, group=group)
        self.query_id = query_id
        self.place = TopicPartition(app, 0)
        self.ends: list[int] = []

    def plan_of(self, batch_id: int) -> Plan:
        return Plan({self.place: self.ends[batch_id]}, f"digest {self.ends[batch_id]}")

    def run(self, batch_id: int) -> bool:
        """Whether the batch was written."""
        self.transactions.reopen()
        try:
            if self.transactions.has_done(self.query_id, batch_id, self.plan_of):
                return False
            self.transactions.begin()
            plan = self.plan_of(batch_id)
            marker = Marker(self.query_id, batch_id, plan.offsets, sources=plan.sources)
            self.transactions.commit(marker, [])
            return True
        finally:
            self.transactions.close()


@pytest.fixture
def app(bootstrap: str, fresh_name: Name) -> str:
    """A pipeline's name, and the topic that it reads."""
    return make_topic(bootstrap, fresh_name("app"))


def test_two_checkpoints_that_alternate_have_each_batch_written_once(
    bootstrap: str, app: str
) -> None:
    one, other = Driver(bootstrap, app, "one"), Driver(bootstrap, app, "other")
    one.ends, other.ends = [10, 20, 30], [5, 15]
    assert one.run(0) and one.run(1)
    assert other.run(0)
    # The last batch of each is known to be written, whoever wrote last.
    assert not one.run(1)
    assert one.run(2)
    assert not other.run(0)
    assert other.run(1)
    one.ends[2] = 31
    with pytest.raises(ContinuationError, match="up to offset 30, the checkpoint up to offset 31"):
        one.run(2)


def test_a_marker_topic_created_anew_is_no_pipeline_without_a_past(
    bootstrap: str, app: str
) -> None:
    driver = Driver(bootstrap, app, "q")
    driver.ends = [10, 20, 30]
    assert driver.run(0) and driver.run(1)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([marker_topic(app)]).check()
        with pytest.raises(ContinuationError, match="tells of a marker"):
            driver.run(1)
        # Without the group's word the checkpoint itself tells that there were batches before.
        admin.delete_groups([app]).check()
    with pytest.raises(ContinuationError, match="no marker"):
        driver.run(1)


def test_expired_markers_are_missed(bootstrap: str, app: str) -> None:
    driver = Driver(bootstrap, app, "q")
    driver.ends = [10, 20]
    assert driver.run(0)
    markers = ConfigResource.topic(marker_topic(app))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.incremental_alter_configs({markers: {"cleanup.policy": "delete"}}).check()
        admin.delete_records({TopicPartition(marker_topic(app), 0): -1}).check()
    with pytest.raises(ContinuationError, match="tells of a marker"):
        driver.run(1)


def test_pipelines_that_share_a_group_find_their_own_markers(
    bootstrap: str, app: str, fresh_name: Name
) -> None:
    group, neighbour = fresh_name("group"), make_topic(bootstrap, fresh_name("app"))
    busy, quiet = Driver(bootstrap, neighbour, "b", group), Driver(bootstrap, app, "q", group)
    busy.place = quiet.place
    busy.ends = quiet.ends = [10, 20, 30, 40]
    assert quiet.run(0)
    assert all(busy.run(batch_id) for batch_id in range(4))
    assert not quiet.run(0)
    assert quiet.run(1)
