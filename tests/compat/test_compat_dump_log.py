"""Apache Kafka's own DumpLogSegments reads the broker's files without one complaint.

Every line it prints must be one of those it prints for a healthy file: that catches complaints
whose wording nobody foresaw. Batches carry the codec their client was told to use.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from moldau.testing.broker_process import BrokerProcess
from tests.compat.clients.catalogue import Clients
from tests.compat.clients.port import CODECS, Client, Record
from tests.compat.conftest import Broker
from tests.compat.records import START_MS
from tests.support.apache_kafka import run_tool

pytestmark = pytest.mark.compat

DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
SEGMENT_BYTES = 1024 * 1024

FILE = re.compile(r"Dumping (?P<path>/.*)")
START = re.compile(r"Log starting offset: \d+")
BATCH = re.compile(r"baseOffset: \d+ lastOffset: \d+ count: (?P<count>\d+) .*isvalid: true")
CODEC = re.compile(r" compresscodec: (?P<codec>\w+) ")
RECORD = re.compile(r"\| offset: \d+ CreateTime: \d+ keySize: .*")
INDEX = re.compile(r"offset: \d+ position: \d+")
TIME_INDEX = re.compile(r"timestamp: \d+ offset: \d+")
PRODUCER = re.compile(r"producerId: \d+ producerEpoch: \d+ .*")
CHECKED = re.compile(r".*\.(index|timeindex) passed sanity check\.")
# What the 4.3.1 tool says of every segment but the first, Apache Kafka's own included.
FALSE_ALARM = re.compile(
    r"Non-consecutive offsets in \S+/0*(?P<base>\d+)\.log\n\s+-1 is followed by (?P=base)\n"
)
HEALTHY = (FILE, START, BATCH, RECORD, INDEX, TIME_INDEX, PRODUCER, CHECKED)


def readable_records(count: int) -> list[Record]:
    """Text, because the tool prints it; half of it noise, so that much is left after any codec."""
    chance = random.Random(3)
    return [
        Record(
            None if index % 4 == 0 else b"key-%d" % index,
            None if index % 4 == 1 else chance.randbytes(250).hex().encode() * 2,
            (("index", b"%d" % index),) if index % 3 == 0 else (),
            START_MS + index,
        )
        for index in range(count)
    ]


def files(data: Path, topic: str, *suffixes: str) -> list[Path]:
    found = sorted((data / f"{topic}-0").iterdir())
    return [path for path in found if path.suffix in suffixes]


def dump(paths: Sequence[Path], scratch: Path, *options: str) -> list[str]:
    """What the tool prints about these files, every line of it a healthy one."""
    names = ",".join(map(str, paths))
    ran = run_tool(DUMP_TOOL, *options, "--files", names, scratch=scratch)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    lines = ran.stdout.splitlines()
    complaints = [line for line in lines if not any(pattern.fullmatch(line) for pattern in HEALTHY)]
    assert not complaints, complaints[:5]
    assert not FALSE_ALARM.sub("", ran.stderr), ran.stderr[:2000]
    assert len([line for line in lines if FILE.fullmatch(line)]) == len(paths)
    return lines


def write_every_codec(client: Client, count: int, new_name: Callable[[str], str]) -> dict[str, str]:
    """Codec to topic."""
    topics = {codec: new_name(f"dump-{codec}") for codec in CODECS}
    for codec, topic in topics.items():
        client.create_topic(topic, partitions=1, configs={"segment.bytes": str(SEGMENT_BYTES)})
        client.produce(topic, readable_records(count), codec=codec)
    return topics


def test_it_reads_what_each_client_wrote_while_the_broker_runs(
    client: Client, broker: Broker, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    if broker.data is None:
        pytest.skip("MOLDAU_TEST_DATA does not say where the broker under test keeps its files")
    count = 600
    for codec, topic in write_every_codec(client, count, new_name).items():
        # Not the indexes: a broker may preallocate them, and the tool takes zeros for an entry.
        logs = files(broker.data, topic, ".log")
        lines = dump(logs, tmp_path, "--deep-iteration", "--print-data-log")

        assert_all_there(lines, codec, count)


def test_it_reads_several_segments_and_their_indexes_after_a_clean_stop(
    tmp_path: Path, new_name: Callable[[str], str]
) -> None:
    count = 6000
    process = BrokerProcess(tmp_path / "broker")
    process.start()
    clients = Clients(process.bootstrap)
    try:
        # This one sends batches of 64 KB: many to a segment, so the indexes have entries.
        topics = write_every_codec(clients["kafka-python"], count, new_name)
    finally:
        clients.close()
        process.stop()

    for codec, topic in topics.items():
        paths = files(process.data, topic, ".log", ".index", ".timeindex", ".snapshot")
        kinds = Counter(path.suffix for path in paths)
        assert kinds[".log"] > 1
        assert kinds[".index"] == kinds[".timeindex"] == kinds[".log"]
        assert kinds[".snapshot"] >= 1
        lines = dump(paths, tmp_path, "--deep-iteration", "--print-data-log")
        assert_all_there(lines, codec, count)
        assert any(INDEX.fullmatch(line) for line in lines)
        assert any(TIME_INDEX.fullmatch(line) for line in lines)
        assert any(PRODUCER.fullmatch(line) for line in lines)
        indexes = [path for path in paths if path.suffix in {".index", ".timeindex"}]
        dump(indexes, tmp_path, "--index-sanity-check")


def assert_all_there(lines: Sequence[str], codec: str, count: int) -> None:
    batches = [match for line in lines if (match := BATCH.fullmatch(line))]
    assert sum(int(batch["count"]) for batch in batches) == count
    assert sum(1 for line in lines if RECORD.fullmatch(line)) == count
    codecs = {match["codec"] for batch in batches if (match := CODEC.search(batch[0]))}
    assert codecs == {codec}
