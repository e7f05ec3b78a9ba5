"""Metrics of a cluster: lag where others lead, followers, the session with ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest

import moldau
from moldau.testing.broker_process import BrokerProcess, free_port
from moldau.testing.zookeeper_process import zookeeper
from tests.integration.test_server_metrics import numbers
from tests.support.eventually import eventually

pytestmark = pytest.mark.long

LAG = "kafka_consumergroup_lag{"
SECONDS = "kafka_consumergroup_group_lag_seconds{"


def test_lag_is_known_where_another_broker_leads(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    with zookeeper(tmp_path / "zookeeper") as server:
        brokers = [
            BrokerProcess(
                tmp_path / f"broker-{n}",
                overrides={
                    "broker.id": str(n),
                    "zookeeper.connect": server.connect,
                    "metrics.http.listener": f"127.0.0.1:{port}",
                    "offsets.topic.replication.factor": "1",
                    "offsets.topic.num.partitions": "1",
                },
            )
            for n, port in enumerate(ports)
        ]
        with brokers[0], brokers[1]:
            settings = {"bootstrap.servers": brokers[0].bootstrap}
            with moldau.Admin(settings) as admin:
                eventually(lambda: len(admin.describe_cluster().nodes) == 2)
                admin.create_topics([moldau.NewTopic("spread", 4, 1)])
                admin.create_topics([moldau.NewTopic("copied", 2, 2)])
            with moldau.Producer({**settings, "linger.ms": 0}) as producer:
                for number in range(8):
                    producer.send("spread", b"read", partition=number % 4).result()
                producer.send("copied", b"copied", partition=0).result()
            reading = {**settings, "group.id": "readers", "auto.offset.reset": "earliest"}
            with moldau.Consumer(reading) as consumer:
                consumer.subscribe(["spread"])
                read = 0
                while read < 8:
                    read += len(consumer.poll(1000))
                consumer.commit()
            with moldau.Producer({**settings, "linger.ms": 0}) as producer:
                for number in range(4):
                    producer.send("spread", b"unread", partition=number).result()

            def told(beginning: str) -> list[float]:
                """By whichever broker coordinates the group."""
                return [
                    value
                    for port in ports
                    for name, value in numbers(port).items()
                    if name.startswith(beginning) and 'topic="spread"' in name
                ]

            eventually(lambda: told(LAG) == [1, 1, 1, 1])
            eventually(lambda: len(told(SECONDS)) == 4)
            assert max(told(SECONDS)) < 120

            both = [numbers(port) for port in ports]
            connected = "kafka_server_sessionexpirelistener_zookeepersyncconnects_total{}"
            latency = "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count{}"
            for found in both:
                assert found[connected] >= 1
                assert found[latency] > 10
                state = 'kafka_server_sessionexpirelistener_sessionstate{state="CONNECTED"}'
                assert found[state] == 1
            active = "kafka_controller_kafkacontroller_activecontrollercount{}"
            assert sum(found[active] for found in both) == 1
            fetched = 'kafka_network_requestmetrics_totaltimems_count{request="FetchFollower"}'
            assert sum(found.get(fetched, 0) for found in both) > 0


def test_what_a_reassignment_moves_is_counted_on_both_sides(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    with zookeeper(tmp_path / "zookeeper") as server:
        brokers = [
            BrokerProcess(
                tmp_path / f"broker-{n}",
                overrides={
                    "broker.id": str(n),
                    "zookeeper.connect": server.connect,
                    "metrics.http.listener": f"127.0.0.1:{port}",
                },
            )
            for n, port in enumerate(ports)
        ]
        with brokers[0], brokers[1]:
            settings = {"bootstrap.servers": brokers[0].bootstrap}
            with moldau.Admin(settings) as admin:
                eventually(lambda: len(admin.describe_cluster().nodes) == 2)
                admin.create_topics([moldau.NewTopic("moved", assignments={0: [0]})])
                with moldau.Producer({**settings, "compression.type": "none"}) as producer:
                    for _ in range(20):
                        producer.send("moved", b"x" * 10_000).result()
                admin.alter_partition_reassignments({moldau.TopicPartition("moved", 0): [1]})
                size = 'kafka_log_log_size{topic="moved",partition="0"}'
                eventually(lambda: numbers(ports[1], "/metrics/partitions").get(size, 0) > 200_000)
                eventually(lambda: not admin.list_partition_reassignments())
                moved = numbers(ports[1], "/metrics/partitions")[size]

            def counted(port: int, name: str) -> float:
                return numbers(port)[
                    f"kafka_server_brokertopicmetrics_reassignmentbytes{name}_total{{}}"
                ]

            assert [counted(port, "out") for port in ports] == [moved, 0]
            assert [counted(port, "in") for port in ports] == [0, moved]
            moving = "kafka_server_replicamanager_reassigningpartitions{}"
            assert [numbers(port)[moving] for port in ports] == [0, 0]
            times = "kafka_controller_controllerchannelmanager_requestrateandqueuetimems_count{"
            told = [name for port in ports for name in numbers(port) if name.startswith(times)]
            assert sorted(told) == [f'{times}broker_id="{n}"}}' for n in range(2)]
