"""`make demo`: a broker, some text, and two word counts on Spark, live; ends by itself.

Starts a broker in a folder of its own, sends lines to streams-plaintext-input a few at a time, runs
the word count and the windowed one, and prints counts as they come. At the end the counts are
checked against those of Python, and the console consumer prints them as Kafka's own would.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wordcount import INPUT, OUTPUT, WINDOWED_OUTPUT, start, start_windowed

from moldau import Admin, NewTopic, Producer
from moldau.pipelines import Kafka, session
from moldau.pipelines.tables.live_view import LiveView

LINES = (
    "all streams lead to kafka",
    "hello kafka streams",
    "join kafka summit",
    "the river carries all streams",
    "a log is a river that remembers",
)
ROUNDS = 4
COUNT_SECONDS_MAX = 90.0
CONSUMER = (
    "console-consumer --bootstrap-server {} --topic " + OUTPUT + " --from-beginning"
    " --formatter kafka.tools.DefaultMessageFormatter"
    " --property print.key=true --property print.value=true"
    " --property key.deserializer=org.apache.kafka.common.serialization.StringDeserializer"
    " --property value.deserializer=org.apache.kafka.common.serialization.LongDeserializer"
)


START_SECONDS_MAX = 30.0


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """A broker of our own on a free port; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moldau.main", "server-start"]
    for setting in (f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={folder}/data"):
        command += ["--override", setting]
    command += ["--override", "group.initial.rebalance.delay.ms=0"]
    environment = {**os.environ, "MOLDAU_RUN_DIR": f"{folder}/run"}
    with (folder / "broker.log").open("wb") as log:
        broker = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        wait_for(port, broker)
        yield f"127.0.0.1:{port}"
    finally:
        broker.terminate()
        broker.wait(START_SECONDS_MAX)


def wait_for(port: int, broker: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while broker.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("demo: the broker did not start")


def main() -> int:
    with (
        tempfile.TemporaryDirectory(prefix="moldau-demo-") as folder,
        running_broker(Path(folder)) as bootstrap,
    ):
        return show(bootstrap, folder)


def show(bootstrap: str, folder: str) -> int:
    say(f"a broker answers at {bootstrap}; starting Spark, which takes a moment")
    with Admin(bootstrap_servers=bootstrap) as admin:
        compacted = {"cleanup.policy": "compact"}
        admin.create_topics(
            [
                NewTopic(INPUT, 1),
                NewTopic(OUTPUT, 1, configs=compacted),
                NewTopic(WINDOWED_OUTPUT, 1, configs=compacted),
            ]
        )
    spark = session("demo", "local[2]", spark_sql_shuffle_partitions=1)
    k = Kafka(spark, bootstrap)
    queries = [start(k, folder), start_windowed(k, folder)]
    expected: Counter[str] = Counter()
    is_right = False
    try:
        with (
            LiveView(bootstrap, OUTPUT, value="long") as counts,
            LiveView(bootstrap, WINDOWED_OUTPUT, value="long") as windowed,
            Producer(bootstrap_servers=bootstrap) as producer,
        ):
            for _ in range(ROUNDS):
                for line in LINES:
                    producer.send(INPUT, line)
                    expected.update(line.split())
                    say(f'sent "{line}"')
                producer.flush()
                is_right = watch(counts, windowed, expected)
    finally:
        for query in queries:
            query.processAllAvailable()
            query.stop()
    say("the same with the console consumer, as Kafka's own prints it:")
    words = CONSUMER.format(bootstrap).split()
    printed = consume([*words, "--max-messages", str(changes(bootstrap))])
    print(printed, end="", flush=True)
    is_right = is_right and last_counts(printed) == dict(expected)
    say("all counts are right" if is_right else "the counts are WRONG")
    spark.stop()
    return 0 if is_right else 1


def watch(counts: LiveView, windowed: LiveView, expected: Counter[str]) -> bool:
    """Show the counts as they change, until they are what they should be."""
    deadline = time.monotonic() + COUNT_SECONDS_MAX
    shown: list[tuple[str, int]] = []
    while time.monotonic() < deadline:
        rows = counts.items()
        if rows != shown:
            shown = rows
            print("  " + "  ".join(f"{word}:{count}" for word, count in rows), flush=True)
        in_windows = sum(count for _, count in windowed.items())
        if dict(rows) == dict(expected) and in_windows == expected.total():
            told = ", ".join(f"{key} {count}" for key, count in windowed.items("[kafka@"))
            print(f"  kafka in windows of ten seconds: {told}", flush=True)
            return True
        time.sleep(0.25)
    return False


def changes(bootstrap: str) -> int:
    """How many records a reader of committed ones finds."""
    from moldau import Consumer, TopicPartition

    place = TopicPartition(OUTPUT, 0)
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([place])
        end, found = consumer.end_offsets([place])[place], 0
        while consumer.position(place) < end:
            found += len(consumer.poll(1.0))
        return found


def consume(words: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "moldau.main", *words],
        capture_output=True,
        text=True,
        timeout=COUNT_SECONDS_MAX,
        check=True,
    )
    return done.stdout


def last_counts(printed: str) -> dict[str, int]:
    rows = (line.split("\t") for line in printed.splitlines())
    return {word: int(count) for word, count in rows}


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
