"""Spark's own Kafka connector beside `format("moldau")`: a job moves over by changing one word."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, Consumer, NewTopic, Producer
from tests.support.spark_connector import connector_jars

pytestmark = pytest.mark.compat

JOBS = Path(__file__).parent / "clients" / "spark" / "jobs.py"
FIRST_MS = int(time.time() - 3600) * 1000
"""Brokers refuse records from the future."""
SECONDS_MAX = 240


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """Records of all kinds: nulls, headers, codecs, and transactions of both outcomes."""
    name = "spark-moves"
    with Admin(bootstrap_servers=bootstrap) as admin:
        sizes = {name: 2, f"{name}-kafka": 3, f"{name}-moldau": 3}
        admin.create_topics([NewTopic(each, partitions=n) for each, n in sizes.items()]).check()
    for codec in ("none", "lz4"):
        with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for number in range(30):
                sent = producer.send(
                    name,
                    None if number % 7 == 3 else f"{codec} {number}",
                    key=None if number % 5 == 0 else f"key {number}",
                    headers=[("first", b"1"), ("none", None)] if number % 3 else (),
                    partition=number % 2,
                    timestamp_ms=FIRST_MS + number * 1000,
                )
            sent.result(30)
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        for ending in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            for number in range(4):
                producer.send(name, ending.__name__, partition=number % 2)
            producer.flush()
            ending()
    return name


@pytest.fixture(scope="module")
def found(bootstrap: str, topic: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    checkpoints = tmp_path_factory.mktemp("checkpoints")
    places = [connector_jars(), str(checkpoints)]
    command = [sys.executable, str(JOBS), bootstrap, topic, str(FIRST_MS), *places]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert run.returncode == 0, run.stderr[-4000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["all", "plain", "committed", "ranges", "times", "split"])
def test_both_formats_read_the_same_schema_and_rows(found: Any, name: str) -> None:
    assert found["moldau"][name] == found["kafka"][name]
    assert len(found["kafka"][name]) > 5


def test_both_formats_write_the_same_records_to_the_same_partitions(
    found: Any, bootstrap: str, topic: str
) -> None:
    copies = {}
    for word in found:
        settings = {"auto_offset_reset": "earliest", "group_id": f"copies-{word}"}
        with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
            consumer.subscribe([f"{topic}-{word}"])
            records: list[Any] = []
            while len(records) < 60 + 8 + 40:
                batch = consumer.poll(5.0)
                assert batch, f"{word} wrote {len(records)} records only"
                records += list(batch)
        # Records without a key may go anywhere.
        copies[word] = sorted(
            (r.partition if r.key else -1, str(r.key), str(r.value), str(r.headers))
            for r in records
        )
    assert copies["moldau"] == copies["kafka"]
