"""Transactions of version 2 in a cluster whose brokers are all Moldau's: leaders add the partitions
they are written to, coordinators raise the epoch with every end, whoever is killed in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from tests.support.cluster_of_three import ClusterOfThree, cluster_of_three
from tests.support.eventually import eventually

TOPIC, GROUP, ID = "out", "workers", "worker-1"
PARTITIONS, ROUNDS = 3, 12
SECONDS_MAX = 60
SETTINGS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}


def level(admin: Admin, broker: int) -> int:
    found = admin.describe_features(broker).finalized.get("transaction.version")
    return 0 if found is None else found.max_version


@pytest.mark.long
def test_transactions_are_of_version_2_and_survive_brokers_that_are_killed(tmp_path: Path) -> None:
    with cluster_of_three(tmp_path, SETTINGS) as cluster:
        admin = Admin(bootstrap_servers=cluster.bootstrap)
        for broker in range(3):
            eventually(lambda number=broker: level(admin, number) == 2, SECONDS_MAX)
        cluster.create(TOPIC, PARTITIONS)
        kept = write(cluster)
        described = admin.describe_transactions([ID]).check()[ID]
        assert described.producer_epoch >= ROUNDS, "every end has raised the epoch"
        group = admin.list_group_offsets([GROUP]).check()[GROUP]
        assert group[TopicPartition(TOPIC, 0)].offset == kept[-1]
        admin.close()
        with Consumer(
            bootstrap_servers=cluster.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as reader:
            reader.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
            found: list[int] = []

            def has_read_all() -> bool:
                found.extend(int(record.value or b"") for record in reader.poll(1.0))
                return len(found) >= len(kept) * PARTITIONS

            eventually(has_read_all, SECONDS_MAX)
        assert sorted(found) == sorted(kept * PARTITIONS)


def write(cluster: ClusterOfThree) -> list[int]:
    """The rounds that were committed. A broker is killed, and is back, between any two thirds."""
    kept: list[int] = []
    with Producer(bootstrap_servers=cluster.bootstrap, transactional_id=ID) as producer:
        producer.init_transactions()
        for round in range(ROUNDS):
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.send(TOPIC, b"%d" % round, partition=partition)
            position = {TopicPartition(TOPIC, 0): OffsetAndMetadata(round)}
            producer.send_offsets_to_transaction(position, GROUP)
            if round % 4 == 2:
                cluster.kill(round // 4)
            if round % 3 == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                kept.append(round)
            if round % 4 == 2:
                cluster.revive()
    return kept
