"""A whole pipeline on a secured broker, in a process of its own that talks of all it can.

`python -m tests.support.secured_pipeline SETTINGS.json DIRECTORY` reads a topic as a batch and as a
stream, writes exactly once and at least once and by the plain format; it logs on
the level DEBUG, prints every plan, progress and page of Spark's UI, and leaves its event logs in
DIRECTORY. What it prints last is what it has read and written.
"""

from __future__ import annotations

import json
import logging
import sys
import urllib.request
from pathlib import Path
from typing import Any

PAGES = ("environment", "sql?details=true&planDescription=true", "jobs", "stages", "executors")
HTML = ("SQL/", "environment/", "StreamingQuery/", "jobs/")
ATTEMPTS = 3


def main(settings_path: Path, directory: Path) -> int:
    from moldau.pipelines import Kafka, session

    given: dict[str, str] = json.loads(settings_path.read_text())
    bootstrap = given.pop("bootstrap.servers")
    options = {f"kafka.{key}": value for key, value in given.items()}
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    events = directory / "events"
    events.mkdir()
    spark = session(
        "secured",
        "local[2]",
        spark_ui_enabled=True,
        spark_ui_port=0,
        **{
            "spark.sql.shuffle.partitions": 2,
            "spark.eventLog.enabled": True,
            "spark.eventLog.dir": events.as_uri(),
            "spark.log.level": "INFO",
        },
    )
    kafka = Kafka(spark, bootstrap, **options)
    print(f"the pipeline's side: {kafka!r} {vars(kafka)!r}")
    batch = kafka.batch("in")
    batch.explain(True)
    print(batch._jdf.queryExecution().toString())
    rows = sorted(bytes(row.value).decode() for row in batch.select("value").collect())
    stream = kafka.stream("in", startingOffsets="earliest")
    stream.explain(True)
    for topic, guarantee in (("out-exactly", "exactly_once"), ("out-least", "at_least_once")):
        query = kafka.to(
            stream.select("key", "value"),
            topic,
            key="key",
            app=f"secured-{guarantee}",
            checkpoint=str(directory / guarantee),
            guarantee=guarantee,
            trigger="available_now",
        )
        query.awaitTermination(300)
        tell(query)
    plain = {**options, "kafka.bootstrap.servers": bootstrap, "topic": "out-plain"}
    batch.select("key", "value").write.format("moldau").mode("append").options(**plain).save()
    fail(kafka, options)
    for page in pages(spark):
        print(page)
    spark.stop()
    print(json.dumps({"read": rows}))
    return 0


def tell(query: Any) -> None:
    query.explain(True)
    print(query.lastProgress, query.status, query.exception())
    print(query._jsq.toString())


def fail(kafka: Any, options: dict[str, str]) -> None:
    """What is wrong is told as well, and must not tell what it was."""
    broken = {**options, "kafka.sasl.mechanism": "PLAIN"}
    for wrong in (
        {**options, "kafka.sasl.jaas.config": options["kafka.sasl.jaas.config"][:-2]},
        {**options, "kafka.ssl.truststore.location": "/nowhere.pem"},
        broken,
    ):
        try:
            kafka.batch("in", **wrong).collect()
        except Exception as fault:
            print(f"told: {fault}")
        else:
            raise AssertionError("wrong settings did no harm")


def pages(spark: Any) -> list[str]:
    address = spark.sparkContext.uiWebUrl
    application = spark.sparkContext.applicationId
    wanted = [f"{address}/api/v1/applications/{application}/{page}" for page in PAGES]
    wanted += [f"{address}/{page}" for page in HTML]
    found = []
    for each in wanted:
        with urllib.request.urlopen(each, timeout=120) as answer:
            found.append(answer.read().decode())
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
