"""Roles for new logs: the loop goes on while a thread makes them, one request's after another's."""

from __future__ import annotations

import asyncio
from pathlib import Path

from moldau.model.cluster import PartitionImage
from moldau.model.names import TopicPartition
from moldau.replication.log_preparation import NewReplicas
from moldau.replication.replica_roles import Role
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.storage_threads import Done, Work
from moldau.storage.storage_faults import StorageFault
from tests.support.logs import SmallSettings
from tests.support.virtual_time import ManualClock

NODE = 1
TOPIC_ID = b"t" * 16
SETTINGS = SmallSettings()


class WhenTold:
    """A thread that a test steps through."""

    def __init__(self) -> None:
        self.works: list[tuple[Work, Done]] = []

    def run(self, work: Work, done: Done) -> None:
        self.works.append((work, done))

    def step(self) -> None:
        work, done = self.works.pop(0)
        done(work())

    def stop(self) -> None:
        pass


def store_on(directory: Path, threads: WhenTold, names: tuple[str, ...] = ("a",)) -> LogStore:
    opened = LogStore(
        [str(directory / name) for name in names],
        node_id=NODE,
        settings_for=lambda topic: SETTINGS,
        clock=ManualClock(1_700_000_000_000),
        threads=threads,
    )
    opened.open()
    threads.works.clear()
    return opened


def role(partition: int, *, replicas: tuple[int, ...] = (NODE, 2), is_new: bool = True) -> Role:
    state = PartitionImage(replicas[0], 0, replicas, replicas, 0, (), ())
    return Role(TopicPartition("t", partition), TOPIC_ID, state, is_new)


def names_in(store: LogStore) -> set[str]:
    found = {path.name for each in store.online for path in Path(each.path).iterdir()}
    return {name for name in found if name.startswith("t-")}


def test_the_loop_goes_on_while_logs_are_made(tmp_path: Path) -> None:
    async def play() -> None:
        threads = WhenTold()
        store = store_on(tmp_path, threads)
        new = NewReplicas(NODE, store)
        task = asyncio.create_task(new.prepare([role(0), role(1)], lambda topic: SETTINGS))
        await asyncio.sleep(0)
        assert not task.done()
        assert names_in(store) == set()
        threads.step()
        await task
        assert names_in(store) == {"t-0", "t-1"}
        assert not store.logs

    asyncio.run(play())


def test_a_second_request_for_the_same_partition_waits_and_makes_nothing_twice(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        threads = WhenTold()
        store = store_on(tmp_path, threads)
        new = NewReplicas(NODE, store)

        async def prepare_and_take() -> None:
            await new.prepare([role(0)], lambda topic: SETTINGS)
            store.create(TopicPartition("t", 0), TOPIC_ID, SETTINGS)

        tasks = [asyncio.create_task(prepare_and_take()) for _ in range(2)]
        await asyncio.sleep(0)
        assert len(threads.works) == 1
        threads.step()
        await asyncio.gather(*tasks)
        assert not threads.works

    asyncio.run(play())


def test_no_log_is_made_for_what_is_here_or_belongs_to_others(tmp_path: Path) -> None:
    async def play() -> None:
        threads = WhenTold()
        store = store_on(tmp_path, threads)
        store.create(TopicPartition("t", 0), TOPIC_ID, SETTINGS)
        new = NewReplicas(NODE, store)
        await new.prepare([role(0), role(1, replicas=(2, 3))], lambda topic: SETTINGS)
        assert not threads.works

    asyncio.run(play())


def test_a_log_that_may_lie_in_a_failed_directory_is_not_made_elsewhere(tmp_path: Path) -> None:
    async def play() -> None:
        threads = WhenTold()
        store = store_on(tmp_path, threads, ("a", "b"))
        failed = store.directories[0]
        failed.fault = StorageFault("cannot use", failed.path, reason="pulled out")
        new = NewReplicas(NODE, store)
        await new.prepare([role(0, is_new=False)], lambda topic: SETTINGS)
        assert not threads.works
        task = asyncio.create_task(new.prepare([role(1)], lambda topic: SETTINGS))
        await asyncio.sleep(0)
        threads.step()
        await task
        assert names_in(store) == {"t-1"}

    asyncio.run(play())
