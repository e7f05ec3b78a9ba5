"""`Kafka(spark, bootstrap)`: topics as DataFrames, and DataFrames to topics.

    k = Kafka(spark, "127.0.0.1:9092")
    lines = k.stream("streams-plaintext-input", startingOffsets="earliest")
    query = k.to(counts, "streams-wordcount-output", key="word", value="count",
                 app="wordcount", checkpoint="ckpt/wordcount", guarantee="exactly_once")

What comes out is plain DataFrames, so filters, projections and aggregations are plain Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moldau.pipelines.checkpoint import Checkpoint, repair
from moldau.pipelines.hidden_settings import HiddenSettings
from moldau.pipelines.sink.exactly_once_sink import AtLeastOnceSink, ExactlyOnceSink, plans_in
from moldau.pipelines.sink.sink_options import (
    SinkError,
    SinkOptions,
    check_columns,
    parse_sink_options,
)
from moldau.pipelines.sink.sink_plan import TopicFacts, check_topic, plan
from moldau.pipelines.sink.sink_transaction import TRANSACTION_TIMEOUT_MS, PipelineTransactions
from moldau.pipelines.tables.join_bounds import warn_of_unbounded_joins

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from moldau.pipelines.tables.tables import Table

EXACTLY_ONCE = "exactly_once"
AT_LEAST_ONCE = "at_least_once"
GUARANTEES = (EXACTLY_ONCE, AT_LEAST_ONCE)
MODES = ("update", "append", "complete")
READ_SETTINGS = {"kafka.isolation.level": "read_committed"}
"""A pipeline reads what others have committed, unless it says otherwise."""

Topics = str | Iterable[str]
Trigger = str | Mapping[str, Any] | None


class Kafka:
    """One cluster, seen from one SparkSession. `options` go with every reader and writer: Kafka's
    own settings with the prefix `kafka.`, as in `**{"kafka.security.protocol": "SSL"}`."""

    def __init__(self, spark: SparkSession, bootstrap: str, **options: Any) -> None:
        from moldau.pipelines.session import register

        self.spark = register(spark)
        self.bootstrap = bootstrap
        given = {"kafka.bootstrap.servers": bootstrap, **_texts(options)}
        self._options = HiddenSettings(given)

    def stream(self, topics: Topics, **options: Any) -> DataFrame:
        """A streaming DataFrame with the schema and the options of Spark's Kafka connector."""
        reader = self.spark.readStream.format("moldau")
        return reader.options(**self._reading(topics, options)).load()

    def batch(self, topics: Topics, **options: Any) -> DataFrame:
        """What the topics hold now, as a DataFrame."""
        reader = self.spark.read.format("moldau")
        return reader.options(**self._reading(topics, options)).load()

    def table(self, topic: str, **options: Any) -> Table:
        """A topic as a table: the latest value per key, as it is and as it changes."""
        from moldau.pipelines.tables.tables import Table

        return Table(self, topic, options)

    def global_table(self, topic: str, **options: Any) -> DataFrame:
        """The latest value per key, whole on every executor: join a stream with it by any column,
        whatever the partitions. It is as of its making; made inside the function that `to` takes
        as `each`, it is as of every micro-batch."""
        from pyspark.sql.functions import broadcast

        return broadcast(self.table(topic, **options).latest())

    def to(
        self,
        frame: DataFrame,
        topic: str,
        *,
        value: str | Column = "value",
        key: str | Column | None = None,
        app: str | None = None,
        checkpoint: str | None = None,
        guarantee: str = EXACTLY_ONCE,
        headers: str | Column | None = None,
        partition: str | Column | None = None,
        timestamp: str | Column | None = None,
        mode: str | None = None,
        trigger: Trigger = None,
        each: Callable[[DataFrame], DataFrame] | None = None,
        group: str | None = None,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        **options: Any,
    ) -> StreamingQuery:
        """Write a streaming frame to a topic; the query is started.

        `app` is the pipeline's name: of its transactions, of the group that shows its progress, of
        its markers. Two that run at the same time must not share it. Text, bytes and numbers are
        written as Java's serializers do, nested columns as JSON. Without a `mode`, what changes is
        written (update), or what is final where Spark allows nothing else (append). `each` is done
        with every micro-batch before it is written, for instance a join with a global table."""
        name, place = _check_call(frame, app, checkpoint, guarantee, mode)
        columns = {"key": key, "value": value, "headers": headers, "partition": partition}
        columns["timestamp"] = timestamp
        selected = Selection(
            {n: column for n, column in columns.items() if column is not None}, each
        )
        given = {**self._options, **_texts(options), "topic": topic}
        given["includeTimestamp"] = str(timestamp is not None).lower()
        chosen = parse_sink_options(given)
        check_columns(selected(frame).schema, topic, numbers=True)
        facts = check_topic(chosen.settings, topic)
        repair(Checkpoint(self.spark, place))
        if guarantee == AT_LEAST_ONCE:
            # Not Spark's own streaming writer: sources in Python have no mode update there.
            writer = frame.writeStream.foreachBatch(AtLeastOnceSink(selected, given))
        else:
            transactions = PipelineTransactions(
                name, chosen.settings, group=group, timeout_ms=transaction_timeout_ms
            )
            sink = self._sink(transactions, (chosen, facts), selected, place)
            writer = frame.writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", place).queryName(name)
        return _start(_triggered(writer, trigger), mode)

    def _sink(
        self,
        transactions: PipelineTransactions,
        target: tuple[SinkOptions, TopicFacts],
        selected: Selection,
        checkpoint: str,
    ) -> ExactlyOnceSink:
        chosen, facts = target
        parallelism = self.spark.sparkContext.defaultParallelism
        return ExactlyOnceSink(
            transactions,
            plan(chosen, facts=facts, writers_max=parallelism),
            select=selected,
            read_plan=plans_in(checkpoint),
        )

    def _reading(self, topics: Topics, options: Mapping[str, Any]) -> dict[str, str]:
        given = {**READ_SETTINGS, **self._options, **_texts(options)}
        named = {"assign", "subscribe", "subscribePattern"} & set(given)
        if not named:
            given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
        return given


