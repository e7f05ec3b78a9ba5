"""A log directory goes from Apache Kafka 3.9.1 to Moldau and back: every record, offset, timestamp,
header, transaction and committed offset is what it was, and 3.9.1 reads what Moldau wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from moldau.testing.broker_process import BrokerProcess
from tests.compat.adoption import (
    CODECS,
    all_topics,
    commit,
    committed,
    create_topics,
    dump_all,
    end_open,
    fill,
    latest_values,
    leave_open,
    producers,
)
from tests.support.apache_kafka_39 import ApacheKafka39

pytestmark = pytest.mark.compat

MOLDAU = (sys.executable, "-m", "moldau.main")


def test_a_directory_goes_from_apache_kafka_to_moldau_and_back(tmp_path: Path) -> None:
    cleaner = {
        "log.cleaner.backoff.ms": "200",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
    }
    peer = ApacheKafka39(tmp_path / "kafka", cleaner)
    peer.start()
    try:
        create_topics(peer.bootstrap)
        fill(peer.bootstrap, "kafka")
        leave_open(peer.bootstrap, "kafka")
        commit(peer.bootstrap)
        before_producers = producers(peer.bootstrap, tmp_path)
    finally:
        peer.stop()
    peer.launch()
    peer.wait()
    try:
        before = all_topics(peer.bootstrap)
    finally:
        peer.stop()
    assert len(before["plain"]) == 200 * len(CODECS)
    assert len(before["latest"]) < 300 * len(CODECS), "nothing was compacted"
    assert len(before["ledger"]) == 12
    assert len(before["ledger, aborted too"]) == 18
    assert len(list((peer.log_directory / "plain-0").glob("*.log"))) > 1

    adopted = subprocess.run(
        [*MOLDAU, "storage", "adopt", "--log-dir", str(peer.log_directory)],
        capture_output=True,
        text=True,
    )
    assert adopted.returncode == 0, adopted.stderr
    assert "Adopted topic plain with 3 partitions." in adopted.stdout
    again = subprocess.run(adopted.args, capture_output=True, text=True)
    assert again.returncode == 1
    assert "has used this directory before" in again.stderr + again.stdout

    settings = {"broker.id": "1", "log.dirs": str(peer.log_directory)}
    broker = BrokerProcess(tmp_path / "moldau", overrides={**settings, **cleaner})
    broker.start()
    try:
        assert all_topics(broker.bootstrap) == before
        assert committed(broker.bootstrap) == 17
        assert producers(broker.bootstrap, tmp_path) == before_producers
        end_open(broker.bootstrap, "kafka")
        fill(broker.bootstrap, "moldau")
        after = all_topics(broker.bootstrap)
    finally:
        assert broker.stop() == 0
    assert len(after["plain"]) == 2 * len(before["plain"])

    dump_all(peer.log_directory, tmp_path)
    peer.launch()
    peer.wait()
    try:
        found = all_topics(peer.bootstrap)
        # Both may compact further; what is the latest for each key must not change.
        assert latest_values(found.pop("latest")) == latest_values(after.pop("latest"))
        assert found == after
        assert committed(peer.bootstrap) == 17
    finally:
        peer.stop()
