"""The numbers of a real broker are those that a test counts itself: errors, bytes, waits, lag."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import moldau
from moldau.testing.broker_process import BrokerProcess, free_port
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.request_framing import encode_request
from tests.integration.test_server_metrics import numbers
from tests.support.eventually import eventually

REQUESTS = "kafka_network_requestmetrics_"
SOCKETS = "kafka_server_socket_server_metrics_"
TOPICS = "kafka_server_brokertopicmetrics_"
PLACE = 'listener="PLAINTEXT",networkProcessor="0"'
HOUR_MS = 3_600_000


class Watched(NamedTuple):
    bootstrap: str
    port: int

    def numbers(self) -> dict[str, float]:
        return numbers(self.port)

    @property
    def settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    port = free_port()
    overrides = {"metrics.http.listener": f"127.0.0.1:{port}", "num.partitions": "1"}
    with BrokerProcess(tmp_path_factory.mktemp("numbers"), overrides=overrides) as process:
        yield Watched(process.bootstrap, port)


def exchange(client: socket.socket, request: bytes) -> int:
    """Bytes of the answer."""
    client.sendall(request)
    (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
    assert len(client.recv(size, socket.MSG_WAITALL)) == size
    return int(size) + 4


def test_errors_are_counted_by_request_and_by_kind(broker: Watched) -> None:
    with moldau.Admin(broker.settings) as admin:
        compacted = moldau.NewTopic("compacted", 1, 1, configs={"cleanup.policy": "compact"})
        admin.create_topics([compacted])
        for _ in range(3):
            with pytest.raises(moldau.KafkaError):
                admin.create_topics([compacted])
    with moldau.Producer(broker.settings) as producer:
        for _ in range(2):
            with pytest.raises(moldau.KafkaError):
                producer.send("compacted", b"no key").result()
        producer.send("compacted", b"value", key=b"key").result()
    found = broker.numbers()
    assert (
        found[REQUESTS + 'errors_total{request="CreateTopics",error="TOPIC_ALREADY_EXISTS"}'] == 3
    )
    assert found[REQUESTS + 'errors_total{request="CreateTopics",error="NONE"}'] == 1
    assert found[REQUESTS + 'errors_total{request="Produce",error="INVALID_RECORD"}'] == 2
    assert found[REQUESTS + 'errors_total{request="Produce",error="NONE"}'] == 1
    assert found[TOPICS + 'failedproducerequests_total{topic="compacted"}'] == 2
    assert found[TOPICS + "nokeycompactedtopicrecords_total{}"] == 2
    assert found[TOPICS + 'messagesin_total{topic="compacted"}'] == 1


def test_what_is_too_large_is_counted_in_bytes(broker: Watched) -> None:
    with moldau.Admin(broker.settings) as admin:
        admin.create_topics([moldau.NewTopic("small", 1, 1, configs={"max.message.bytes": "100"})])
    with (
        moldau.Producer({**broker.settings, "compression.type": "none"}) as producer,
        pytest.raises(moldau.KafkaError),
    ):
        producer.send("small", b"x" * 500).result()
    rejected = broker.numbers()[TOPICS + 'bytesrejected_total{topic="small"}']
    # The record, the 61 bytes of a batch's header, and what says how long the record's parts are.
    assert 500 + 61 < rejected < 500 + 61 + 20


def test_bytes_connections_and_versions_are_counted(broker: Watched) -> None:
    before = broker.numbers()
    request = encode_request(18, 0, 7, "counted", ApiVersionsRequest())
    sent = received = 0
    host, port = broker.bootstrap.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        for _ in range(20):
            received += exchange(client, request)
            sent += len(request)

    def grown(name: str) -> float:
        place = f"{SOCKETS}{name}_total{{{PLACE}}}"
        return broker.numbers()[place] - before[place]

    eventually(lambda: grown("connection_close") >= 1)
    assert grown("connection_creation") == 1
    assert grown("incoming_byte") == sent
    assert grown("outgoing_byte") == received
    after = broker.numbers()
    name = REQUESTS + 'requests_total{request="ApiVersions",version="0"}'
    assert after[name] - before.get(name, 0) == 20
    sizes = [
        value for key, value in after.items() if key.startswith(REQUESTS + "requestbytes_count{")
    ]
    answered = [
        value for key, value in after.items() if key.startswith(REQUESTS + "requests_total")
    ]
    assert sum(sizes) >= sum(answered)


def test_a_wait_is_remote_time_and_an_old_version_is_named(broker: Watched) -> None:
    with moldau.Admin(broker.settings) as admin:
        admin.create_topics(["silent"])
    wanted = FetchTopic(topic="silent", partitions=[FetchPartition(partition_max_bytes=1000)])
    request = FetchRequest(max_wait_ms=400, min_bytes=1, max_bytes=1000, topics=[wanted])
    frame = encode_request(1, 3, 1, "old", request)
    host, port = broker.bootstrap.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        begun = time.monotonic()
        exchange(client, frame)
        took_ms = (time.monotonic() - begun) * 1000
    found = broker.numbers()
    remote = found[REQUESTS + 'remotetimems{request="FetchConsumer",quantile="0.999"}']
    # A quantile is exact to half an octave.
    assert 400 / 1.42 <= remote <= took_ms * 1.42
    total = found[REQUESTS + 'totaltimems{request="FetchConsumer",quantile="0.999"}']
    assert total <= took_ms * 1.42
    old = 'request="Fetch",version="3",clientSoftwareName="unknown",clientSoftwareVersion="unknown"'
    assert found[REQUESTS + f"deprecatedrequests_total{{{old}}}"] == 1


def test_lag_is_told_in_records_and_in_seconds(broker: Watched) -> None:
    written_ms = int(time.time() * 1000) - HOUR_MS
    with moldau.Producer({**broker.settings, "linger.ms": 0}) as producer:
        for number in range(5):
            producer.send("late", b"x", timestamp_ms=written_ms + number * 60_000).result()
    reading = {**broker.settings, "group.id": "late-readers", "auto.offset.reset": "earliest"}
    with moldau.Consumer({**reading, "max.poll.records": 1}) as consumer:
        consumer.subscribe(["late"])
        read = 0
        while read < 2:
            read += len(consumer.poll(1000))
        consumer.commit()
    found = broker.numbers()
    assert (
        found['kafka_consumergroup_lag{consumergroup="late-readers",topic="late",partition="0"}']
        == 3
    )
    assert found['kafka_consumergroup_lag_sum{consumergroup="late-readers",topic="late"}'] == 3

    def age() -> float | None:
        told = [
            value
            for name, value in broker.numbers().items()
            if name.startswith("kafka_consumergroup_group_lag_seconds{")
            and 'group="late-readers"' in name
        ]
        return told[0] if told else None

    eventually(lambda: age() is not None)
    seconds = age()
    expected = time.time() - (written_ms / 1000 + 2 * 60)
    assert seconds is not None
    assert abs(seconds - expected) < 30


def test_a_topic_made_anew_has_nothing_of_the_one_before(broker: Watched) -> None:
    """Nor has its group, nor have the series of its partitions."""
    settings = {**broker.settings, "linger.ms": 0}
    reading = {**settings, "group.id": "of-again", "auto.offset.reset": "earliest"}
    before = broker.numbers()[TOPICS + "messagesin_total{}"]
    with moldau.Admin(broker.settings) as admin:
        admin.create_topics([moldau.NewTopic("again", 2, 1)])
        with moldau.Producer(settings) as producer:
            for _ in range(5):
                producer.send("again", b"before", partition=1).result()
        with moldau.Consumer(reading) as consumer:
            consumer.subscribe(["again"])
            while not consumer.poll(1000):
                pass
            consumer.commit()
        of_topic = [name for name in broker.numbers() if 'topic="again"' in name]
        assert any("kafka_consumergroup" in name for name in of_topic)
        admin.delete_topics(["again"])

        def told() -> list[str]:
            both = [*broker.numbers(), *numbers(broker.port, "/metrics/partitions")]
            return [name for name in both if 'topic="again"' in name]

        eventually(lambda: told() == [])
        admin.create_topics([moldau.NewTopic("again", 1, 1)])
    with moldau.Producer(settings) as producer:
        for _ in range(2):
            producer.send("again", b"after").result()
    found = broker.numbers()
    assert found[TOPICS + 'messagesin_total{topic="again"}'] == 2
    partitions = numbers(broker.port, "/metrics/partitions")
    assert partitions['kafka_log_log_logendoffset{topic="again",partition="0"}'] == 2
    assert 'kafka_log_log_logendoffset{topic="again",partition="1"}' not in partitions
    # What was written before is in the sum of all, with the group's commit.
    assert found[TOPICS + "messagesin_total{}"] >= before + 7


def test_counters_begin_anew_with_the_broker(tmp_path: Path) -> None:
    port = free_port()
    process = BrokerProcess(tmp_path, overrides={"metrics.http.listener": f"127.0.0.1:{port}"})
    written = TOPICS + 'messagesin_total{topic="kept"}'
    with process:
        with moldau.Producer({"bootstrap.servers": process.bootstrap, "linger.ms": 0}) as producer:
            for _ in range(3):
                producer.send("kept", b"x").result()
        assert numbers(port)[written] == 3
    with process:
        assert written not in numbers(port)
        end = 'kafka_log_log_logendoffset{topic="kept",partition="0"}'
        assert numbers(port, "/metrics/partitions")[end] == 3
