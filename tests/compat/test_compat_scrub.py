"""In a mixed cluster Moldau's broker repairs what its disk has damaged from Apache Kafka 3.9.1,
whether that broker leads the partition or follows."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.mixed_cluster import SECONDS_MAX, Cluster, Kafka39Process, cluster

pytestmark = pytest.mark.compat

SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "log.scrubber.bytes.per.second": "50000000",
    "log.scrubber.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
}
KAFKA, MOLDAU = 1, 3


def fill(made: Cluster, topic: str) -> None:
    """Enough for a segment of the smallest size that both kinds of broker allow to be closed."""
    writer = Producer(
        {"bootstrap.servers": made.bootstrap, "transactional.id": topic, "log_level": 0}
    )
    writer.init_transactions(SECONDS_MAX)
    for number in range(8):
        writer.begin_transaction()
        for part in range(25):
            writer.produce(topic, f"{number}.{part} ".encode() * 1500)
        writer.flush(SECONDS_MAX)
        if number % 4 == 3:
            writer.abort_transaction(SECONDS_MAX)
        else:
            writer.commit_transaction(SECONDS_MAX)
    made.until_replicas_agree(topic, [[KAFKA, MOLDAU]])


def test_damage_is_repaired_from_a_broker_of_apache_kafka(tmp_path: Path) -> None:
    kinds = {KAFKA: Kafka39Process, MOLDAU: BrokerProcess}
    with cluster(tmp_path, kinds, SETTINGS) as made:
        for replicas in ([KAFKA, MOLDAU], [MOLDAU, KAFKA]):
            topic = f"led-by-{replicas[0]}"
            made.create(topic, [replicas], segment_bytes="1048576")
            fill(made, topic)
            whole = made.log_bytes(KAFKA, topic, 0)
            first, *rest = sorted((made.brokers[MOLDAU].data / f"{topic}-0").glob("*.log"))
            assert rest, "no segment is closed"
            with first.open("r+b") as file:
                file.seek(200_000)
                file.write(bytes(10))
            assert made.log_bytes(MOLDAU, topic, 0) != whole
            eventually(lambda whole=whole, t=topic: made.log_bytes(MOLDAU, t, 0) == whole)  # type: ignore[misc]
            said = f"Repaired {first} from broker {KAFKA}."
            eventually(lambda said=said: said in made.brokers[MOLDAU].log_text)  # type: ignore[misc]
