"""The controller when the disk fails, when it is replaced, when it stops."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from moldau.controller.controller_facts import TopicCreated
from moldau.controller.rules.topic_rules import NewTopic
from moldau.metadata import paths
from moldau.metadata.store import NodeExists, StoreUnavailable
from moldau.model.errors import ApiError, Error
from tests.support.lone_controller import NODE, Cluster, run


def test_after_a_disk_fault_the_controller_goes_on_from_what_is_durable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        cluster = await Cluster(tmp_path / "m").start()
        await cluster.controller.create_topics([NewTopic("kept", 1, 1)])
        cluster.disk.is_broken = True
        with pytest.raises(ApiError) as caught:
            await cluster.controller.create_topics([NewTopic("lost", 1, 1)])
        assert caught.value.error is Error.KAFKA_STORAGE_ERROR
        assert list(cluster.controller.image.topics) == ["kept"]
        with pytest.raises(ApiError):
            await cluster.controller.create_topics([NewTopic("lost", 1, 1)])
        cluster.disk.is_broken = False
        rows = await asyncio.gather(
            *(cluster.controller.create_topics([NewTopic(f"t{n}", 1, 1)]) for n in range(5))
        )
        assert all(isinstance(row, TopicCreated) for (row,) in rows)
        assert set(cluster.controller.image.topics) == {"kept", "t0", "t1", "t2", "t3", "t4"}
        assert cluster.controller.image.brokers == {0: NODE}
        await cluster.stop()

    run(main)
    assert "resigns: The metadata store did not take a change" in caplog.text


def test_every_request_in_flight_hears_of_a_disk_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        cluster = await Cluster(tmp_path / "m").start()
        cluster.disk.is_broken = True
        rows = await asyncio.gather(
            *(cluster.controller.create_topics([NewTopic(f"t{n}", 1, 1)]) for n in range(5)),
            return_exceptions=True,
        )
        assert {row.error for row in rows if isinstance(row, ApiError)} == {
            Error.KAFKA_STORAGE_ERROR
        }
        assert len(rows) == 5
        assert cluster.controller.image.topics == {}
        cluster.disk.is_broken = False
        await cluster.stop()

    run(main)
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_controller_that_was_replaced_can_change_nothing() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        await cluster.store.set_if_version("/controller_epoch", b"9")
        with pytest.raises(ApiError) as caught:
            await cluster.controller.create_topics([NewTopic("t", 1, 1)])
        assert caught.value.error is Error.NOT_CONTROLLER
        assert await cluster.store.children("/brokers/topics") == []
        await cluster.store.delete("/controller")
        await cluster.store.create("/controller", paths.encode_controller(5, 0), ephemeral=True)
        with pytest.raises(ApiError) as caught:
            await cluster.controller.create_topics([NewTopic("t", 1, 1)])
        assert caught.value.error is Error.NOT_CONTROLLER
        await cluster.stop()

    run(main)


def test_a_second_broker_with_the_same_id_is_refused() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        with pytest.raises(NodeExists):
            await cluster.controller.register(NODE)
        await cluster.stop()

    run(main)


def test_closing_answers_and_gives_the_office_back() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        await cluster.controller.close()
        assert await cluster.store.exists("/controller") is None
        with pytest.raises(ApiError) as caught:
            await cluster.controller.create_topics([NewTopic("t")])
        assert caught.value.error is Error.NOT_CONTROLLER
        await cluster.store.close()

    run(main)


def test_a_store_that_is_gone_at_start_is_the_callers_to_hear_of(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path / "m")
        await cluster.store.close()
        with pytest.raises(StoreUnavailable):
            await cluster.controller.load()

    run(main)
