"""`moldau log-scrub` as an operator runs it: sentences, JSON, exit codes; and the scrubber of a
broker that stands alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.logs import LogBench, SmallSettings, batch


def scrub(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moldau.main", "log-scrub", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_damage_is_named_and_told_by_the_exit_code(tmp_path: Path) -> None:
    bench = LogBench(tmp_path, SmallSettings(segment_bytes=1000))
    for _ in range(10):
        bench.append(batch(2))
    bench.log.close()
    whole = scrub("--log-dir", str(tmp_path))
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.endswith("none damaged.\n")

    path = bench.file(0, ".log")
    content = bytearray(path.read_bytes())
    content[100] ^= 0x40
    path.write_bytes(content)
    damaged = scrub("--log-dir", str(tmp_path))
    assert damaged.returncode == 3
    assert f"{path} is damaged at bytes 0 to" in damaged.stdout
    assert "offsets 0 to 1: the checksum is wrong." in damaged.stdout
    answer = json.loads(scrub("--log-dir", str(tmp_path), "--json").stdout)
    assert [(row["topic"], row["partition"]) for row in answer["damaged"]] == [("logs", 0)]


def test_a_missing_directory_is_one_sentence() -> None:
    missing = scrub("--log-dir", "/no/such/directory")
    assert missing.returncode == 1
    assert missing.stderr + missing.stdout == (
        "cannot read /no/such/directory: No such file or directory\n"
    )


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x04]))


def test_a_lone_broker_makes_anew_what_it_can_and_tells_of_the_rest(tmp_path: Path) -> None:
    settings = {
        "log.scrubber.bytes.per.second": "50000000",
        "log.scrubber.interval.ms": "100",
        "log.initial.task.delay.ms": "100",
    }
    with BrokerProcess(tmp_path, overrides=settings) as broker:
        small = {"internal.segment.bytes": "3000", "index.interval.bytes": "200"}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1, config=small)])["t"].result(20)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        for number in range(60):
            producer.produce("t", f"{number} " * 40)
            producer.flush(20)
        first, second, third, *_ = sorted((broker.data / "t-0").glob("*.log"))
        mended = [
            first.with_suffix(".index"),
            second.with_suffix(".timeindex"),
            third.with_suffix(".snapshot"),
        ]
        whole = [path.read_bytes() for path in mended]
        for path in mended:
            flip(path, 6)
        eventually(lambda: [path.read_bytes() for path in mended] == whole)
        said = [f"{path} is damaged at bytes 0 to" for path in mended]
        eventually(lambda: all(each in broker.log_text for each in said))

        flip(second, 200)
        refusal = "t-0 is not repaired: there is no other replica in sync"
        eventually(lambda: refusal in broker.log_text)
        eventually(lambda: f"{second} is damaged at bytes" in broker.log_text)
    assert "Traceback" not in broker.log_text
