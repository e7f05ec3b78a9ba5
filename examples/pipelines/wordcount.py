"""The word count of Kafka Streams' tutorial, on Spark: every word with how often it came so far.

python examples/pipelines/wordcount.py --bootstrap-server localhost:9092 [--master spark://host:7077]

Reads streams-plaintext-input, writes streams-wordcount-output exactly once (words as text, counts
as Java's long) and, with --windowed, streams-windowed-wordcount-output: counts per ten seconds.
Both topics must be there. Ctrl-C ends it; started again, it goes on where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from moldau.pipelines import Kafka, session, windows
from moldau.pipelines.formats.column_codecs import string

INPUT = "streams-plaintext-input"
OUTPUT = "streams-wordcount-output"
WINDOWED_OUTPUT = "streams-windowed-wordcount-output"


def words_of(k: Kafka, **options: Any) -> Any:
    from pyspark.sql import functions as F

    lines = k.stream(INPUT, **{"startingOffsets": "earliest", **options})
    each = F.explode(F.split(F.lower(string("value")), r"\W+")).alias("word")
    return lines.select("timestamp", each).where("word != ''")


def start(k: Kafka, checkpoint: str, **options: Any) -> Any:
    counts = words_of(k).groupBy("word").count()
    return k.to(
        counts,
        OUTPUT,
        key="word",
        value="count",
        app="wordcount",
        checkpoint=f"{checkpoint}/wordcount",
        guarantee="exactly_once",
        **options,
    )


def start_windowed(k: Kafka, checkpoint: str, size: str = "10 seconds", **options: Any) -> Any:
    counts = windows.tumbling(words_of(k), size, grace="1 minute").groupBy("word").count()
    return k.to(
        counts,
        WINDOWED_OUTPUT,
        key=windows.key_text("word"),
        value="count",
        app="windowed-wordcount",
        checkpoint=f"{checkpoint}/windowed-wordcount",
        **options,
    )


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Count words on Spark.")
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--master", default=None, help="local[*] unless given")
    parser.add_argument("--checkpoint", default="ckpt")
    parser.add_argument("--windowed", action="store_true")
    given = parser.parse_args(words)
    k = Kafka(session("wordcount", given.master), given.bootstrap_server)
    start(k, given.checkpoint)
    if given.windowed:
        start_windowed(k, given.checkpoint)
    try:
        k.spark.streams.awaitAnyTermination()
    except KeyboardInterrupt:
        for query in k.spark.streams.active:
            query.stop()


if __name__ == "__main__":
    main()
