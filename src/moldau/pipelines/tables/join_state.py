"""The stateful processors of joins: between Spark's state stores and the rules of tables_versions.

Run on executors, one call per key and micro-batch. State has names, so it can be queried as a
DataFrame: `versions` and `buffered` of a stream and a table, `left` and `right` of two tables.

A key that falls silent is not called again, so each has one timer at the watermark at which its
rows are too old: without it their state would only grow.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from moldau.pipelines.tables.table_versions import Joined, StreamTableJoin, TableTableJoin, Timed

J = TypeVar("J", StreamTableJoin, TableTableJoin)


class JoinProcessor(StatefulProcessor, Generic[J]):
    """What both kinds of join do with a key: load its state, take rows or the time, store it."""

    on: str

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        join = self._load()
        results = join.take(*_sides(rows))
        self._store(join, timerValues)
        return iter([_output(self.on, key, each) for each in results])

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        self._store(self._load(), timerValues)
        return iter(())

    @abstractmethod
    def _load(self) -> J: ...

    @abstractmethod
    def _store(self, join: J, timer_values: Any) -> None: ...

    def close(self) -> None:
        """Spark closes the stores."""


@dataclass(eq=False)
class StreamTableProcessor(JoinProcessor[StreamTableJoin]):
    on: str
    stream: StructType
    table: StructType
    _: KW_ONLY
    history_ms: int
    forgets: bool
    keeps_unmatched: bool

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.timer = KeyTimer(handle)
        self.versions = handle.getListState("versions", _timed(self.table))
        self.buffered = handle.getListState("buffered", _timed(self.stream))

    def _load(self) -> StreamTableJoin:
        join = StreamTableJoin(history_ms=self.history_ms, keeps_unmatched=self.keeps_unmatched)
        join.versions = [_restored(row) for row in _listed(self.versions)]
        join.buffered = [_restored(row) for row in _listed(self.buffered)]
        return join

    def _store(self, join: StreamTableJoin, timer_values: Any) -> None:
        if self.forgets:
            join.expire(timer_values.getCurrentWatermarkInMs())
            self.timer.set(join.expiry_ms)
        _put(self.versions, join.versions)
        _put(self.buffered, join.buffered)


@dataclass(eq=False)
class TableTableProcessor(JoinProcessor[TableTableJoin]):
    on: str
    left_schema: StructType
    right_schema: StructType
    _: KW_ONLY
    history_ms: int
    forgets: bool
    keeps_left: bool
    keeps_right: bool

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.timer = KeyTimer(handle)
        self.left = handle.getValueState("left", _timed(self.left_schema))
        self.right = handle.getValueState("right", _timed(self.right_schema))

    def _load(self) -> TableTableJoin:
        join = TableTableJoin(
            history_ms=self.history_ms, keeps_left=self.keeps_left, keeps_right=self.keeps_right
        )
        if self.left.exists():
            join.left = _restored(self.left.get())
        if self.right.exists():
            join.right = _restored(self.right.get())
        return join

    def _store(self, join: TableTableJoin, timer_values: Any) -> None:
        if self.forgets:
            join.expire(timer_values.getCurrentWatermarkInMs())
            self.timer.set(join.expiry_ms)
        for state, latest in ((self.left, join.left), (self.right, join.right)):
            if latest is not None:
                state.update(_kept(latest))
            else:
                state.clear()


class KeyTimer:
    """The one timer of the key that Spark is at."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def set(self, expiry_ms: int | None) -> None:
        """Wake this key when the watermark has reached that, and at no other time."""
        is_set = False
        for known in list(self._handle.listTimers()):
            if known == expiry_ms:
                is_set = True
            else:
                self._handle.deleteTimer(known)
        if expiry_ms is not None and not is_set:
            self._handle.registerTimer(expiry_ms)


def _timed(schema: StructType) -> StructType:
    return StructType(
        [
            StructField("timestamp_ms", LongType()),
            StructField("position", LongType()),
            StructField("row", schema),
        ]
    )


def _listed(state: Any) -> Iterator[Any]:
    return state.get() if state.exists() else iter(())


def _restored(row: Any) -> Timed:
    return Timed(row[0], row[1], row[2])


def _put(state: Any, rows: list[Timed]) -> None:
    if rows:
        state.put([_kept(each) for each in rows])
    else:
        state.clear()  # A store takes no list without rows.


def _kept(each: Timed) -> tuple[Any, ...]:
    return each.timestamp, each.offset, each.row


def _sides(rows: Iterator[Row]) -> tuple[list[Timed], list[Timed]]:
    left: list[Timed] = []
    right: list[Timed] = []
    for row in rows:
        side, content = (left, row.left) if row.is_left else (right, row.right)
        side.append(Timed(row.timestamp_ms, row.position, None if row.is_deletion else content))
    return left, right


def _output(on: str, key: Any, each: Joined) -> Row:
    return Row(
        **{on: key[0]},
        left=each.left,
        right=each.right,
        timestamp_ms=each.timestamp,
        is_update=each.is_update,
    )
