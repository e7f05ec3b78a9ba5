"""Apache Kafka's own DumpLogSegments reads our files and has nothing to complain about.

Needs Java and Apache Kafka's jars in MOLDAU_KAFKA_HOME/libs (or the user's cache); skipped where
they are not at hand, because fetching them takes minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from moldau.records.batch_codec import Record, encode_batch
from moldau.records.compression import Codec
from tests.support.logs import LogBench, SmallSettings, batch

TOOL = "org.apache.kafka.tools.DumpLogSegments"
HOMES = [
    os.environ.get("MOLDAU_KAFKA_HOME", ""),
    "~/.cache/moldau/kafka-4.3.1",
]
LOGGING = '<Configuration status="OFF"><Loggers><Root level="ERROR"/></Loggers></Configuration>'
COMPLAINTS = re.compile(
    r"mismatch|corrupt|exception|error|invalid|non-consecutive|fault|failed|out of order|not found"
    r"|could not|isvalid: false",
    re.IGNORECASE,
)
FIRST_OFFSET_SURPRISE = re.compile(r"Non-consecutive offsets in .*\n  -1 is followed by \d+\n")
"""The tool counts from -1, so the first batch of every later segment surprises it."""
NOW_MS = 1_700_000_000_000


def libraries() -> Path | None:
    homes = [Path(home).expanduser() / "libs" for home in HOMES if home]
    return next((libs for libs in homes if list(libs.glob("kafka_2.13-*.jar"))), None)


LIBS = libraries()
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="java is not on the PATH"),
    pytest.mark.skipif(LIBS is None, reason="Apache Kafka's jars are not in MOLDAU_KAFKA_HOME"),
]


def dump(files: list[Path], *options: str) -> str:
    """What the tool prints; the test fails if it complains."""
    names = ",".join(str(file) for file in files)
    logging = files[0].parent.parent / "log4j2.xml"
    logging.write_text(LOGGING)
    jvm = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    log4j = f"-Dlog4j2.configurationFile={logging}"
    command = ["java", *jvm, log4j, "-cp", f"{LIBS}/*", TOOL, "--files", names, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = FIRST_OFFSET_SURPRISE.sub("", done.stdout + done.stderr)
    complaints = [line for line in printed.splitlines() if COMPLAINTS.search(line)]
    assert not complaints, "\n".join(complaints[:20])
    return done.stdout


def all_files(bench: LogBench, suffix: str) -> list[Path]:
    return [bench.directory / name for name in bench.files(suffix)]


def offsets_in(dumped: str) -> list[int]:
    return [int(text) for text in re.findall(r"^\| offset: (\d+)", dumped, re.MULTILINE)]


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path, SmallSettings(segment_bytes=10_000, index_interval_bytes=500))


def test_it_reads_every_codec_and_both_kinds_of_timestamps_in_several_segments(
    bench: LogBench,
) -> None:
    records = 0
    for turn in range(12):
        for codec in Codec:
            stamp = NOW_MS + 1000 * turn
            bench.append(batch(20, timestamp=stamp, codec=codec), turn // 4)
            rows = [Record(0, stamp - i, None, b"value %d" % i) for i in range(10)]
            bench.append(encode_batch(rows, codec=codec, log_append_time_ms=stamp), turn // 4)
            records += 30
    bench.log.close()
    logs = all_files(bench, ".log")
    assert len(logs) >= 3
    dumped = dump(logs, "--deep-iteration", "--print-data-log")
    assert offsets_in(dumped) == list(range(records))
    for codec in Codec:
        assert f"compresscodec: {codec.name.lower()}" in dumped
    assert "LogAppendTime" in dumped
    assert "CreateTime" in dumped


def test_it_finds_the_indexes_of_closed_and_last_segments_sane(bench: LogBench) -> None:
    for number in range(600):
        # Timestamps that jump back and forth, as those of many producers do.
        bench.append(batch(3, timestamp=NOW_MS + 10 * number - 7000 * (number % 3)))
    bench.log.close()
    indexes = all_files(bench, ".index") + all_files(bench, ".timeindex")
    assert len(indexes) >= 6
    assert all(os.path.getsize(index) for index in indexes)
    assert "passed sanity check" in dump(indexes, "--index-sanity-check")
    dump(indexes, "--verify-index-only")
    dumped = dump(indexes)
    assert "offset: " in dumped
    assert "timestamp: " in dumped


def test_it_finds_indexes_sane_that_recovery_rebuilt(bench: LogBench) -> None:
    for number in range(600):
        bench.append(batch(3, timestamp=NOW_MS + 10 * number - 7000 * (number % 3)))
    bench.log.close()
    before = {path: path.read_bytes() for path in bench.directory.glob("*index")}
    for path in before:
        path.unlink()
    bench.crash_and_open().close()
    assert {path: path.read_bytes() for path in bench.directory.glob("*index")} == before
    indexes = all_files(bench, ".index") + all_files(bench, ".timeindex")
    dump(indexes, "--index-sanity-check")
    dump(indexes, "--verify-index-only")


def test_it_reads_transactions_and_producer_snapshots(bench: LogBench) -> None:
    for turn in range(4):
        for producer_id in (1001, 1002):
            bench.append(
                batch(
                    5,
                    producer_id=producer_id,
                    epoch=3,
                    sequence=5 * turn,
                    transactional=True,
                    timestamp=NOW_MS + turn,
                )
            )
        bench.mark(1001, 3, commit=turn % 2 == 0, coordinator_epoch=7)
        bench.mark(1002, 3, commit=turn % 2 == 1, coordinator_epoch=8)
    bench.log.close()
    dumped = dump(all_files(bench, ".log"), "--deep-iteration", "--print-data-log")
    assert dumped.count("endTxnMarker: COMMIT") == 4
    assert dumped.count("endTxnMarker: ABORT") == 4
    assert "coordinatorEpoch: 7" in dumped
    aborted = dump(all_files(bench, ".txnindex"))
    assert aborted.count("producerId: 1001") == 2
    assert aborted.count("producerId: 1002") == 2
    snapshot = dump(all_files(bench, ".snapshot"))
    assert "producerId: 1001" in snapshot
    assert "producerEpoch: 3" in snapshot
    assert "lastSequence: 19" in snapshot
