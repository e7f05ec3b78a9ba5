"""Topics as tables: the latest value per key, and the stream of its changes.

    users = k.table("users")
    users.latest()      # a DataFrame: one row per key, as of now
    users.changes()     # a streaming DataFrame: every change; a value that is null deletes the key

The two are one thing seen twice: `latest_per_key` makes a table of any stream of changes, and a
table written to a topic by `Kafka.to` is a stream of changes again. The order of changes is that of
the partition, which is what compaction keeps too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from moldau.pipelines.sink_options import SinkError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from moldau.pipelines.kafka import Kafka

LATEST = "__latest"


class Table:
    def __init__(self, kafka: Kafka, topic: str, options: Mapping[str, Any]) -> None:
        self.kafka = kafka
        self.topic = topic
        self._options = dict(options)

    def latest(self, **options: Any) -> DataFrame:
        """One row per key that has a value now, with the columns of the topic."""
        rows = self.kafka.batch(self.topic, **{**self._batch_options(), **options})
        return latest_per_key(rows, "key", order=("partition", "offset")).where(
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
    order: str | Column | Sequence[str] = "offset",
) -> DataFrame:
    """The row of each key that comes last by `order`; of a batch once, of a stream with every
    change (write it in mode update). Of a stream, the state is named by the query's checkpoint."""
    keys = [key] if isinstance(key, str) else list(key)
    missing = [name for name in keys if name not in frame.columns]
    if missing:
        raise SinkError(
            f"There is no column {missing[0]} to tell rows apart by: the frame has "
            f"{', '.join(frame.columns)}"
        )
    rest = [name for name in frame.columns if name not in keys]
    last = F.max_by(F.struct(*rest), _order(order))
    grouped = frame.groupBy(*keys).agg(last.alias(LATEST))
    return grouped.select(*keys, *[F.col(f"{LATEST}.`{name}`").alias(name) for name in rest])


def _order(order: str | Column | Sequence[str]) -> Column:
    if isinstance(order, str):
        return F.col(order)
    if isinstance(order, Sequence):
        return F.struct(*order)
    return order
