"""Joins of streams and tables whose results are kept right when a table's update comes late.

    joined = join_stream_table(orders, users, on="key", history="1h")
    joined.select("key", "left.value", "right.value", "timestamp", "is_update")

`left` and `right` are the rows of both sides. State lives in RocksDB under the query's checkpoint
and survives restarts. As in Kafka Streams, topics to be joined must have equally many partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType, TimestampType

from moldau.pipelines.joins_state import StreamTableProcessor, TableTableProcessor
from moldau.pipelines.options import parse_duration_ms
from moldau.pipelines.sink_options import SinkError
from moldau.pipelines.sink_plan import check_topic
from moldau.pipelines.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOWS = ("inner", "left", "outer")
MOLDAU = "moldau"


def join_stream_table(
    stream: DataFrame,
    table: Table | DataFrame,
    *,
    on: str = "key",
    how: str = "inner",
    history: str = "1h",
    tombstone: str = "value",
    copartitioned: bool = True,
) -> DataFrame:
    """Each row of the stream with the table's row that was in force at its time.

    A table's update that comes late gives results anew for the stream's rows of the last `history`;
    `is_update` says that a result replaces an earlier one. `tombstone` is the table's column that
    is null where the key was deleted."""
    _check_how(how, ("inner", "left"))
    changes = table.changes() if isinstance(table, Table) else table
    if copartitioned:
        check_copartitioned(stream, changes)
    processor = StreamTableProcessor(
        on,
        stream.schema,
        changes.schema,
        history_ms=parse_duration_ms(history),
        keeps_unmatched=how == "left",
    )
    return _joined(stream, changes, on, tombstone, processor)


def join_tables(
    left: Table | DataFrame,
    right: Table | DataFrame,
    *,
    on: str = "key",
    how: str = "inner",
    tombstone: str = "value",
    copartitioned: bool = True,
) -> DataFrame:
    """The rows of both tables for each key, given again whenever one of them changes.

    A result whose `left` and `right` are both null says that there is none any more."""
    _check_how(how, HOWS)
    one = left.changes() if isinstance(left, Table) else left
    other = right.changes() if isinstance(right, Table) else right
    if copartitioned:
        check_copartitioned(one, other)
    processor = TableTableProcessor(
        on,
        one.schema,
        other.schema,
        keeps_left=how in ("left", "outer"),
        keeps_right=how == "outer",
    )
    return _joined(one, other, on, tombstone, processor, is_left_table=True)


def join_streams(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str = "key",
    within: str,
    grace: str = "0 seconds",
    how: str = "inner",
    copartitioned: bool = True,
) -> DataFrame:
    """Rows of two streams with one key whose times are at most `within` apart.

    An unmatched row of a left or outer join comes out when its time and the grace are over."""
    _check_how(how, HOWS)
    if copartitioned:
        check_copartitioned(left, right)
    one = _packed(left, on, "left").withWatermark("left_time", grace)
    other = _packed(right, on, "right").withWatermark("right_time", grace)
    span = F.expr(f"INTERVAL {within}")
    condition = (
        (F.col("left_key") == F.col("right_key"))
        & (F.col("right_time") >= F.col("left_time") - span)
        & (F.col("right_time") <= F.col("left_time") + span)
    )
    joined = one.join(other, condition, {"left": "left_outer", "outer": "full_outer"}.get(how, how))
    return joined.select(
        F.coalesce("left_key", "right_key").alias(on),
        "left",
        "right",
        F.greatest("left_time", "right_time").alias("timestamp"),
    )


def check_copartitioned(*frames: DataFrame) -> None:
    """SinkError if topics that the frames read have different numbers of partitions."""
    counts: dict[str, int] = {}
    for frame in frames:
        for topic, bootstrap in _topics(frame):
            counts[topic] = check_topic({"bootstrap.servers": bootstrap}, topic).partitions
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{topic} has {count}" for topic, count in sorted(counts.items()))
        raise SinkError(
            f"Topics to be joined must have equally many partitions, and {told}: bring one of them "
            "to the other's number, or join with a global_table"
        )


def _topics(frame: DataFrame) -> list[tuple[str, str]]:
    """(topic, bootstrap servers) of what a frame reads, from its plan."""
    found: list[tuple[str, str]] = []
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if not leaf.getClass().getSimpleName().startswith("StreamingRelationV2"):
            continue
        options = leaf.extraOptions()
        topics, bootstrap = options.get("subscribe"), options.get("kafka.bootstrap.servers")
        if leaf.sourceName() == MOLDAU and topics and bootstrap:
            found += [(topic.strip(), bootstrap) for topic in topics.split(",")]
    return found


def _packed(frame: DataFrame, on: str, name: str) -> DataFrame:
    _check_columns(frame, on)
    return frame.select(
        F.col(on).alias(f"{name}_key"),
        F.col("timestamp").alias(f"{name}_time"),
        F.struct(*frame.columns).alias(name),
    )


def _joined(
    left: DataFrame,
    right: DataFrame,
    on: str,
    tombstone: str,
    processor: StreamTableProcessor | TableTableProcessor,
    is_left_table: bool = False,
) -> DataFrame:
    for frame in (left, right):
        _check_columns(frame, on)
    rows = _tagged(left, on, "left", right, tombstone if is_left_table else None).unionByName(
        _tagged(right, on, "right", left, tombstone)
    )
    output = StructType(
        [
            StructField(on, left.schema[on].dataType),
            StructField("left", left.schema),
            StructField("right", right.schema),
            StructField("timestamp_ms", LongType()),
            StructField("is_update", BooleanType()),
        ]
    )
    joined = rows.groupBy(on).transformWithState(processor, output, "Update", "None")
    stamp = F.timestamp_millis("timestamp_ms").cast(TimestampType()).alias("timestamp")
    return joined.select(on, "left", "right", stamp, "is_update")


def _tagged(
    frame: DataFrame, on: str, side: str, other: DataFrame, tombstone: str | None
) -> DataFrame:
    """Rows of one side in a shape that both have: which side, when, the row."""
    offset = F.col("offset") if "offset" in frame.columns else F.lit(0)
    is_deletion = F.lit(False)
    if tombstone is not None and tombstone in frame.columns:
        is_deletion = F.col(tombstone).isNull()
    row = F.struct(*frame.columns)
    nothing = F.lit(None).cast(other.schema)
    is_left = side == "left"
    return frame.select(
        F.col(on),
        F.lit(is_left).alias("is_left"),
        F.unix_millis("timestamp").alias("timestamp_ms"),
        offset.cast("long").alias("position"),
        is_deletion.alias("is_deletion"),
        (row if is_left else nothing).alias("left"),
        (nothing if is_left else row).alias("right"),
    )


def _check_columns(frame: DataFrame, on: str) -> None:
    for name in (on, "timestamp"):
        if name not in frame.columns:
            raise SinkError(
                f"There is no column {name} to join by: the frame has {', '.join(frame.columns)}"
            )


def _check_how(how: str, allowed: tuple[str, ...]) -> None:
    if how not in allowed:
        raise SinkError(f"A join cannot be {how!r} here: use {', '.join(allowed)}")
