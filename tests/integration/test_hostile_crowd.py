"""Random requests that ask for too much, of every API in every version, beside a healthy client.

The requests are valid, with extreme counts, repeated names, huge strings and odd batches. The
healthy client loses nothing and is served on; the broker's loop is never held, its memory and its
log stay bounded.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.net.loop_watch import VARIABLE as LOOP_WATCH
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.support import seeds
from tests.support.eventually import eventually
from tests.support.hostile_costs import Client, create, resident_bytes
from tests.support.hostile_crowd import CLIENTS, HEALTHY, HealthyClient, Service, commit, read_from
from tests.support.hostile_messages import TOPICS
from tests.support.loop_holds import failing, summary, told_in

MB = 1_000_000
GROWTH_BYTES_MAX = 200 * MB
LOG_BYTES_MAX = 10 * MB
WAIT_MS_MAX = 10_000
"""Far above the aim of 100 ms, since the machine may be busy."""
OVERRIDES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # What members leave behind may take 128 MiB otherwise, and they do leave it.
    "group.state.max.bytes": "33554432",
    # What hostile producers write is kept for a moment only; a file of the log may fill the disk.
    "log.retention.bytes": "2000000",
    "log.segment.bytes": "1048576",
    "log.retention.check.interval.ms": "2000",
}


def test_a_healthy_client_is_served_beside_a_crowd(tmp_path: Path) -> None:
    # What holds the loop is only told here: the large crowd is judged by it.
    print("\n".join(play(tmp_path, 1_500, 3_000)))


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_a_healthy_client_is_served_beside_a_large_crowd(tmp_path: Path) -> None:
    assert play(tmp_path, seeds.times(200_000), 30_000) == []


def play(folder: Path, count: int, entries_max: int) -> list[str]:
    """What held the broker's loop and is not explained."""
    seed = seeds.one()
    watch = {LOOP_WATCH: str(folder / "loop")}
    with BrokerProcess(folder, overrides=OVERRIDES, environment=watch) as broker:
        create(broker.port, dict.fromkeys(TOPICS, 3))
        create_healthy(broker.port)
        memory_at_start = resident_bytes(broker.pid)
        with HealthyClient(broker.port) as healthy:
            crowd = [sys.executable, "-m", "tests.support.hostile_crowd"]
            words = [str(number) for number in (broker.port, seed, count, entries_max)]
            ended = subprocess.run([*crowd, *words], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        service, grown = healthy.service(), resident_bytes(broker.pid) - memory_at_start
        outcomes = json.loads(ended.stdout)
        report(outcomes, service, grown, len(broker.log_text))
        assert outcomes["sent"] >= count - count % CLIENTS
        check_nothing_is_lost(broker.port, service)
        assert broker.process is not None and broker.process.poll() is None, "died"
        assert grown < GROWTH_BYTES_MAX
    faults = [line for line in broker.log_text.splitlines() if "Request failed" in line]
    assert not faults, f"a handler broke, {faults[0]}"
    assert "Traceback" not in broker.log_text
    assert len(broker.log_text) < LOG_BYTES_MAX
    assert all(service.p99_ms(kind) < WAIT_MS_MAX for kind in service.waits_ms)
    return summary(failing(told_in(folder / "loop")))


def create_healthy(port: int) -> None:
    kept = CreatableTopicConfig(name="retention.bytes", value="-1")
    row = CreatableTopic(name=HEALTHY, num_partitions=1, replication_factor=1, configs=[kept])
    with Client(port) as client:
        client.ask(19, 5, CreateTopicsRequest(topics=[row], timeout_ms=60_000))
        client.ask(10, 1, FindCoordinatorRequest(key=HEALTHY))
        eventually(lambda: commit(client, 0) == 0)


def report(outcomes: dict[str, int], service: Service, grown: int, log_bytes: int) -> None:
    print(f"hostile requests: {outcomes}; records of the healthy client: {service.produced}")
    for kind, waits_ms in service.waits_ms.items():
        print(f"{kind}: p99 {service.p99_ms(kind):.0f} ms, longest {waits_ms[-1]:.0f} ms")
    print(f"memory grew by {grown / MB:.0f} MB, the log has {log_bytes / MB:.1f} MB")


def check_nothing_is_lost(port: int, service: Service) -> None:
    with Client(port) as client:
        number = 0
        while number < service.produced:
            batches, first = read_from(client, number), number
            while number < service.produced and b"record %d" % number in batches:
                number += 1
            assert number > first, f"record {number} is lost"
