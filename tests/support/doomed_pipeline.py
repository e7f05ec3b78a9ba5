"""A word count that kills itself where DOOM says: the driver of the exactly-once test.

DOOM is a point and how often it is passed before the process is killed, for instance "end:2":
begin, tasks, mark, end (before EndTxn), ended (after it), open (during recovery), or task, which
kills the Python worker of a writing task instead. DOOMED_FILES is the class path of files that kill
the JVM (doomed_files_java.py). Nothing but this script looks at either.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from pyspark.sql import functions as F

from moldau.pipelines import Kafka, session
from moldau.pipelines.sink import exactly_once_sink, sink_transaction
from tests.support.doomed_files_java import CLASS, SETTING


def doom() -> tuple[str, int]:
    point, _, passes = os.environ.get("DOOM", "").partition(":")
    return point, int(passes or 0)


def killing(step: Any, *, after: bool) -> Any:
    passes = doom()[1]

    def doomed(*args: Any, **kwargs: Any) -> Any:
        nonlocal passes
        result = step(*args, **kwargs) if after else None
        if passes == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        passes -= 1
        return result if after else step(*args, **kwargs)

    return doomed


def killing_task(make: Any) -> Any:
    """The first writing task of a batch dies with its process; the next attempt lives."""
    passes = doom()[1]

    def made(*args: Any) -> Any:
        nonlocal passes
        passes -= 1
        run = make(*args)

        def dying(batches: Any) -> Any:
            for row in run(batches):
                os.kill(os.getpid(), signal.SIGKILL)
                yield row

        return dying if passes == -1 else run

    return made


def arrange() -> None:
    target: Any = sink_transaction.PipelineTransactions
    sink: Any = exactly_once_sink
    point = doom()[0]
    if point in ("begin", "mark", "end", "open"):
        setattr(target, point, killing(getattr(target, point), after=point == "open"))
    elif point == "ended":
        target.end = killing(target.end, after=True)
    elif point == "tasks":
        # All tasks are done, and the driver does not come to know it.
        sink.check_stages = killing(sink.check_stages, after=False)
    elif point == "task":
        sink.write_bodies = killing_task(sink.write_bodies)


def main() -> None:
    bootstrap, source, target, app, checkpoint, master = sys.argv[1:]
    arrange()
    # A driver that lives for seconds has no use for the optimizing compiler.
    jvm = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    classes = os.environ.get("DOOMED_FILES")
    if classes:
        jvm |= {"spark.driver.extraClassPath": classes, SETTING: CLASS}
    spark = session(app, master, spark_sql_shuffle_partitions=2, **jvm)
    k = Kafka(spark, bootstrap)
    words = k.stream(source, startingOffsets="earliest", maxOffsetsPerTrigger=100)
    counts = words.groupBy(F.col("value").cast("string").alias("word")).count()
    query = k.to(
        counts,
        target,
        key="word",
        value="count",
        app=app,
        checkpoint=checkpoint,
        trigger="available_now",
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
