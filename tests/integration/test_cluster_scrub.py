"""A byte flips on one broker's disk: the scrubber of the running broker, or the command while it is
stopped, finds it and repairs it from another replica, be the broker a follower or the leader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.support.cluster_of_three import SECONDS_MAX, ClusterOfThree
from tests.support.eventually import eventually

SETTINGS = {
    "log.scrubber.bytes.per.second": "50000000",
    "log.scrubber.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "replica.lag.time.max.ms": "3000",
}


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, str]:
    return SETTINGS


def fill(cluster: ClusterOfThree, topic: str) -> None:
    """Several closed segments with transactions, the same on every broker."""
    settings = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    writer = Producer({**settings, "transactional.id": topic})
    writer.init_transactions(SECONDS_MAX)
    for number in range(12):
        writer.begin_transaction()
        for part in range(10):
            writer.produce(topic, f"{number}.{part} " * 20, f"k{part}")
        writer.flush(SECONDS_MAX)
        if number % 4 == 3:
            writer.abort_transaction(SECONDS_MAX)
        else:
            writer.commit_transaction(SECONDS_MAX)
    # Returns when the last transaction is complete: its marker comes after the abort is answered.
    Producer({**settings, "transactional.id": topic}).init_transactions(SECONDS_MAX)
    eventually(lambda: len({cluster.log_bytes(n, topic) for n in range(3)}) == 1)


def closed(cluster: ClusterOfThree, broker: int, topic: str) -> list[Path]:
    files = sorted((cluster.brokers[broker].data / f"{topic}-0").glob("*.log"))
    assert len(files) > 3
    return files[:-1]


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x20]))


def are_alike(cluster: ClusterOfThree, topic: str) -> bool:
    return len({cluster.log_bytes(number, topic) for number in range(3)}) == 1


def latest_by_key(cluster: ClusterOfThree, topic: str) -> dict[bytes, bytes]:
    """What a table of the topic would hold."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "table", "log_level": 0}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    table: dict[bytes, bytes] = {}
    while True:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        if message.error():
            consumer.close()
            return table
        key, value = message.key() or b"", message.value()
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


def files_beside(cluster: ClusterOfThree, broker: int, topic: str) -> dict[str, bytes]:
    folder = cluster.brokers[broker].data / f"{topic}-0"
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex")
    }


@pytest.mark.parametrize("role", ["follower", "leader"])
def test_a_running_broker_repairs_what_its_disk_has_changed(
    cluster: ClusterOfThree, role: str
) -> None:
    topic = f"mended-{role}"
    cluster.place(topic, 0, 1, 2, internal_segment_bytes="2500", index_interval_bytes="200")
    fill(cluster, topic)
    values = cluster.values(topic)
    broker = 0 if role == "leader" else 1
    before = files_beside(cluster, broker, topic)
    damaged = closed(cluster, broker, topic)[1]
    flip(damaged, 100)
    # It may be repaired before the test could see the damage, and be told a little later.
    repaired = f"Repaired {damaged} from broker {1 if role == 'leader' else 0}."
    eventually(lambda: repaired in cluster.brokers[broker].log_text)
    assert f"{damaged} is damaged at bytes 0 to" in cluster.brokers[broker].log_text
    assert are_alike(cluster, topic)
    assert files_beside(cluster, broker, topic) == before
    assert cluster.values(topic) == values
    cluster.write(topic, "and on it goes")
    assert cluster.values(topic) == [*values, "and on it goes"]


