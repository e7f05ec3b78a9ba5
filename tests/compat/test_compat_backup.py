"""Backups of Apache Kafka, restored onto Moldau, and judged by Kafka's own tools."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import moldau.testing
from tests.support import seeds
from tests.support.apache_kafka import ApacheKafka, run_tool
from tests.support.backups import back_up, restore, restore_whole
from tests.support.fork_load import COPIES, TOPICS, TransactionalLoad, check_fork
from tests.support.tracked_topic import create, delete_records, produce, read

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

SETTINGS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), SETTINGS) as kafka:
        yield kafka


def dumped(data: Path, partition: str, scratch: Path) -> list[str]:
    """What Kafka's DumpLogSegments says of every batch; not where in a file it is."""
    lines = []
    for path in sorted((data / partition).glob("*.log")):
        words = ("--deep-iteration", "--print-data-log", "--files", str(path))
        done = run_tool("org.apache.kafka.tools.DumpLogSegments", *words, scratch=scratch)
        assert done.returncode == 0, done.stderr
        lines += [
            re.sub(r" position: \d+", "", line)
            for line in done.stdout.splitlines()
            if line.startswith(("baseOffset", "| offset"))
        ]
    return lines


def content(data: Path, partition: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((data / partition).glob("*.log")))


def test_what_apache_kafka_had_is_on_moldau_byte_for_byte(
    kafka: ApacheKafka, tmp_path: Path
) -> None:
    chance = random.Random(seeds.fresh())
    backup = tmp_path / "backup"
    create(kafka.bootstrap, "begun-late")
    produce(kafka.bootstrap, "begun-late", range(1000), size=100)
    delete_records(kafka.bootstrap, "begun-late", 501)
    with TransactionalLoad(kafka.bootstrap, "judged") as load:
        for _ in range(3):
            load.wait_for_more(chance.randrange(5, 60))
            before = load.acknowledged
            said = json.loads(back_up(kafka.bootstrap, backup, "--json"))
            after = load.begun
            assert said["exact"] is True
    ends = {
        topic["name"]: topic["partitions"][0]
        for topic in json.loads(last_moment(backup))["topics"].values()
    }
    with moldau.testing.broker(with_faults=False) as target:
        restore_whole(target.bootstrap, backup)
        check_fork(target.bootstrap, load, before, after)
        data = target.data
        target.stop()
        for name in (*(load.topic(each) for each in (*TOPICS, COPIES)), "begun-late"):
            closings = len(ends[name]["closings"])
            theirs = content(kafka.log_directory, f"{name}-0")
            ours = content(data, f"{name}-0")
            lines = dumped(data, f"{name}-0", tmp_path)
            originals = dumped(kafka.log_directory, f"{name}-0", tmp_path)
            if name == "begun-late":
                # The batch that holds the first record is whole.
                assert theirs.endswith(ours) and ours
                assert originals[-len(lines) :] == lines
                continue
            markers = 2 * closings
            kept = lines[:-markers] if markers else lines
            assert originals[: len(kept)] == kept and kept
            assert all("endTxnMarker" in line for line in lines[len(kept) :][1::2])
            size = len(ours) - closings * MARKER_BYTES
            assert theirs[:size] == ours[:size]


def test_committed_records_are_produced_onto_apache_kafka_and_groups_move_to_their_new_offsets(
    kafka: ApacheKafka, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    with moldau.testing.broker(with_faults=False) as source:
        create(source.bootstrap, "plain", partitions=3)
        produce(source.bootstrap, "plain", range(200))
        with TransactionalLoad(source.bootstrap, "produced") as load:
            load.wait_for_more(40)
            before = load.acknowledged
            back_up(source.bootstrap, backup)
            after = load.begun
    said = restore(kafka.bootstrap, backup)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "everything is the same" in said.stdout
    check_fork(kafka.bootstrap, load, before, after)
    # Aborted records never come back, not even for readers who would see them.
    assert "aborted" not in read(kafka.bootstrap, load.topic(TOPICS[0]))
    offsets = json.loads((backup / "restore.offsets").read_text())
    runs = offsets[load.topic(TOPICS[0])]["0"]["runs"]
    assert runs[0][0] == runs[0][1] == 0 and len(runs) > 1
    again = restore(kafka.bootstrap, backup)
    assert again.returncode == 1 and "already exists" in again.stderr


MARKER_BYTES = 78


def last_moment(backup: Path) -> str:
    return max((backup / "moments").iterdir()).read_text().partition("\n")[2]
