"""Topics as tables: the latest value per key, and the stream of its changes.

    users = k.table("users")
    users.latest()      # a DataFrame: one row per key, as of now
    users.changes()     # a streaming DataFrame: every change; a value that is null deletes the key

The two are one thing seen twice: `latest_per_key` makes a table of any stream of changes, and a
table written to a topic by `Kafka.to` is a stream of changes again. The order of changes is that of
the partition, which is what compaction keeps too. Where a key is in several partitions, because the
topic has got more of them, time decides between their last records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from moldau.pipelines.sink.sink_options import SinkError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from moldau.pipelines.kafka import Kafka

LATEST = "__latest"
BETWEEN_PARTITIONS = ("timestamp", "offset", "partition")
"""Offsets of different partitions have no order; a key that moved starts anew at a low one."""


class Table:
    def __init__(self, kafka: Kafka, topic: str, options: Mapping[str, Any]) -> None:
        self.kafka = kafka
        self.topic = topic
        self._options = dict(options)

    def latest(self, **options: Any) -> DataFrame:
        """One row per key that has a value now, with the columns of the topic."""
        rows = self.kafka.batch(self.topic, **{**self._batch_options(), **options})
        last = latest_per_key(rows, ["key", "partition"], order="offset")
        return latest_per_key(last.select(*rows.columns), "key", order=BETWEEN_PARTITIONS).where(
            F.col("value").isNotNull()
        )

    def changes(self, **options: Any) -> DataFrame:
        """Every change from the first one on, as a stream."""
        given = {"startingOffsets": "earliest", **self._options, **options}
        return self.kafka.stream(self.topic, **given)

    def _batch_options(self) -> dict[str, Any]:
        """Limits per trigger mean nothing to a batch."""
        return {name: value for name, value in self._options.items() if "PerTrigger" not in name}


def latest_per_key(
    frame: DataFrame,
    key: str | Sequence[str],
    *,
    order: str | Column | Sequence[str] | None = None,
) -> DataFrame:
    """The row of each key that comes last by `order`; of a batch once, of a stream with every
    change (write it in mode update). Of a stream, the state is named by the query's checkpoint.

    Without an `order` it is by timestamp, then by offset, as far as there are such columns: offsets
    alone would hold a key for ever at its last value before it moved to another partition."""
    keys = [key] if isinstance(key, str) else list(key)
    missing = [name for name in keys if name not in frame.columns]
    if missing:
        raise SinkError(
            f"There is no column {missing[0]} to tell rows apart by: the frame has "
            f"{', '.join(frame.columns)}"
        )
    rest = [name for name in frame.columns if name not in keys]
    if order is None:
        order = [name for name in BETWEEN_PARTITIONS if name in frame.columns]
        if not order:
            raise SinkError(
                f"Nothing says which row comes last: the frame has {', '.join(frame.columns)}, so "
                "give an order"
            )
    last = F.max_by(F.struct(*rest), _order(order))
    grouped = frame.groupBy(*keys).agg(last.alias(LATEST))
    return grouped.select(*keys, *[F.col(f"{LATEST}.`{name}`").alias(name) for name in rest])


def _order(order: str | Column | Sequence[str]) -> Column:
    if isinstance(order, str):
        return F.col(order)
    if isinstance(order, Sequence):
        return F.struct(*order)
    return order
