"""Replicas that move between the log directories of one broker, seen by who asks about them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from moldau.config.broker_config import BrokerConfig
from moldau.config.topic_config import TopicConfig
from moldau.engine.timers import Timers
from moldau.model.cluster import ClusterImage, PartitionImage, TopicImage
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.replication.delayed_requests import Waiting
from moldau.replication.log_dir_reports import describe, place_in
from moldau.replication.replica import Replica
from moldau.replication.replicas import Replicas
from moldau.storage.directories.log_store import LogStore
from moldau.storage.storage_faults import StorageFault
from tests.support.at_once import AtOnce
from tests.support.logs import batch, read_all
from tests.support.virtual_time import ManualTime

NODE = 1
TOPIC_ID = b"t" * 16
PLACE = TopicPartition("t", 0)
SECONDS_MAX = 20
BATCH_MS = 1_700_000_000_000


class TwoDirectories:
    def __init__(self, root: Path) -> None:
        self.paths = [str(root / name) for name in ("a", "b")]
        self.config, _ = BrokerConfig.parse({"node.id": "1", "log.dirs": ",".join(self.paths)})
        time = ManualTime()
        self.clock = time.clock
        self.waiting = Waiting(asyncio.get_running_loop(), Timers(self.clock, time.call_later))
        self.store = LogStore(
            self.paths,
            node_id=NODE,
            settings_for=lambda topic: TopicConfig.of(self.config, {}),
            clock=self.clock,
            threads=AtOnce(),
        )
        self.store.open()
        self.empty = ClusterImage("", NODE)
        self.replicas = Replicas(
            NODE, self.store, self.waiting, self.clock, self.config, self.empty
        )

    def place(self, *leaders: int) -> None:
        """A topic whose partitions are each on one broker alone."""
        states = tuple(PartitionImage(each, 0, (each,), (each,), 0, (), ()) for each in leaders)
        image = ClusterImage("c", NODE, topics={"t": TopicImage("t", TOPIC_ID, states)})
        self.replicas.apply(self.empty, image)
        self.empty = image

    def replica(self) -> Replica:
        return self.replicas.find("t", 0)

    def append(self, count: int) -> None:
        for _ in range(count):
            self.replica().append(memoryview(bytearray(batch(1))), 1, BATCH_MS)

    @property
    def other(self) -> str:
        home = os.path.dirname(self.replica().log.directory)
        return self.paths[1 - self.paths.index(home)]

    def rows(self) -> dict[str, list[tuple[int, bool]]]:
        return {
            each.path: [(row.offset_lag, row.is_future) for row in each.partitions]
            for each in describe(self.replicas, None)
        }

    async def until_moved(self) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while self.replicas.moves.futures:
                await asyncio.sleep(0.005)


def play(root: Path, scenario: Callable[[TwoDirectories], Awaitable[None]]) -> None:
    async def run() -> None:
        two = TwoDirectories(root)
        try:
            await scenario(two)
        finally:
            two.replicas.moves.stop()

    asyncio.run(run())


def test_a_copy_is_shown_with_its_lag_until_it_takes_over(tmp_path: Path) -> None:
    async def scenario(two: TwoDirectories) -> None:
        two.place(NODE)
        two.append(5)
        target, replica = two.other, two.replica()
        assert await place_in(two.replicas, target, "t", 0) is Error.NONE
        assert two.rows()[target] == [(5, True)]
        await two.until_moved()
        assert two.rows()[target] == [(0, False)]
        assert two.replica() is replica
        assert os.path.dirname(replica.log.directory) == target
        two.append(1)
        assert [header.base_offset for header in read_all(replica.log)] == list(range(6))

    play(tmp_path, scenario)


def test_asking_for_the_place_it_has_ends_a_move(tmp_path: Path) -> None:
    async def scenario(two: TwoDirectories) -> None:
        two.place(NODE)
        home, target = os.path.dirname(two.replica().log.directory), two.other
        assert await place_in(two.replicas, target, "t", 0) is Error.NONE
        assert await place_in(two.replicas, home, "t", 0) is Error.NONE
        assert two.rows() == {home: [(0, False)], target: []}
        await asyncio.sleep(0.02)
        assert os.path.dirname(two.replica().log.directory) == home

    play(tmp_path, scenario)


def test_asking_twice_for_the_same_place_is_one_move(tmp_path: Path) -> None:
    async def scenario(two: TwoDirectories) -> None:
        two.place(NODE)
        target = two.other
        assert await place_in(two.replicas, target, "t", 0) is Error.NONE
        future = two.replicas.moves.futures[PLACE]
        assert await place_in(two.replicas, target, "t", 0) is Error.NONE
        assert two.replicas.moves.futures[PLACE] is future

    play(tmp_path, scenario)


def test_a_replica_that_is_to_come_is_made_where_it_is_wanted(tmp_path: Path) -> None:
    async def scenario(two: TwoDirectories) -> None:
        two.place(NODE, 2)
        # Two logs there and none in the other one: it would go there by itself.
        crowded = os.path.dirname(two.replica().log.directory)
        assert await place_in(two.replicas, crowded, "t", 1) is Error.REPLICA_NOT_AVAILABLE
        two.place(NODE, NODE)
        assert os.path.dirname(two.replicas.find("t", 1).log.directory) == crowded

    play(tmp_path, scenario)


def test_what_cannot_be_moved_is_refused_as_in_apache_kafka(tmp_path: Path) -> None:
    async def scenario(two: TwoDirectories) -> None:
        two.place(NODE)
        target = two.other
        assert await place_in(two.replicas, "/nowhere", "t", 0) is Error.LOG_DIR_NOT_FOUND
        unknown = await place_in(two.replicas, target, "u", 0)
        assert unknown is Error.UNKNOWN_TOPIC_OR_PARTITION
        failed = next(each for each in two.store.directories if each.path == target)
        failed.fault = StorageFault("cannot use", target, reason="pulled out")
        assert await place_in(two.replicas, target, "t", 0) is Error.KAFKA_STORAGE_ERROR

    play(tmp_path, scenario)


def test_a_replica_that_leaves_the_broker_takes_its_copy_along(tmp_path: Path) -> None:
    async def scenario(two: TwoDirectories) -> None:
        two.place(NODE)
        target = two.other
        await place_in(two.replicas, target, "t", 0)
        two.place(2)
        await two.until_moved()
        assert not [name for name in os.listdir(target) if name.endswith("-future")]

    play(tmp_path, scenario)


def test_a_look_for_old_copies_leaves_those_of_this_run_alone(tmp_path: Path) -> None:
    async def scenario(two: TwoDirectories) -> None:
        two.place(NODE)
        two.append(5)
        target = two.other
        await place_in(two.replicas, target, "t", 0)
        (copy,) = (name for name in os.listdir(target) if name.endswith("-future"))
        two.replicas.moves.look()
        assert os.listdir(os.path.join(target, copy))
        await two.until_moved()
        assert len(read_all(two.replica().log)) == 5
        assert os.path.dirname(two.replica().log.directory) == target

    play(tmp_path, scenario)


def test_a_new_wish_counts_for_more_than_what_an_earlier_run_left(tmp_path: Path) -> None:
    async def begin(two: TwoDirectories) -> None:
        two.place(NODE)
        two.append(3)
        await place_in(two.replicas, two.other, "t", 0)
        two.replicas.moves.stop()
        two.store.close(two.replicas.high_watermarks())

    async def go_on(two: TwoDirectories) -> None:
        two.place(NODE)
        home = os.path.dirname(two.replica().log.directory)
        assert await place_in(two.replicas, home, "t", 0) is Error.NONE
        two.replicas.moves.look()
        assert not two.replicas.moves.futures
        assert not [name for name in os.listdir(two.other) if name.startswith("t-0")]

    play(tmp_path, begin)
    play(tmp_path, go_on)


def test_a_copy_of_an_earlier_topic_moves_nothing(tmp_path: Path) -> None:
    async def begin(two: TwoDirectories) -> None:
        two.place(NODE)
        await place_in(two.replicas, two.other, "t", 0)
        two.replicas.moves.stop()
        two.store.close(two.replicas.high_watermarks())

    async def go_on(two: TwoDirectories) -> None:
        state = PartitionImage(NODE, 0, (NODE,), (NODE,), 0, (), ())
        topic = TopicImage("t", b"u" * 16, (state,))
        two.replicas.apply(two.empty, ClusterImage("c", NODE, topics={"t": topic}))
        two.replicas.moves.look()
        assert not two.replicas.moves.futures
        assert not [n for path in two.paths for n in os.listdir(path) if n.endswith("-future")]

    play(tmp_path, begin)
    play(tmp_path, go_on)


def test_a_topic_made_anew_can_be_moved_though_a_copy_of_the_old_one_is_there(
    tmp_path: Path,
) -> None:
    async def scenario(two: TwoDirectories) -> None:
        two.place(NODE)
        home, target = os.path.dirname(two.replica().log.directory), two.other
        await place_in(two.replicas, target, "t", 0)
        two.replicas.moves.prefer(PLACE, home)
        state = PartitionImage(NODE, 0, (NODE,), (NODE,), 0, (), ())
        topic = TopicImage("t", b"u" * 16, (state,))
        two.replicas.apply(two.empty, ClusterImage("c", NODE, topics={"t": topic}))
        assert await place_in(two.replicas, target, "t", 0) is Error.NONE
        await two.until_moved()
        assert os.path.dirname(two.replica().log.directory) == target
        assert two.replica().log.topic_id == b"u" * 16

    play(tmp_path, scenario)


def test_a_move_that_a_stop_broke_off_is_taken_up_again(tmp_path: Path) -> None:
    async def begin(two: TwoDirectories) -> None:
        two.place(NODE)
        two.append(3)
        await place_in(two.replicas, two.other, "t", 0)
        two.replicas.moves.stop()
        two.store.close(two.replicas.high_watermarks())

    async def go_on(two: TwoDirectories) -> None:
        two.place(NODE)
        target = two.other
        two.replicas.moves.look()
        assert two.rows()[target] == [(3, True)]
        await two.until_moved()
        assert os.path.dirname(two.replica().log.directory) == target
        assert [name for name in os.listdir(target) if name.startswith("t-0")] == ["t-0"]

    play(tmp_path, begin)
    play(tmp_path, go_on)
