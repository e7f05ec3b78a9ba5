"""`storage adopt` names what it does not take over from the metadata of Apache Kafka 4.3.1."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.apache_kafka import ApacheKafka, run_tool

pytestmark = pytest.mark.compat
CONFIGS = "kafka.admin.ConfigCommand"


def adopt(directory: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "moldau.main", "storage", "adopt", "--log-dir", str(directory))
    return subprocess.run([*command, *flags], capture_output=True, text=True, timeout=60)


def test_what_an_adoption_leaves_out_is_named_and_a_missing_partition_refused(
    tmp_path: Path,
) -> None:
    peer = ApacheKafka(tmp_path / "kafka")
    peer.start()
    try:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 3, 1)])["t"].result(30)
        for words in (
            "--entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2",
            "--entity-type brokers --entity-default --add-config log.cleaner.threads=3",
            "--entity-type users --entity-name u --add-config SCRAM-SHA-256=[password=p]",
            "--entity-type clients --entity-name c --add-config producer_byte_rate=1024",
            "--entity-type clients --entity-name d --add-config producer_byte_rate=1024",
            "--entity-type clients --entity-name d --delete-config producer_byte_rate",
        ):
            asked = ("--bootstrap-server", peer.bootstrap, "--alter", *words.split())
            done = run_tool(CONFIGS, *asked, scratch=tmp_path / "tool")
            assert done.returncode == 0, done.stdout + done.stderr
    finally:
        peer.stop()

    shutil.move(peer.log_directory / "t-2", tmp_path / "t-2")
    refused = adopt(peer.log_directory)
    assert refused.returncode == 1
    assert "topic t has 3 partitions and partition 2 is not here" in refused.stdout + refused.stderr
    shutil.move(tmp_path / "t-2", peer.log_directory / "t-2")

    adopted = adopt(peer.log_directory)
    assert adopted.returncode == 0, adopted.stderr
    opening = "Not adopted, a broker on its own keeps none from there: "
    left_out = [line for line in adopted.stdout.splitlines() if line.startswith(opening)]
    assert [line.removeprefix(opening) for line in left_out] == [
        "1 passwords of users (SCRAM).",
        "1 quotas.",
        # Two from above, and min.insync.replicas, which Kafka sets for all brokers by itself.
        "3 settings of brokers.",
    ]
