"""The topics of the coordinators are made whole or not at all (KIP-115): a cluster in which too few
brokers are alive for their replicas has no coordinators until there are enough."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from moldau.model.errors import Error
from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import zookeeper
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.request_framing import decode_response, encode_request
from tests.support.cluster_of_three import ClusterOfThree
from tests.support.eventually import eventually

FIND_COORDINATOR = 10
KINDS = {"__consumer_offsets": 0, "__transaction_state": 1}
SECONDS_MAX = 60
SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}


def coordinator(broker: BrokerProcess, kind: int) -> Any:
    request = FindCoordinatorRequest(key="me", key_type=kind)
    with socket.create_connection(("127.0.0.1", broker.port), SECONDS_MAX) as connection:
        connection.sendall(encode_request(FIND_COORDINATOR, 3, 7, "test", request))
        reader = connection.makefile("rb")
        size = int.from_bytes(reader.read(4), "big")
        return decode_response(FIND_COORDINATOR, 3, reader.read(size))


@pytest.mark.long
def test_two_of_three_brokers_make_no_internal_topics_and_three_make_them_whole(
    tmp_path: Path,
) -> None:
    with zookeeper(tmp_path / "zk") as server:
        cluster = ClusterOfThree(tmp_path, server, SETTINGS)
        try:
            check_with_two_then_three(cluster)
        finally:
            cluster.stop()


def check_with_two_then_three(cluster: ClusterOfThree) -> None:
    first, second, third = cluster.brokers
    for broker in (first, second):
        broker.start()
    cluster.zookeeper.start()
    cluster.until_live(0, 1)
    for broker in (first, second):
        for _ in range(3):
            for kind in KINDS.values():
                told = coordinator(broker, kind)
                assert told.error_code == Error.COORDINATOR_NOT_AVAILABLE
        said = [line for line in broker.log_text.splitlines() if "nobody coordinates" in line]
        assert len(said) == len(KINDS), "said once for each topic"
        assert "__consumer_offsets" in said[0]
        assert "needs 3 brokers (offsets.topic.replication.factor), 2 are alive" in said[0]
    assert not set(KINDS) & set(cluster.zookeeper.get_children("/brokers/topics"))
    third.start()
    cluster.until_live(0, 1, 2)
    for topic, kind in KINDS.items():
        eventually(lambda k=kind: coordinator(first, k).error_code == Error.NONE, SECONDS_MAX)
        placed = cluster.node(f"/brokers/topics/{topic}")["partitions"]
        assert [sorted(replicas) for replicas in placed.values()] == [[0, 1, 2]] * 2
    cluster.create("t")
    settings = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    producer = Producer({**settings, "transactional.id": "me"})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce("t", b"1")
    producer.commit_transaction(SECONDS_MAX)
    reader = Consumer({**settings, "group.id": "me", "auto.offset.reset": "earliest"})
    reader.subscribe(["t"])
    message = reader.poll(SECONDS_MAX)
    reader.close()
    assert message is not None and message.value() == b"1"
