"""What replication promises when brokers die in the worst order, one story each.

The two stories of KIP-101 (a replica must not trust its high watermark to truncate), elections of
replicas that lag, writes without enough replicas, the return to preferred leaders, and a partition
that moves while it is written to.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from moldau import Consumer
from moldau.errors import LogTruncationError
from moldau.model.names import TopicPartition
from moldau.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tests.support.cluster_of_three import SECONDS_MAX, ClusterOfThree
from tests.support.eventually import eventually
from tests.support.hostile_costs import Client

TOPIC = 2
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "600000",
}


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, str]:
    return SETTINGS


def moldau(*arguments: str) -> str:
    command = [sys.executable, "-m", "moldau.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def are_alike(cluster: ClusterOfThree, topic: str, *brokers: int) -> None:
    """The same bytes on all of them, and some."""
    eventually(lambda: len({cluster.log_bytes(broker, topic) for broker in brokers}) == 1)
    assert cluster.log_bytes(brokers[0], topic)


def test_a_replica_that_restarts_keeps_what_lies_above_its_high_watermark(
    cluster: ClusterOfThree,
) -> None:
    cluster.place("kip101-loss", 0, 1)
    cluster.write("kip101-loss", "m1", "m2")
    # Both fall at once. What was acknowledged is on their disks, but no high watermark is: it is
    # checkpointed now and then, and never here.
    cluster.kill(0, 1)
    for broker in (0, 1):
        checkpoint = cluster.brokers[broker].data / "replication-offset-checkpoint"
        assert not checkpoint.exists() or "kip101-loss 0 2" not in checkpoint.read_text()
    (last,) = cluster.state("kip101-loss")["isr"][-1:]
    cluster.brokers[last].start()
    eventually(lambda: cluster.state("kip101-loss")["leader"] == last)
    assert cluster.values("kip101-loss") == ["m1", "m2"]
    # The other one follows, and its log is not cut and filled up again from a wrong place.
    cluster.revive()
    eventually(lambda: sorted(cluster.state("kip101-loss")["isr"]) == [0, 1])
    cluster.write("kip101-loss", "m3")
    are_alike(cluster, "kip101-loss", 0, 1)
    assert cluster.values("kip101-loss") == ["m1", "m2", "m3"]


def leave_a_record_with_the_leader_alone(cluster: ClusterOfThree, topic: str) -> None:
    """Broker 1 lives, leads and has "m1"; broker 0, which is gone, has "m2" as well.

    A fetch of broker 1 may wait at the leader, which answers it with the new record even though
    broker 1 stands still: what the sockets hold of the answer is read when it goes on. So the
    record is many times as large as what they hold, and the answer ends in its midst.
    """
    alone = "m2" * 4_000_000
    limit = len(alone) + 1000
    cluster.place(topic, 0, 1, max_message_bytes=str(limit))
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": "1", "log_level": 0}
    # It knows the leader before broker 1 stands still, whose session must outlive the pause.
    producer = Producer({**settings, "message.max.bytes": limit})
    faults: list[object] = []
    producer.produce(topic, "m1", on_delivery=lambda fault, _: faults.append(fault))
    assert producer.flush(SECONDS_MAX) == 0
    are_alike(cluster, topic, 0, 1)
    held = cluster.brokers[1].process
    assert held is not None
    held.send_signal(signal.SIGSTOP)
    stands = os.WSTOPPED | os.WNOHANG
    eventually(lambda: os.waitid(os.P_PID, held.pid, stands) is not None)
    producer.produce(topic, alone, on_delivery=lambda fault, _: faults.append(fault))
    assert producer.flush(SECONDS_MAX) == 0
    assert faults == [None, None]
    cluster.brokers[0].kill()
    held.send_signal(signal.SIGCONT)
    eventually(lambda: cluster.state(topic)["leader"] == 1)
    assert alone.encode() in cluster.log_bytes(0, topic)
    assert b"m2m2m2m2" not in cluster.log_bytes(1, topic)


def test_a_leader_that_comes_back_drops_what_the_others_never_had(cluster: ClusterOfThree) -> None:
    # The leader has told no lie: what is written with acks=1 may be lost.
    leave_a_record_with_the_leader_alone(cluster, "kip101-split")
    cluster.write("kip101-split", "m3")
    # The logs part at offset 1. The old leader's epoch ends there, so its m2 goes.
    cluster.brokers[0].start()
    eventually(lambda: sorted(cluster.state("kip101-split")["isr"]) == [0, 1])
    cluster.write("kip101-split", "m4")
    are_alike(cluster, "kip101-split", 0, 1)
    assert cluster.values("kip101-split") == ["m1", "m3", "m4"]
    eventually(
        lambda: "Truncating partition kip101-split-0 to offset 1" in cluster.brokers[0].log_text
    )


def leave_only_a_laggard(cluster: ClusterOfThree, topic: str) -> None:
    """Broker 1 lives and has "a"; broker 0, which is gone, has "b" as well."""
    cluster.write(topic, "a")
    cluster.kill(1)
    eventually(lambda: cluster.state(topic)["isr"] == [0])
    cluster.write(topic, "b")
    cluster.kill(0)
    cluster.brokers[1].start()
    cluster.until_live(1, 2)
    eventually(lambda: cluster.state(topic)["leader"] == -1)


def test_a_replica_that_lags_does_not_lead_unless_it_is_allowed(cluster: ClusterOfThree) -> None:
    cluster.place("clean", 0, 1)
    leave_only_a_laggard(cluster, "clean")
    assert cluster.state("clean")["isr"] == [0]
    (fault,) = cluster.refusals("clean", "c", timeout_s=2)
    assert fault.code() == KafkaError._MSG_TIMED_OUT
    cluster.brokers[0].start()
    eventually(lambda: cluster.state("clean")["leader"] == 0)
    cluster.write("clean", "d")
    assert cluster.values("clean") == ["a", "b", "d"]


def test_a_replica_that_lags_leads_where_losing_records_is_allowed(cluster: ClusterOfThree) -> None:
    cluster.place("unclean", 0, 1)
    leave_only_a_laggard(cluster, "unclean")
    change = ConfigEntry(
        "unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET
    )
    topic = ConfigResource(ResourceType.TOPIC, "unclean", incremental_configs=[change])
    admin = cluster.admin
    admin.incremental_alter_configs([topic])[topic].result(SECONDS_MAX)
    eventually(lambda: cluster.state("unclean")["leader"] == 1)
    assert cluster.state("unclean")["isr"] == [1]
    cluster.write("unclean", "c")
    cluster.brokers[0].start()
    eventually(lambda: sorted(cluster.state("unclean")["isr"]) == [0, 1])
    assert cluster.values("unclean") == ["a", "c"]
    are_alike(cluster, "unclean", 0, 1)


def test_a_running_consumer_goes_back_to_where_the_logs_part_after_a_truncation(
    cluster: ClusterOfThree,
) -> None:
    """Its broker is gone with records that it has read; the next leader never had them."""
    cluster.place("cut", 0, 1, unclean_leader_election_enable="true")
    cluster.write("cut", "a")
    settings = {"bootstrap.servers": cluster.bootstrap, "metadata.max.age.ms": "500"}
    place = TopicPartition("cut", 0)
    with (
        Consumer({**settings, "auto.offset.reset": "earliest"}) as going_back,
        Consumer({**settings, "auto.offset.reset": "none"}) as told,
    ):
        for consumer in (going_back, told):
            consumer.assign([place])
            consumer.seek(place, 0)
            assert read(consumer, 1) == ["a"]
        cluster.kill(1)
        eventually(lambda: cluster.state("cut")["isr"] == [0])
        cluster.write("cut", "b", "c")
        for consumer in (going_back, told):
            assert read(consumer, 2) == ["b", "c"]
        cluster.kill(0)
        cluster.brokers[1].start()
        eventually(lambda: cluster.state("cut")["leader"] == 1)
        cluster.write("cut", "d", "e", "f", "g")
        assert read(going_back, 4) == ["d", "e", "f", "g"]
        with pytest.raises(LogTruncationError, match="truncated to offset 1"):
            read(told, 1)


def read(consumer: Consumer, count: int) -> list[str]:
    """So many values, and those that came along."""
    found: list[str] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {found} came"
        found += [(record.value or b"").decode() for record in consumer.poll(0.5)]
    return found


def test_writes_are_refused_while_too_few_replicas_are_in_sync(cluster: ClusterOfThree) -> None:
    cluster.place("careful", 0, 1, 2, min_insync_replicas="2")
    cluster.write("careful", "a")
    cluster.kill(1, 2)
    eventually(lambda: cluster.state("careful")["isr"] == [0])
    (fault,) = cluster.refusals("careful", "b", timeout_s=3)
    assert fault.code() in (KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._MSG_TIMED_OUT)
    said = (
        "The size of the current ISR Set(0) is insufficient to satisfy the min.isr requirement of "
        "2 for partition careful-0"
    )
    eventually(lambda: said in cluster.brokers[0].log_text)
    cluster.write("careful", "c", acks="1")
    # With one of them back there are enough, and what was written alone counts.
    cluster.brokers[1].start()
    eventually(lambda: sorted(cluster.state("careful")["isr"]) == [0, 1])
    cluster.write("careful", "d")
    assert cluster.values("careful") == ["a", "c", "d"]


def test_every_broker_tells_the_settings_of_a_topic_that_it_has_no_replica_of(
    cluster: ClusterOfThree,
) -> None:
    cluster.place("elsewhere", 0, cleanup_policy="compact")
    asked = DescribeConfigsResource(resource_type=TOPIC, resource_name="elsewhere")
    for broker in cluster.brokers:
        with Client(broker.port) as client:

            def policy(client: Client = client) -> str | None:
                answer = client.ask(32, 4, DescribeConfigsRequest(resources=[asked]))
                assert isinstance(answer, DescribeConfigsResponse)
                (result,) = answer.results
                found = {row.name: row.value for row in result.configs}
                return found.get("cleanup.policy")

            # A broker that has not heard of the topic yet says so.
            eventually(lambda policy=policy: policy() is not None)
            assert policy() == "compact"


def test_leaders_go_back_to_the_preferred_replica_when_asked(cluster: ClusterOfThree) -> None:
    cluster.place("preferred", 2, 0, 1)
    cluster.kill(2)
    eventually(lambda: cluster.state("preferred")["leader"] == 0)
    cluster.revive()
    eventually(lambda: sorted(cluster.state("preferred")["isr"]) == [0, 1, 2])
    assert cluster.state("preferred")["leader"] == 0
    moldau("preferred-replica-election", "--bootstrap-server", cluster.bootstrap)
    eventually(lambda: cluster.state("preferred")["leader"] == 2)
    said = "completed preferred replica leader election. New leader is 2"
    eventually(lambda: any(said in broker.log_text for broker in cluster.brokers))


def test_a_partition_moves_while_it_is_written_to(cluster: ClusterOfThree, tmp_path: Path) -> None:
    cluster.place("moving", 0, 1)
    is_over = threading.Event()
    written: list[str] = []
    faults: list[object] = []

    def write() -> None:
        settings = {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True}
        producer = Producer({**settings, "log_level": 0, "linger.ms": 5})
        while not is_over.wait(0.002):
            written.append(str(len(written)))
            producer.produce("moving", written[-1], on_delivery=lambda f, _: faults.append(f))
            producer.poll(0)
        producer.flush(SECONDS_MAX)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        eventually(lambda: len(faults) > 100)
        plan = tmp_path / "plan.json"
        rows = [{"topic": "moving", "partition": 0, "replicas": [1, 2]}]
        plan.write_text(json.dumps({"version": 1, "partitions": rows}))
        tool = ["reassign-partitions", "--bootstrap-server", cluster.bootstrap]
        tool += ["--reassignment-json-file", str(plan)]
        moldau(*tool, "--execute", "--throttle", "50000000")
        eventually(lambda: "is completed" in moldau(*tool, "--verify"))
        before = len(faults)
        eventually(lambda: len(faults) > before + 100)
    finally:
        is_over.set()
        writer.join()
    assert cluster.state("moving")["leader"] == 1
    assert sorted(cluster.state("moving")["isr"]) == [1, 2]
    assert cluster.node("/brokers/topics/moving")["partitions"] == {"0": [1, 2]}
    assert faults == [None] * len(written)
    assert cluster.values("moving") == written
    are_alike(cluster, "moving", 1, 2)
    eventually(lambda: not (cluster.brokers[0].data / "moving-0").exists())
