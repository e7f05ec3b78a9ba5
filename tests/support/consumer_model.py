"""A consumer that does things at random, and a model that knows which record must come next.

The model holds a position for each partition that is read. A record is right if it is the first
visible one at or behind its partition's position, and then the position is behind it. Everything
else, an old record, a lost one, one of a paused or foreign partition, is a mistake at once.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moldau import Consumer, Producer, TopicPartition, errors
from tests.support.eventually import eventually
from tests.support.group_members import Member
from tests.support.topics import create_topic

PARTITIONS = 4
RECORDS = 200
FAULTS = (ValueError, AttributeError, RuntimeError, OSError, AssertionError, MemoryError)


def fill_topic(bootstrap: str, topic: str) -> dict[TopicPartition, list[int]]:
    """Four partitions of records that name their partition: plain, compressed, in batches of one
    and in transactions of which many are aborted. Returns the offsets that a reader of committed
    records sees."""
    create_topic(bootstrap, topic, PARTITIONS)
    kinds: tuple[dict[str, Any], ...] = ({}, {"compression_type": "gzip"}, {"batch_size": 1})
    for index, options in enumerate(kinds):
        with Producer(bootstrap_servers=bootstrap, **options) as producer:
            for number in range(RECORDS):
                producer.send(topic, b"%d/%d" % (index, number), partition=index)
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        visible: list[int] = []
        for turn in range(RECORDS // 10):
            producer.begin_transaction()
            values = [b"3/%d/%d" % (turn, number) for number in range(turn % 7 + 1)]
            sent = [producer.send(topic, value, partition=3) for value in values]
            producer.flush()
            if turn % 3:
                producer.abort_transaction()
            else:
                visible += [delivery.result(30).offset for delivery in sent]
                producer.commit_transaction()
    plain = {TopicPartition(topic, index): list(range(RECORDS)) for index in range(3)}
    return plain | {TopicPartition(topic, 3): visible}


class Model:
    def __init__(self, visible: Mapping[TopicPartition, list[int]]) -> None:
        self.visible = visible
        self.positions: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.delivered = 0

    def expected(self, tp: TopicPartition) -> int | None:
        """The offset of the next record, None at the end."""
        offsets = self.visible[tp]
        place = bisect_left(offsets, self.positions[tp])
        return offsets[place] if place < len(offsets) else None

    def hand(self, tp: TopicPartition, offset: int, value: bytes) -> None:
        assert tp in self.positions, f"{tp} at {offset} is not read here"
        assert tp not in self.paused, f"{tp} at {offset} is paused"
        assert value.startswith(b"%d/" % tp.partition), (tp, offset, value)
        assert offset == self.expected(tp), f"{tp}: {offset} came, not {self.expected(tp)}"
        self.positions[tp] = offset + 1
        self.delivered += 1

    def check_position(self, tp: TopicPartition, told: int) -> None:
        wanted, upcoming = self.positions[tp], self.expected(tp)
        assert told >= wanted, f"{tp} is at {told}, before {wanted}"
        assert upcoming is None or told <= upcoming, f"{tp} is at {told}, beyond {upcoming}"

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self.positions[tp] = self.committed.get(tp, 0)
            self.paused.discard(tp)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self.positions.pop(tp, None)
            self.paused.discard(tp)

    @property
    def left(self) -> int:
        return sum(
            len(self.visible[tp]) - bisect_left(self.visible[tp], position)
            for tp, position in self.positions.items()
        )


class Interceptor:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def on_consume(self, records: Any) -> None:
        if self._subject.rolls(0.1):
            raise RuntimeError("made to fail")


class Subject:
    """The consumer that is watched, with deserializers, interceptors and listeners that fail."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        visible: Mapping[TopicPartition, list[int]],
        dice: random.Random,
        strategy: str | None,
        group: str,
    ) -> None:
        self.dice = dice
        self.topic = topic
        self.model = Model(visible)
        self.told = Counter[str]()
        self.is_quiet = False
        """Whether nothing fails any more."""
        self._bad: dict[bytes, type[Exception]] = {}
        """Values that the deserializer refuses, and how."""
        self._rival: Member | None = None
        self._options: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 50,
        }
        if strategy is not None:
            self._options |= {"group_id": group, "partition_assignment_strategy": strategy}
        self.consumer = Consumer(
            auto_offset_reset="earliest",
            value_deserializer=self._deserialize,
            interceptor_classes=[Interceptor(self)],
            consumer_timeout_ms=500,
            max_poll_records=dice.choice((7, 100, 1000)),
            max_partition_fetch_bytes=dice.choice((500, 5000, 1 << 20)),
            fetch_max_bytes=dice.choice((1000, 20_000, 1 << 24)),
            **self._options,
        )
        self.is_member = strategy is not None

    def rolls(self, chance: float) -> bool:
        return not self.is_quiet and self.dice.random() < chance

    # What fails.

    def _deserialize(self, data: bytes) -> bytes:
        if self.rolls(0.0005):
            raise KeyboardInterrupt
        if self.rolls(0.003):
            self._bad[data] = self.dice.choice(FAULTS)
        if data in self._bad and not self.is_quiet:
            raise self._bad[data]("made to fail")
        return data

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.told["rebalances"] += 1
        self.model.assign(partitions)
        for tp in partitions:
            if self.rolls(0.1):
                self.seek(tp)
        if self.rolls(0.05):
            raise LookupError("made to fail")

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.rolls(0.5):
            self.commit()
        self.model.release(partitions)
        if self.rolls(0.05):
            raise LookupError("made to fail")

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.model.release(partitions)

    # What it does.

    def step(self) -> None:
        alone = [(self.poll, 12), (self.iterate, 4), (self.table, 3), (self.check, 3)]
        moves = [(self.seek, 4), (self.edge, 1), (self.pause, 2), (self.resume, 3), (self.wake, 1)]
        group = [(self.rebalance, 2), (self.rival, 1), (self.commit, 2), (self.subscribe_anew, 0.3)]
        chosen: list[tuple[Callable[[], None], float]] = [*alone, *moves]
        chosen += group if self.is_member else [(self.assign, 4)]
        acts, weights = zip(*chosen, strict=True)
        act = self.dice.choices(acts, weights)[0]
        self.told[act.__name__] += 1
        act()

    def start(self) -> None:
        if self.is_member:
            self.consumer.subscribe([self.topic], self)  # type: ignore[arg-type]
        else:
            self.assign()

    def _guarded(self, read: Callable[[], None]) -> None:
        """One call that reads; what fails in it must leave positions where they are."""
        try:
            read()
        except errors.RecordDeserializationError as error:
            tp = error.topic_partition
            assert error.offset == self.model.expected(tp), (tp, error.offset)
            assert error.value is not None
            assert isinstance(error.__cause__, self._bad[error.value])
            self.model.check_position(tp, self.consumer.position(tp))
            self.told["refused"] += 1
            if self.rolls(0.5):
                self._seek(tp, error.offset + 1)
            elif self.rolls(0.5):
                del self._bad[error.value]
        except KeyboardInterrupt:
            self.told["broken off"] += 1
        except LookupError:
            self.told["angry listeners"] += 1
        except errors.WakeupError:
            self.told["woken"] += 1

    def poll(self, seconds: float | None = None) -> None:
        wait = self.dice.choice((0, 0.02, 0.3)) if seconds is None else seconds
        count = self.dice.choice((1, 5, 50, None))

        def read() -> None:
            for record in self.consumer.poll(wait, max_records=count):
                self.model.hand(record.topic_partition, record.offset, record.value)

        self._guarded(read)

    def iterate(self) -> None:
        count = self.dice.randrange(1, 60)

        def read() -> None:
            nonlocal count
            for record in self.consumer:
                self.model.hand(record.topic_partition, record.offset, record.value)
                count -= 1
                if not count:
                    break
                if self.rolls(0.02):
                    self.dice.choice((self.seek, self.pause, self.check))()

        self._guarded(read)

    def table(self) -> None:
        def read() -> None:
            rows = self.consumer.poll_arrow(0.2, max_records=self.dice.choice((1, 100)))
            columns = [rows.column(name).to_pylist() for name in ("partition", "offset", "value")]
            for partition, offset, value in zip(*columns, strict=True):
                self.model.hand(TopicPartition(self.topic, partition), offset, value)

        self._guarded(read)

    def check(self) -> None:
        for tp in sorted(self.model.positions):
            self.model.check_position(tp, self.consumer.position(tp))

    def _pick(self) -> TopicPartition | None:
        return self.dice.choice(sorted(self.model.positions)) if self.model.positions else None

    def _seek(self, tp: TopicPartition, offset: int) -> None:
        self.consumer.seek(tp, offset)
        self.model.positions[tp] = offset

    def seek(self, tp: TopicPartition | None = None) -> None:
        tp = tp or self._pick()
        if tp is not None:
            self._seek(tp, self.dice.choice([0, *self.model.visible[tp]]))

    def edge(self) -> None:
        tp = self._pick()
        if tp is not None:
            self.consumer.seek_to_beginning([tp])
            self.model.positions[tp] = 0

    def pause(self) -> None:
        tp = self._pick()
        if tp is not None:
            self.consumer.pause([tp])
            self.model.paused.add(tp)

    def resume(self) -> None:
        self.consumer.resume(sorted(self.model.positions))
        self.model.paused.clear()

    def wake(self) -> None:
        self.consumer.wakeup()

    def assign(self) -> None:
        every = sorted(self.model.visible)
        some = self.dice.sample(every, self.dice.randrange(1, len(every) + 1))
        self.consumer.assign(some)
        self.told["assignments"] += 1
        self.model.release([tp for tp in self.model.positions if tp not in some])
        self.model.assign([tp for tp in some if tp not in self.model.positions])

    def commit(self) -> None:
        wanted = dict(self.model.positions)
        try:
            self.consumer.commit(wanted)
        except (errors.RebalanceInProgressError, errors.CommitFailedError):
            self.told["commits refused"] += 1
        else:
            self.model.committed |= wanted

    def rebalance(self) -> None:
        self.consumer.enforce_rebalance()

    def subscribe_anew(self) -> None:
        self._guarded(self.consumer.unsubscribe)
        assert not self.model.positions
        self.start()

    def rival(self) -> None:
        """Another member comes, or goes again."""
        if self._rival is None:
            self._rival = Member("rival", [self.topic], **self._options)
        else:
            rival, self._rival = self._rival, None
            rival.stop()

    # The end.

    def finish(self) -> None:
        """With nothing failing any more, everything that is left comes."""
        self.is_quiet = True
        if self._rival is not None:
            self.rival()
        if self.is_member:
            self.rebalance()
        else:
            self.consumer.assign(sorted(self.model.visible))
            self.model.assign(set(self.model.visible) - set(self.model.positions))
        seen = self.told["rebalances"]

        def is_over() -> bool:
            self.resume()
            self.poll(1.0)
            is_whole = len(self.model.positions) == PARTITIONS
            settled = not self.is_member or self.told["rebalances"] > seen
            return is_whole and settled and not self.model.left

        eventually(is_over, 120)
        self.check()

    def close(self) -> None:
        self.is_quiet = True
        if self._rival is not None:
            self.rival()
        self.consumer.close()
