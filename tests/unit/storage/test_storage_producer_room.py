"""Producers that are remembered have a limit: who is forgotten first, and who must come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.errors import ApiError, Error
from moldau.storage.log_state import producer_room
from moldau.storage.log_state.producer_room import KEPT_MINUTES, PRODUCER_BYTES, ProducerRoom
from moldau.storage.log_state.producer_state import Origin, ProducerStates
from tests.support.logs import LogBench, SmallSettings, batch

COUNT_MAX = 100


def states(producers: range, *, transactional: bool = False, name: str = "t-0") -> ProducerStates:
    made = ProducerStates(name)
    write(made, producers, transactional=transactional)
    return made


def write(partition: ProducerStates, producers: range, *, transactional: bool = False) -> None:
    for offset, producer_id in enumerate(producers, 1000 * partition.minutes):
        partition.record_data(producer_id, 0, 0, offset, offset, 0, transactional)


def room(count_max: int = COUNT_MAX) -> ProducerRoom:
    return ProducerRoom.of(86_400_000, count_max * PRODUCER_BYTES)


def pass_minutes(minutes: int, into: ProducerRoom, *partitions: ProducerStates) -> None:
    for _ in range(minutes):
        for _ in into.pass_minute(lambda: partitions):
            pass


def test_nobody_is_forgotten_while_there_is_room() -> None:
    partition, space = states(range(80)), room()
    pass_minutes(100, space, partition)
    assert len(partition) == 80


def test_the_longest_silent_are_forgotten_first() -> None:
    partition, space = states(range(40)), room()
    pass_minutes(5, space, partition)
    write(partition, range(40, 95))
    pass_minutes(KEPT_MINUTES, space, partition)
    assert [entry.producer_id for entry in partition.entries] == list(range(40, 95))


def test_who_wrote_within_ten_minutes_is_remembered_however_many_there_are() -> None:
    partition, space = states(range(300)), room()
    pass_minutes(KEPT_MINUTES, space, partition)
    assert len(partition) == 300
    pass_minutes(1, space, partition)
    assert not len(partition)


def test_a_producer_with_an_open_transaction_is_never_forgotten() -> None:
    partition, space = states(range(200), transactional=True), room()
    pass_minutes(3 * KEPT_MINUTES, space, partition)
    assert len(partition) == 200


def test_a_new_producer_comes_back_until_there_is_room() -> None:
    partition, space = states(range(COUNT_MAX)), room()
    pass_minutes(1, space, partition)
    with pytest.raises(
        ApiError, match=r"t-0 takes no new producer, 500, now: .* 153600 bytes"
    ) as e:
        space.take_in(partition, 500)
    assert e.value.error is Error.NOT_ENOUGH_REPLICAS
    pass_minutes(KEPT_MINUTES, space, partition)
    space.take_in(partition, 500)


def test_producers_are_counted_between_two_minutes_too() -> None:
    partition, space = ProducerStates("t-0"), room()
    for producer_id in range(COUNT_MAX):
        space.take_in(partition, producer_id)
        write(partition, range(producer_id, producer_id + 1))
    with pytest.raises(ApiError):
        space.take_in(partition, 500)


def test_a_partition_that_is_full_of_producers_keeps_nobody_out_of_the_others() -> None:
    full, other, space = states(range(2 * COUNT_MAX)), states(range(5), name="u-0"), room()
    pass_minutes(1, space, full, other)
    for producer_id in range(500, 545):
        space.take_in(other, producer_id)
        write(other, range(producer_id, producer_id + 1))
    with pytest.raises(ApiError, match="t-0"):
        space.take_in(full, 500)
    with pytest.raises(ApiError, match="u-0"):
        space.take_in(other, 600)


def test_what_was_rebuilt_counts_as_just_written() -> None:
    rebuilt, space = ProducerStates("t-0", states(range(300)).entries), room()
    pass_minutes(KEPT_MINUTES, space, rebuilt)
    assert len(rebuilt) == 300


def test_a_log_refuses_new_producers_only(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bench.producer_room = room(1)
    log = bench.crash_and_open()
    bench.append(batch(producer_id=1, epoch=0, sequence=0))
    with pytest.raises(ApiError, match="takes no new producer"):
        bench.append(batch(producer_id=2, epoch=0, sequence=0))
    assert log.offset_end == 1
    bench.append(batch(producer_id=1, epoch=0, sequence=1))
    bench.append(batch(producer_id=1, epoch=0, sequence=1))
    bench.append(batch())
    bench.append(batch(producer_id=3, epoch=0), origin=Origin.COORDINATOR)
    assert log.offset_end == 4


def test_a_forgotten_producer_writes_on_with_its_next_sequence(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bench.append(batch(producer_id=1, epoch=0, sequence=0))
    assert bench.log.producers.forget_silent(0) == 1
    bench.append(batch(producer_id=1, epoch=0, sequence=1))
    assert bench.log.offset_end == 2


def test_very_many_producers_are_not_written_at_every_roll_and_a_crash_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing them takes the loop's time, and who makes small segments could ask for it again and
    again."""
    monkeypatch.setattr(producer_room, "KEPT_AT_ONCE", 2)
    monkeypatch.setattr(producer_room, "PAUSE_MS_PER_THOUSAND", 60_000)
    settings = SmallSettings(segment_bytes=len(batch(producer_id=1, epoch=0, sequence=0)))
    bench = LogBench(tmp_path, settings)
    for producer_id in range(6):
        bench.append(batch(producer_id=producer_id, epoch=0, sequence=0))
    snapshots = sorted(path.name[:20].lstrip("0") for path in bench.directory.glob("*.snapshot"))
    assert snapshots == ["1", "2", "3"], "the third had room, the next come too soon"
    bench.crash_and_open()
    assert sorted(entry.producer_id for entry in bench.log.producers.entries) == list(range(6))


def test_many_producers_are_written_again_after_a_pause_that_is_as_long_as_they_are_many() -> None:
    space = room()
    assert space.may_keep(50_000, 1_000)
    assert space.may_keep(producer_room.KEPT_AT_ONCE, 1_000), "few are always written"
    assert not space.may_keep(50_000, 3_999)
    assert space.may_keep(50_000, 4_000)