class Selection:
    """The columns to write, made of a frame: `foreachBatch` gets another one each time."""

    def __init__(
        self,
        columns: Mapping[str, str | Column],
        each: Callable[[DataFrame], DataFrame] | None = None,
    ) -> None:
        self._columns = columns
        self._each = each

    def __call__(self, frame: DataFrame) -> DataFrame:
        return self._select(frame if self._each is None else self._each(frame))

    def _select(self, frame: DataFrame) -> DataFrame:
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as F

        from moldau.pipelines.formats.column_codecs import encoded

        try:
            plain = frame.select(
                *[
                    (F.col(each) if isinstance(each, str) else each).alias(name)
                    for name, each in self._columns.items()
                ]
            )
            kinds = {field.name: field.dataType for field in plain.schema.fields}
        except AnalysisException as fault:
            named = ", ".join(f"{name}={each}" for name, each in self._columns.items())
            raise SinkError(
                f"The columns to write ({named}) are not all in the frame, which has "
                f"{', '.join(frame.columns)}: {str(fault).splitlines()[0]}"
            ) from None
        return plain.select(
            *[
                (encoded(F.col(name), kind) if name in ("key", "value") else F.col(name)).alias(
                    name
                )
                for name, kind in kinds.items()
            ]
        )


def _check_call(
    frame: DataFrame, app: str | None, checkpoint: str | None, guarantee: str, mode: str | None
) -> tuple[str, str]:
    """The pipeline's name and the folder of its progress, if the rest makes sense too."""
    if guarantee not in GUARANTEES:
        raise SinkError(f"The guarantee cannot be {guarantee!r}: use {' or '.join(GUARANTEES)}")
    if mode is not None and mode not in MODES:
        raise SinkError(f"The mode cannot be {mode!r}: use {', '.join(MODES)}")
    if not frame.isStreaming:
        raise SinkError(
            "to() starts a query, and this DataFrame is no stream: write it with "
            'frame.write.format("moldau")'
        )
    if not app or not checkpoint:
        raise SinkError(
            "to() needs app, the pipeline's name, and checkpoint, the folder of its progress"
        )
    warn_of_unbounded_joins(frame, app)
    return app, str(checkpoint)


def _start(writer: DataStreamWriter, mode: str | None) -> StreamingQuery:
    from pyspark.errors import AnalysisException

    if mode is not None:
        return writer.outputMode(mode).start()
    try:
        return writer.outputMode("update").start()
    except AnalysisException as fault:
        # Some joins and windows have no updates: only what is final comes out of them.
        if "update" not in str(fault).lower():
            raise
        return writer.outputMode("append").start()


def _triggered(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    """`"available_now"`, an interval such as `"5 seconds"`, or the arguments of Spark's own."""
    if trigger is None:
        return writer
    if not isinstance(trigger, str):
        return writer.trigger(**trigger)
    if trigger.replace("_", "").lower() == "availablenow":
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=trigger)


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
