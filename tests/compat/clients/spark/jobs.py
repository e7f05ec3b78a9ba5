"""The same jobs on Spark's Kafka connector and on Moldau's source: one word is different.

    python jobs.py BOOTSTRAP TOPIC FIRST_MS JARS CHECKPOINTS

Prints one JSON object: for each format the rows of every read and what was copied where.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from moldau.pipelines import session


def reads(topic: str, first_ms: int) -> dict[str, dict[str, Any]]:
    """Options of batch reads, by a name."""
    return {
        "all": {"includeHeaders": True},
        "plain": {},
        "committed": {"kafka.isolation.level": "read_committed", "includeHeaders": "true"},
        "ranges": {
            "startingOffsets": json.dumps({topic: {"0": 3, "1": -2}}),
            "endingOffsets": json.dumps({topic: {"0": -1, "1": 7}}),
        },
        "times": {"startingTimestamp": first_ms + 20_000, "endingTimestamp": first_ms + 30_000},
        "split": {"minPartitions": 6},
    }


def job(
    spark: Any, word: str, bootstrap: str, topic: str, first_ms: int, checkpoint: str
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, options in reads(topic, first_ms).items():
        frame = (
            spark.read.format(word)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .options(**options)
            .load()
        )
        rows = frame.orderBy("partition", "offset").collect()
        found[name] = [repr(frame.schema), *(repr(row) for row in rows)]
    copy = f"{topic}-{word}"
    query = (
        spark.readStream.format(word)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 20)
        .option("includeHeaders", True)
        .load()
        .selectExpr("key", "concat(value, '!') AS value", "headers")
        .writeStream.format(word)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", copy)
        .option("includeHeaders", True)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    numbers = spark.range(40).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    writer = numbers.write.format(word).mode("append")
    writer.option("kafka.bootstrap.servers", bootstrap).option("topic", copy).save()
    return found


def main() -> None:
    bootstrap, topic, first_ms, jars, checkpoints = sys.argv[1:]
    spark = session("jobs", "local[2]", **{"spark.jars": jars})
    found = {
        word: job(spark, word, bootstrap, topic, int(first_ms), str(Path(checkpoints) / word))
        for word in ("kafka", "moldau")
    }
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
