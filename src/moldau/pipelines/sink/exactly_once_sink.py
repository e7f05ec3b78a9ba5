"""Exactly once: every micro-batch is one Kafka transaction that the driver owns.

    query = frame.writeStream.foreachBatch(ExactlyOnceSink(...)).start()

Spark repeats a batch after a failure, under the same number and with the same input. The marker in
the transaction tells whether a batch is in the topic already: then the plan is run for its state
alone, and nothing is written. A batch of that number with another input is refused, see
continuation.py. Tasks write, the driver commits; whatever goes wrong ends in a new epoch, never in
half a batch.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from moldau.client.producer.producer_session import ProducerSession
from moldau.client.shared.client_errors import KafkaError, error_class
from moldau.model.errors import Error
from moldau.pipelines.checkpoint import Checkpoint
from moldau.pipelines.sink.batch_continuation import Plan
from moldau.pipelines.sink.batch_markers import Marker
from moldau.pipelines.sink.sink_options import ContinuationError, SinkError
from moldau.pipelines.sink.sink_spool import spool_folder
from moldau.pipelines.sink.sink_tasks import (
    BODY_SCHEMA,
    RESULT_SCHEMA,
    WriterSettings,
    make_bodies,
    session_from,
    write_bodies,
)
from moldau.pipelines.sink.sink_transaction import PipelineTransactions
from moldau.pipelines.source.source_offsets import Offsets, parse_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("moldau.pipelines.sink")

QUERY_ID_PROPERTY = "sql.streaming.queryId"
ATTEMPTS_MAX = 3
"""How often a batch is tried before the query fails; whoever starts it again goes on there."""
_RAISED = re.compile(r"[\w.]+(Error|Exception): ")
_STOPPED = re.compile(r"InterruptedException|cancelled|SparkContext was shut down")
"""What Spark says to a job whose query is being stopped: that is no reason to try again."""
FENCED = (Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_EPOCH)


class ExactlyOnceSink:
    """What `foreachBatch` calls. `select` makes the columns to write of the query's frame, and
    `read_plan` says what the checkpoint has noted as a batch's input."""

    def __init__(
        self,
        transactions: PipelineTransactions,
        work: WriterSettings,
        *,
        select: Callable[[DataFrame], DataFrame],
        read_plan: Callable[[SparkSession, int], Plan],
    ) -> None:
        self.transactions = transactions
        self._work = work
        self._select = select
        self._read_plan = read_plan

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        spark = frame.sparkSession
        query_id = spark.sparkContext.getLocalProperty(QUERY_ID_PROPERTY) or ""
        fault: BaseException | None = None
        for attempt in range(ATTEMPTS_MAX):
            try:
                if attempt or not self.transactions.is_open:
                    self.transactions.reopen()
                if self.transactions.has_done(query_id, batch_id, partial(self._read_plan, spark)):
                    # State must advance all the same.
                    frame.write.format("noop").mode("overwrite").save()
                    return
                self._write(frame, query_id, batch_id)
                return
            except ContinuationError:
                self.transactions.close()
                raise
            except (KafkaError, Py4JError, PySparkException, SinkError) as error:
                fault = error
                self._give_way(error)
                if _STOPPED.search(str(error)):
                    self.transactions.close()
                    raise
                log.warning("batch %d of %s failed: %s", batch_id, self.transactions.app, error)
        self.transactions.close()
        raise SinkError(
            f"Batch {batch_id} of pipeline {self.transactions.app} could not be written in "
            f"{ATTEMPTS_MAX} attempts, start the query again to go on there: {_sentence(fault)}"
        )

    def _give_way(self, error: BaseException) -> None:
        """A driver that was fenced must not fence its successor in turn."""
        fenced = tuple(error_class(code) for code in FENCED)
        if isinstance(error, fenced):
            self.transactions.close()
            raise SinkError(
                f"Another driver of pipeline {self.transactions.app} has taken over, so this one "
                "stops: give each pipeline a name (app) of its own"
            ) from None
        self.transactions.abort()

    def _write(self, frame: DataFrame, query_id: str, batch_id: int) -> None:
        offsets, sources = self._read_plan(frame.sparkSession, batch_id)
        # Keys go where Java's producer puts them, which looks how many partitions there are.
        counts = self.transactions.partition_counts(self._work.partitions)
        session = self.transactions.begin()
        sessions = self._write_rows(self._work._replace(partitions=counts), frame, session)
        marker = Marker(query_id, batch_id, offsets, sources=sources)
        self.transactions.commit(marker, sessions)

    def _write_rows(
        self, work: WriterSettings, frame: DataFrame, session: ProducerSession
    ) -> list[ProducerSession]:
        with spool_folder(frame.sparkSession) as spool:
            return self._write_rows_by(work._replace(spool=spool), frame, session)

    def _write_rows_by(
        self, work: WriterSettings, frame: DataFrame, session: ProducerSession
    ) -> list[ProducerSession]:
        made = self._select(frame).mapInArrow(make_bodies(work), BODY_SCHEMA)
        # All bodies of a partition meet in one task, those of one task before in their order.
        gathered = made.repartitionById(work.writers, "writer").sortWithinPartitions(
            "task", "number"
        )
        results = gathered.mapInArrow(write_bodies(work, session), RESULT_SCHEMA).collect()
        check_stages(frame.sparkSession, {row.stage for row in results})
        return [session_from(row.session) for row in results]


class AtLeastOnceSink:
    """What `foreachBatch` calls without transactions: a batch that is repeated is written again."""

    def __init__(self, select: Callable[[DataFrame], DataFrame], options: dict[str, str]) -> None:
        self._select = select
        self._options = options

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        writer = self._select(frame).write.format("moldau").options(**self._options)
        writer.mode("append").save()


def check_stages(spark: SparkSession, stages: set[int]) -> None:
    """A stage that Spark ran again has used sequences twice: its transaction must not commit."""
    tracker = spark.sparkContext.statusTracker()
    for stage in stages:
        info = tracker.getStageInfo(stage)
        if info is not None and info.currentAttemptId:
            raise SinkError(f"Spark ran the writing stage {stage} more than once")


def _sentence(fault: BaseException | None) -> str:
    """Workers tell whole tracebacks; the line that names the last exception has the reason."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    named = [line for line in lines if _RAISED.match(line)]
    return _RAISED.sub("", (named or lines or [""])[-1 if named else 0])


def plans_in(checkpoint: str) -> Callable[[Any, int], Plan]:
    """Reads what Spark notes in the checkpoint before it runs a batch: where its sources end.

    Of other kinds of sources there is only a digest: only topics have a place in a group."""

    def read(spark: SparkSession, batch_id: int) -> Plan:
        found: Offsets = {}
        # After the version of the file and what is the whole batch's, a line for each source.
        sources = Checkpoint(spark, checkpoint).text(f"offsets/{batch_id}").splitlines()[2:]
        for line in sources:
            try:
                found |= parse_offsets(line)
            except ValueError:
                continue
        return Plan(found, sha256("\n".join(sources).encode()).hexdigest())

    return read
