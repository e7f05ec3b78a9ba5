"""Topics created, written to and deleted by six clients at once, on real processes.

Whatever order the controller's writes, its reads and the news of ZooKeeper come in: a topic that
was created stays, what was acknowledged is found again, and the controller never trips over its
own feet.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from kazoo.exceptions import NoNodeError

from tests.support import seeds
from tests.support.cluster_of_three import ClusterOfThree, cluster_of_three
from tests.support.topic_churn import TopicClient

CLIENTS = 6
TOPICS = 72
TOPICS_LONG = 1_000
PAUSE_SECONDS = (0.5, 4.0)
"""Between two changes of the controller."""
READ_SECONDS_MAX = 60
START_SECONDS_MAX = 180.0
TRIPPED = "did not take a change"
"""Said by a controller whose own write was refused."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterOfThree]:
    with cluster_of_three(tmp_path) as made:
        for broker in made.brokers:
            # Hundreds of logs are recovered when one comes back.
            broker.start_seconds_max = START_SECONDS_MAX
        yield made


def test_topics_created_and_deleted_by_six_clients_at_once_keep_every_record(
    cluster: ClusterOfThree,
) -> None:
    drawn = seeds.one()
    clients = [TopicClient(cluster, n, TOPICS // CLIENTS, drawn) for n in range(CLIENTS)]
    play(clients)
    check(cluster, clients)
    assert not any("Resigning" in broker.log_text for broker in cluster.brokers)


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_a_thousand_topics_and_changing_controllers_lose_nothing(cluster: ClusterOfThree) -> None:
    drawn = seeds.one()
    clients = [TopicClient(cluster, n, TOPICS_LONG // CLIENTS + 1, drawn) for n in range(CLIENTS)]
    chance = random.Random(drawn)
    changes = 0
    for client in clients:
        client.start()
    while any(client.is_running for client in clients):
        time.sleep(chance.uniform(*PAUSE_SECONDS))
        changes += change_controller(cluster, chance)
    for client in clients:
        client.join()
    cluster.revive()
    print(f"{changes} changes of the controller")
    check(cluster, clients)


def play(clients: list[TopicClient]) -> None:
    for client in clients:
        client.start()
    for client in clients:
        client.join()


def change_controller(cluster: ClusterOfThree, chance: random.Random) -> int:
    """Ended by hand mostly, as an operator does it; now and then with its process."""
    try:
        number = cluster.node("/controller")["brokerid"]
        if chance.random() < 0.8:
            cluster.zookeeper.delete("/controller")
        else:
            cluster.kill(number)
            cluster.brokers[number].start()
    except NoNodeError:
        return 0
    return 1


def check(cluster: ClusterOfThree, clients: list[TopicClient]) -> None:
    assert [fault for client in clients for fault in client.faults] == []
    expected: dict[str, list[str]] = {}
    for client in clients:
        expected |= client.acknowledged
    known = cluster.zookeeper.get_children("/brokers/topics")
    assert sorted(expected.keys() - set(known)) == [], "topics are gone"
    deleted = set(itertools.chain.from_iterable(client.deleted for client in clients))
    assert deleted.isdisjoint(known), "topics were deleted and are there"
    found = read(cluster, sorted(expected))
    lost = {
        topic: missing
        for topic, values in sorted(expected.items())
        if (missing := sorted({*values} - {*found[topic]}))
    }
    assert lost == {}, "acknowledged records are gone"
    for broker in cluster.brokers:
        tripped = [line for line in broker.log_text.splitlines() if TRIPPED in line]
        assert tripped == []
    assert sum(map(len, expected.values())) >= len(expected), "nothing was acknowledged"


def read(cluster: ClusterOfThree, topics: list[str]) -> dict[str, list[str]]:
    """Everything, up to each topic's end."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "log_level": 0}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
    found: dict[str, list[str]] = {topic: [] for topic in topics}
    unread = set(topics)
    while unread:
        message = consumer.poll(READ_SECONDS_MAX)
        assert message is not None, f"{sorted(unread)} cannot be read"
        fault, topic = message.error(), message.topic()
        if fault is None:
            found[topic or ""].append((message.value() or b"").decode())
        elif fault.code() == KafkaError._PARTITION_EOF:
            unread.discard(topic or "")
    consumer.close()
    return found
