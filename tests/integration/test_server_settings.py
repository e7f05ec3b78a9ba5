"""Settings that change while the broker runs, and that are still there after a restart."""

from __future__ import annotations

import socket
from pathlib import Path

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.model.errors import Error
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.request_framing import decode_response, encode_request
from tests.support.eventually import eventually

TOPIC = "letters"


def alter(broker: BrokerProcess, who: str, **settings: str) -> tuple[int, str | None]:
    """Error code and message. Asked byte by byte: no Python client can name all brokers ("")."""
    rows = [
        IncrementalAlterableConfig(name=k.replace("_", "."), value=v) for k, v in settings.items()
    ]
    resource = IncrementalAlterConfigsResource(resource_type=4, resource_name=who, configs=rows)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    with socket.create_connection(("127.0.0.1", broker.port), 10) as client:
        client.sendall(encode_request(44, 1, 1, "settings", request))
        size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
        frame = client.recv(size, socket.MSG_WAITALL)
    response = decode_response(44, 1, frame)
    assert isinstance(response, IncrementalAlterConfigsResponse)
    return response.responses[0].error_code, response.responses[0].error_message


def produce(bootstrap: str, size_bytes: int) -> KafkaError | None:
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 5_000_000})
    producer.produce(TOPIC, bytes(size_bytes), on_delivery=lambda e, _: outcomes.append(e))
    assert producer.flush(20) == 0
    return outcomes[0]


def test_a_change_holds_at_once_and_after_a_restart(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(10)
        refused = produce(broker.bootstrap, 2_000_000)
        assert refused is not None
        assert refused.code() == KafkaError.MSG_SIZE_TOO_LARGE
        assert alter(broker, "", message_max_bytes="3000000", num_io_threads="3")[0] == 0
        eventually(lambda: "settings changed" in broker.log_text)
        assert produce(broker.bootstrap, 2_000_000) is None
        # What is said for this broker wins over what is said for all.
        assert alter(broker, "0", message_max_bytes="1000")[0] == 0
        assert produce(broker.bootstrap, 2_000_000) is not None
    with broker:
        assert produce(broker.bootstrap, 2_000_000) is not None
        assert produce(broker.bootstrap, 500) is None
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        # More threads, and the new ones are used: making a topic waits for the disk in one.
        admin.create_topics([NewTopic("more", 1, 1)])["more"].result(10)


def test_a_bad_value_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        error, message = alter(broker, "0", num_io_threads="0")
        assert error in (Error.INVALID_CONFIG, Error.INVALID_REQUEST)
        assert message is not None
        assert "num.io.threads" in message
        assert "settings changed" not in broker.log_text
