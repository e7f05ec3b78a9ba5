"""Joins of streams and tables whose results are kept right when a table's update comes late.

    joined = join_stream_table(orders, users, on="key", history="1h")
    joined.select("key", "left.value", "right.value", "timestamp", "is_update")

`left` and `right` are the rows of both sides. State lives in RocksDB under the query's checkpoint
and survives restarts; each join says how long it keeps a row (`within` and `grace`, or `history`).
As in Kafka Streams, topics to be joined must have equally many partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType, TimestampType

from moldau.pipelines.sink.sink_options import SinkError
from moldau.pipelines.sink.sink_plan import check_topic
from moldau.pipelines.tables.join_bounds import duration_ms
from moldau.pipelines.tables.join_state import StreamTableProcessor, TableTableProcessor
from moldau.pipelines.tables.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOWS = ("inner", "left", "outer")
MOLDAU = "moldau"
EVENT_TIME = "event_time"


def join_stream_table(
    stream: DataFrame,
    table: Table | DataFrame,
    *,
    on: str = "key",
    how: str = "inner",
    history: str = "1h",
    forget: bool = True,
    tombstone: str = "value",
    copartitioned: bool = True,
) -> DataFrame:
    """Each row of the stream with the table's row that was in force at its time.

    A table's update that comes late gives results anew for the stream's rows of the last `history`;
    `is_update` says that a result replaces an earlier one. `tombstone` is the table's column that
    is null where the key was deleted. Rows of the stream, and keys that the table has deleted, are
    forgotten when the stream's newest row is `history` ahead of them; with `forget=False` only when
    the key itself comes again, as a checkpoint made before there was `forget` needs it."""
    _check_how(how, ("inner", "left"))
    changes = table.changes() if isinstance(table, Table) else table
    if copartitioned:
        check_copartitioned(stream, changes)
    processor = StreamTableProcessor(
        on,
        stream.schema,
        changes.schema,
        history_ms=duration_ms("history", history),
        forgets=forget,
        keeps_unmatched=how == "left",
    )
    return _joined(stream, changes, on, tombstone, processor)


def join_tables(
    left: Table | DataFrame,
    right: Table | DataFrame,
    *,
    on: str = "key",
    how: str = "inner",
    history: str = "1h",
    forget: bool = True,
    tombstone: str = "value",
    copartitioned: bool = True,
) -> DataFrame:
    """The rows of both tables for each key, given again whenever one of them changes.

    A result whose `left` and `right` are both null says that there is none any more. The state is
    as large as the tables; a key that both have deleted is forgotten when the newest change of all
    is `history` ahead; with `forget=False` never, as checkpoints made before need it."""
    _check_how(how, HOWS)
    one = left.changes() if isinstance(left, Table) else left
    other = right.changes() if isinstance(right, Table) else right
    if copartitioned:
        check_copartitioned(one, other)
    processor = TableTableProcessor(
        on,
        one.schema,
        other.schema,
        history_ms=duration_ms("history", history),
        forgets=forget,
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

    A row is kept until both streams have come `within` and `grace` further. One that comes `grace`
    or more behind the newest row of the slower stream is left out. An unmatched row of a left or
    outer join comes out when it is dropped."""
    _check_how(how, HOWS)
    apart_ms, grace_ms = duration_ms("within", within), duration_ms("grace", grace)
    if copartitioned:
        check_copartitioned(left, right)
    one = _packed(left, on, "left").withWatermark("left_time", f"{grace_ms} milliseconds")
    other = _packed(right, on, "right").withWatermark("right_time", f"{grace_ms} milliseconds")
    span = F.expr(f"INTERVAL {apart_ms} MILLISECONDS")
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
    one = _tagged(left, on, "left", right, tombstone if is_left_table else None)
    other = _tagged(right, on, "right", left, tombstone)
    if processor.forgets and not is_left_table:
        # A stream's time alone tells which of its rows are old: a table may be far ahead of it.
        one = _watermarked(one)
    rows = one.unionByName(other)
    if processor.forgets and is_left_table:
        rows = _watermarked(rows)
    output = StructType(
        [
            StructField(on, left.schema[on].dataType),
            StructField("left", left.schema),
            StructField("right", right.schema),
            StructField("timestamp_ms", LongType()),
            StructField("is_update", BooleanType()),
        ]
    )
    time_mode = "EventTime" if processor.forgets else "None"
    joined = rows.groupBy(on).transformWithState(processor, output, "Update", time_mode)
    stamp = F.timestamp_millis("timestamp_ms").cast(TimestampType()).alias("timestamp")
    return joined.select(on, "left", "right", stamp, "is_update")


def _watermarked(rows: DataFrame) -> DataFrame:
    """The rows, whose newest time moves the watermark on. The column with it goes again, since
    Spark drops late rows by that column, and here the processors know which are too late."""
    timed = rows.withColumn(EVENT_TIME, F.timestamp_millis("timestamp_ms").cast(TimestampType()))
    return timed.withWatermark(EVENT_TIME, "0 seconds").drop(EVENT_TIME)


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