def test_of_a_compacted_topic_all_that_was_compacted_is_replaced(cluster: ClusterOfThree) -> None:
    topic = "latest"
    cluster.place(
        topic,
        1,
        0,
        2,
        internal_segment_bytes="2500",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
    )
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(300):
        value = None if number % 10 == 9 else f"{number} " * 20
        producer.produce(topic, value, f"k{number % 50}")
        producer.flush(SECONDS_MAX)
    eventually(lambda: f"Log {topic}-0 cleaned up to offset" in cluster.brokers[1].log_text)
    latest = latest_by_key(cluster, topic)
    damaged = max(closed(cluster, 1, topic), key=lambda path: path.stat().st_size)
    flip(damaged, damaged.stat().st_size // 2)
    said = f"Repaired {damaged} from broker"
    eventually(lambda: said in cluster.brokers[1].log_text)
    assert latest_by_key(cluster, topic) == latest
    scrubbed = scrub("--log-dir", str(cluster.brokers[1].data), "--topic", topic, "--closed-only")
    assert scrubbed.returncode == 0, scrubbed.stdout


def moldau(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moldau.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def scrub(*words: str) -> subprocess.CompletedProcess[str]:
    return moldau("log-scrub", *words)


def test_the_command_repairs_the_directory_of_a_stopped_broker(cluster: ClusterOfThree) -> None:
    topic = "mended-by-hand"
    cluster.place(topic, 2, 0, 1, internal_segment_bytes="2500")
    fill(cluster, topic)
    broker = cluster.brokers[2]
    before = files_beside(cluster, 2, topic)
    words = ("--log-dir", str(broker.data), "--topic", topic)
    running = scrub(*words, "--repair")
    assert running.returncode == 1
    assert "is using this directory" in running.stderr + running.stdout

    assert broker.stop() == 0
    first, second, *_ = closed(cluster, 2, topic)
    flip(first, 9)
    flip(second, 70)
    flip(second.with_suffix(".timeindex"), 3)
    alone = scrub(*words, "--repair")
    assert alone.returncode == 3
    assert "say where with --bootstrap-server" in alone.stdout
    others = ("--bootstrap-server", cluster.brokers[0].bootstrap)
    repaired = scrub(*words, "--repair", *others, "--json")
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    answer = json.loads(repaired.stdout)
    assert {row["path"] for row in answer["damaged"]} == {str(first), str(second)}
    assert all(row["repaired"] for row in answer["damaged"])
    assert scrub(*words).stdout.endswith("none damaged.\n")
    after = files_beside(cluster, 2, topic)
    assert {n: c for n, c in after.items() if n.endswith((".log", ".txnindex"))} == {
        n: c for n, c in before.items() if n.endswith((".log", ".txnindex"))
    }
    broker.start()
    eventually(lambda: sorted(cluster.state(topic)["isr"]) == [0, 1, 2])
    assert are_alike(cluster, topic)


def set_pace(cluster: ClusterOfThree, bytes_per_second: int) -> None:
    changed = "settings changed: log.scrubber.bytes.per.second"
    brokers = [broker for broker in cluster.brokers if broker.process is not None]
    before = {broker.port: broker.log_text.count(changed) for broker in brokers}
    done = moldau(
        *("configs", "--bootstrap-server", cluster.bootstrap, "--alter"),
        *("--entity-type", "brokers", "--entity-default"),
        *("--add-config", f"log.scrubber.bytes.per.second={bytes_per_second}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    eventually(
        lambda: all(broker.log_text.count(changed) > before[broker.port] for broker in brokers)
    )


def test_a_follower_does_not_copy_damage_and_catches_up_once_it_is_repaired(
    cluster: ClusterOfThree,
) -> None:
    """The leader's disk fails while a follower is away; another follower has what is needed."""
    topic = "refused"
    cluster.place(topic, 0, 1, 2, internal_segment_bytes="2500")
    follower = cluster.brokers[2]
    cluster.kill(2)
    eventually(lambda: 2 not in cluster.state(topic)["isr"])
    set_pace(cluster, 0)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(100):
        producer.produce(topic, f"{number} " * 30)
        producer.flush(SECONDS_MAX)
    whole = cluster.log_bytes(0, topic)
    eventually(lambda: cluster.log_bytes(1, topic) == whole)
    flip(closed(cluster, 0, topic)[1], 90)
    follower.start()
    refusal = f"Found invalid messages in {topic}-0: the batch for offset"
    eventually(lambda: refusal in follower.log_text)
    copied = cluster.log_bytes(2, topic)
    assert whole.startswith(copied)
    assert len(copied) < len(whole)

    set_pace(cluster, 50_000_000)
    eventually(lambda: cluster.log_bytes(0, topic) == whole)
    eventually(lambda: cluster.log_bytes(2, topic) == whole)
