"""`moldau.recovery` on a real broker, by processes that are killed -9 at every step they have.

After each death another life takes over. In the end the outputs must be those of the model: none
missing, none twice, and every position right, which it is only if the state was rebuilt right.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest

import moldau.testing
from moldau import Consumer, Producer, TopicPartition, errors
from moldau.recovery import FullPart, Increment, RecoveryError, StatefulConsumer, last_record
from moldau.recovery.snapshot_records import FULL_HEADER
from moldau.testing.local_broker import LocalBroker
from tests.support import recovering, seeds
from tests.support.eventually import eventually
from tests.support.recovering import CLEARING, GROUP, POSITIONS, TOPICS, TRADES

PARTITIONS = 2
STEPS = {
    # In a life that restores:
    "fence": 1,
    "find": 2,
    "load": 1,
    "begin": 2,
    "replay": 1,
    # In one that works:
    "send": 4,
    "increment": 3,
    "offset": 2,
    "commit": 3,
    "committed": 4,
    "full": 1,
    "full sent": 2,
    "full stored": 1,
}
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}
STEADY = {"group.instance.id": "steady"}
DEADLINE_SECONDS = 60.0


@contextmanager
def make_broker(*, with_faults: bool = False) -> Iterator[LocalBroker]:
    with moldau.testing.broker(SETTINGS, with_faults=with_faults) as broker:
        for topic in (TRADES, POSITIONS, TOPICS.increments, TOPICS.fulls):
            broker.create_topic(topic, partitions=PARTITIONS)
        yield broker


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with make_broker() as broker:
        yield broker


def trades(count: int, chance: Random) -> list[str]:
    accounts = ["ann", "bob", "eve"]
    return [
        "full" if chance.random() < 0.02 else f"{chance.choice(accounts)} {chance.randrange(-9, 9)}"
        for _ in range(count)
    ]


def increment(bootstrap: str, partition: int = 0) -> Increment | None:
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    with Consumer(settings, auto_offset_reset="earliest") as consumer:
        last = last_record(consumer, TopicPartition(TOPICS.increments, partition))
    return Increment.decoded(last.value if last else None)


def finished(bootstrap: str) -> bool:
    ends = {
        number: rows[-1][0]
        for number, rows in recovering.read_all(bootstrap, TRADES, PARTITIONS).items()
    }
    rows = {number: increment(bootstrap, number) for number in ends}
    return all(row is not None and row.end >= ends[number] for number, row in rows.items())


def end_of_life(process: BaseProcess, seconds: float = DEADLINE_SECONDS) -> int | None:
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
        pytest.fail("it did not end in time")
    return process.exitcode


def work_to_the_end(bootstrap: str, batch: int = 3) -> None:
    process = recovering.start(bootstrap, STEADY, batch=batch)
    try:
        eventually(lambda: finished(bootstrap), DEADLINE_SECONDS)
    finally:
        process.terminate()
        assert end_of_life(process) == 0


def die_and_go_on(broker: LocalBroker, lives: list[tuple[str, int]], chance: Random) -> None:
    for life in [("full sent", 3), *lives]:
        recovering.feed(broker.bootstrap, trades(60, chance), PARTITIONS)
        process = recovering.start(broker.bootstrap, STEADY, life)
        assert end_of_life(process) == -signal.SIGKILL, life
    work_to_the_end(broker.bootstrap)
    recovering.check_against_model(broker.bootstrap, PARTITIONS)


def test_killed_at_every_step_its_outputs_are_those_of_the_model(broker: LocalBroker) -> None:
    chance = seeds.chance()
    die_and_go_on(broker, [(step, chance.randint(1, STEPS[step])) for step in STEPS], chance)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_a_hundred_times_its_outputs_are_those_of_the_model(broker: LocalBroker) -> None:
    chance = seeds.chance()
    steps = [chance.choice(list(STEPS)) for _ in range(100)]
    die_and_go_on(broker, [(step, chance.randint(1, STEPS[step])) for step in steps], chance)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_at_random_moments_its_outputs_are_those_of_the_model(broker: LocalBroker) -> None:
    chance = seeds.chance()
    recovering.feed(broker.bootstrap, trades(20_000, chance), PARTITIONS)
    for _ in range(50):
        process = recovering.start(broker.bootstrap, STEADY)
        time.sleep(chance.uniform(0.2, 1.5))
        process.kill()
        assert end_of_life(process) == -signal.SIGKILL
    work_to_the_end(broker.bootstrap)
    recovering.check_against_model(broker.bootstrap, PARTITIONS)


def test_the_numbers_of_the_example(broker: LocalBroker, tmp_path: Path) -> None:
    """1001 records are done, a full snapshot of offset 1000 stands at 0, the increment says 0 and
    1001; whoever comes next loads it, computes 1001 again, and 1002 is the first new one."""
    bootstrap, first, second = broker.bootstrap, tmp_path / "first", tmp_path / "second"
    fill(bootstrap, ["ann 1"] * 1000 + ["full"])
    process = recovering.start(bootstrap, STEADY, notes=first, batch=1001, records=5000)
    eventually(lambda: first.exists() and "0 full sent" in first.read_text())
    fill(bootstrap, ["ann 1"])
    eventually(lambda: increment(bootstrap) == Increment(1001, (0,), 0, 1))
    process.kill()
    process.join()
    fill(bootstrap, ["ann 1"])
    process = recovering.start(bootstrap, STEADY, notes=second, records=5000)
    eventually(lambda: increment(bootstrap) == Increment(1002, (0,), 0, 1))
    process.kill()
    process.join()
    passed = [line.split(" ", 1)[1] for line in second.read_text().splitlines()]
    assert [line for line in passed if line[0] == "0"].count("0 replay") == 1
    assert passed.count("0 load") == 1
    values = [value for _, value in recovering.read_all(bootstrap, POSITIONS, 1)[0]]
    assert values[-2:] == ["1001 1001", "1002 1002"]
    recovering.check_against_model(bootstrap, PARTITIONS)


def test_a_full_snapshot_that_is_gone_or_torn_is_done_without(broker: LocalBroker) -> None:
    bootstrap = broker.bootstrap
    for spoil in (delete_fulls, tear_fulls, delete_increments):
        recovering.feed(bootstrap, trades(60, seeds.chance()), PARTITIONS)
        work_to_the_end(bootstrap)
        assert all(increment(bootstrap, number).full is not None for number in range(PARTITIONS))
        spoil(broker)
    recovering.feed(bootstrap, trades(60, seeds.chance()), PARTITIONS)
    work_to_the_end(bootstrap)
    recovering.check_against_model(bootstrap, PARTITIONS)


def delete_fulls(broker: LocalBroker) -> None:
    every = [TopicPartition(TOPICS.fulls, number) for number in range(PARTITIONS)]
    broker.admin().delete_records(dict.fromkeys(every, -1))


def tear_fulls(broker: LocalBroker) -> None:
    """The last one of each partition is cut: what the increments name is half of a snapshot."""
    with broker.producer() as producer:
        for number in range(PARTITIONS):
            known = increment(broker.bootstrap, number)
            assert known is not None
            torn = FullPart("torn", known.end, 0, 2, 0)
            headers = [(FULL_HEADER, torn.encoded())]
            where = producer.send(TOPICS.fulls, b"{", None, headers, number).result(10).offset
            told = Increment(known.end, (where, *known.fulls), known.origin, known.number + 1)
            producer.send(TOPICS.increments, told.encoded(), partition=number)


def delete_increments(broker: LocalBroker) -> None:
    every = [TopicPartition(TOPICS.increments, number) for number in range(PARTITIONS)]
    broker.admin().delete_records(dict.fromkeys(every, -1))


def test_a_state_that_cannot_be_rebuilt_is_told_and_not_made_up(broker: LocalBroker) -> None:
    bootstrap = broker.bootstrap
    recovering.feed(bootstrap, trades(60, seeds.chance()), PARTITIONS)
    work_to_the_end(bootstrap)
    delete_fulls(broker)
    broker.admin().delete_records({TopicPartition(TRADES, 0): 5})
    before = recovering.read_all(bootstrap, POSITIONS, PARTITIONS)
    settings = {"bootstrap.servers": bootstrap, "group.id": GROUP, **STEADY}
    with (
        pytest.raises(RecoveryError, match="trades-0: the state after offset 29 cannot be rebuilt"),
        StatefulConsumer(CLEARING, TOPICS, settings) as consumer,
    ):
        consumer.run()
    assert recovering.read_all(bootstrap, POSITIONS, PARTITIONS) == before


def test_an_application_that_fails_is_heard(broker: LocalBroker) -> None:
    recovering.feed(broker.bootstrap, ["ann many"], PARTITIONS)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, **STEADY}
    with (
        pytest.raises(ValueError, match="many"),
        StatefulConsumer(CLEARING, TOPICS, settings) as consumer,
    ):
        consumer.run()
    assert increment(broker.bootstrap) is None


ROAMING = {"session.timeout.ms": "1000", "heartbeat.interval.ms": "200"}
REQUESTS = (
    *("Fetch", "Produce", "Metadata", "FindCoordinator", "ListOffsets", "OffsetFetch"),
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "InitProducerId"),
    *("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
)


@contextmanager
def stopped(broker: LocalBroker, pid: int | None) -> Iterator[None]:
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


@contextmanager
def cut_off(broker: LocalBroker, pid: int | None) -> Iterator[None]:
    faults = broker.faults
    cuts = [faults.lose_requests(name, client_id="first", count=None) for name in REQUESTS]
    yield
    for cut in cuts:
        cut.end()


@pytest.mark.parametrize(
    "isolated", [cut_off, pytest.param(stopped, marks=pytest.mark.long)], ids=lambda f: f.__name__
)
def test_a_member_that_returns_after_its_successor_took_over_does_no_harm(
    isolated: Callable[[LocalBroker, int | None], AbstractContextManager[None]],
) -> None:
    """It holds queued records and an open transaction, and must write none of it."""
    chance = seeds.chance()
    with make_broker(with_faults=True) as broker:
        bootstrap = broker.bootstrap
        recovering.feed(bootstrap, trades(1500, chance), PARTITIONS)
        first = recovering.start(bootstrap, {**ROAMING, "client.id": "first"})
        eventually(lambda: increment(bootstrap) is not None)
        with isolated(broker, first.pid):
            second = recovering.start(bootstrap, ROAMING)
            reached = end_of(bootstrap)
            eventually(lambda: end_of(bootstrap) > reached + 60, DEADLINE_SECONDS)
        recovering.feed(bootstrap, trades(100, chance), PARTITIONS)
        eventually(lambda: finished(bootstrap), DEADLINE_SECONDS)
        for process in (first, second):
            process.terminate()
            assert end_of_life(process) == 0
        recovering.check_against_model(bootstrap, PARTITIONS)


def end_of(bootstrap: str) -> int:
    known = increment(bootstrap)
    return -1 if known is None else known.end


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_members_come_go_die_and_return_and_its_outputs_are_those_of_the_model(
    broker: LocalBroker,
) -> None:
    chance = seeds.chance()
    members: list[BaseProcess] = []
    for _ in range(60):
        recovering.feed(broker.bootstrap, trades(300, chance), PARTITIONS)
        if len(members) < 3:
            members.append(recovering.start(broker.bootstrap, ROAMING))
        member = chance.choice(members)
        match chance.randrange(4):
            case 0:
                with stopped(broker, member.pid):
                    time.sleep(chance.uniform(0.1, 2.5))
            case 1:
                member.kill()
                members.remove(member)
            case 2:
                member.terminate()
                # One that has just begun does not listen yet, and simply dies.
                assert end_of_life(member) in (0, -signal.SIGTERM)
                members.remove(member)
            case _:
                time.sleep(chance.uniform(0.1, 1.0))
    for member in members:
        member.kill()
    # Much is left, and transactions of three records would take minutes.
    work_to_the_end(broker.bootstrap, batch=200)
    recovering.check_against_model(broker.bootstrap, PARTITIONS)


def test_who_restores_before_fencing_does_records_twice(broker: LocalBroker) -> None:
    """Why the order is what it is: the same steps by hand, the wrong way round and the right."""
    for name, fences_first in (("wrong", False), ("right", True)):
        done = TopicPartition(f"{name}-done", 0)
        broker.create_topic(done.topic)
        settings = {"transactional.id": f"{name}-0"}
        with broker.producer(settings) as rival, broker.producer(settings) as successor:
            rival.init_transactions()
            do_one(rival, done, 1000)
            if fences_first:
                successor.init_transactions()
            restored = last_done(broker, done)
            if fences_first:
                with pytest.raises((errors.ProducerFencedError, errors.InvalidProducerEpochError)):
                    do_one(rival, done, restored + 1)
            else:
                do_one(rival, done, restored + 1)
                successor.init_transactions()
            do_one(successor, done, restored + 1)
        values = [value for _, value in recovering.read_all(broker.bootstrap, done.topic, 1)[0]]
        assert values == (["1000", "1001"] if fences_first else ["1000", "1001", "1001"])


def do_one(producer: Producer, done: TopicPartition, number: int) -> None:
    with producer.transaction():
        producer.send(done.topic, str(number))


def last_done(broker: LocalBroker, done: TopicPartition) -> int:
    with broker.consumer(isolation_level="read_committed") as consumer:
        found = last_record(consumer, done)
    assert found is not None
    return int(found.value)


def test_the_last_record_is_found_behind_markers_and_what_was_aborted(broker: LocalBroker) -> None:
    partition = TopicPartition("lasting", 0)
    broker.create_topic("lasting")
    with broker.consumer(isolation_level="read_committed") as consumer:
        assert last_record(consumer, partition) is None
        with broker.producer(transactional_id="lasting") as producer:
            producer.init_transactions()
            do_one(producer, partition, 7)
            assert int(last_record(consumer, partition).value) == 7
            for _ in range(40):
                producer.begin_transaction()
                producer.send("lasting", b"8")
                producer.flush()
                producer.abort_transaction()
            assert int(last_record(consumer, partition).value) == 7


def fill(bootstrap: str, values: list[str]) -> None:
    recovering.feed(bootstrap, values, 1)
