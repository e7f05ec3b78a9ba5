"""The stateful processors of joins: between Spark's state stores and the rules of tables_versions.

Run on executors, one call per key and micro-batch. State has names, so it can be queried as a
DataFrame: `versions` and `buffered` of a stream and a table, `left` and `right` of two tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from moldau.pipelines.tables_versions import Joined, StreamTableJoin, TableTableJoin, Timed


class StreamTableProcessor(StatefulProcessor):
    def __init__(
        self,
        on: str,
        stream: StructType,
        table: StructType,
        *,
        history_ms: int,
        keeps_unmatched: bool,
    ) -> None:
        self.on = on
        self.stream = stream
        self.table = table
        self.history_ms = history_ms
        self.keeps_unmatched = keeps_unmatched

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.versions = handle.getListState("versions", _timed(self.table))
        self.buffered = handle.getListState("buffered", _timed(self.stream))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        join = StreamTableJoin(history_ms=self.history_ms, keeps_unmatched=self.keeps_unmatched)
        join.versions = [_restored(row) for row in _listed(self.versions)]
        join.buffered = [_restored(row) for row in _listed(self.buffered)]
        results = join.take(*_sides(rows))
        _put(self.versions, join.versions)
        _put(self.buffered, join.buffered)
        return iter([_output(self.on, key, each) for each in results])

    def close(self) -> None:
        """Spark closes the stores."""


class TableTableProcessor(StatefulProcessor):
    def __init__(
        self,
        on: str,
        left: StructType,
        right: StructType,
        *,
        keeps_left: bool,
        keeps_right: bool,
    ) -> None:
        self.on = on
        self.left_schema = left
        self.right_schema = right
        self.keeps_left = keeps_left
        self.keeps_right = keeps_right

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.left = handle.getValueState("left", _timed(self.left_schema))
        self.right = handle.getValueState("right", _timed(self.right_schema))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        join = TableTableJoin(keeps_left=self.keeps_left, keeps_right=self.keeps_right)
        if self.left.exists():
            join.left = _restored(self.left.get())
        if self.right.exists():
            join.right = _restored(self.right.get())
        results = join.take(*_sides(rows))
        if join.left is not None:
            self.left.update(_kept(join.left))
        if join.right is not None:
            self.right.update(_kept(join.right))
        return iter([_output(self.on, key, each) for each in results])

    def close(self) -> None:
        """Spark closes the stores."""


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
