"""The request log of a real broker: every request while somebody wants it, otherwise none."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from moldau.testing.broker_process import BrokerProcess

KEYS = [
    "isForwarded",
    "requestHeader",
    "request",
    "response",
    "connection",
    "totalTimeMs",
    "requestQueueTimeMs",
    "localTimeMs",
    "remoteTimeMs",
    "throttleTimeMs",
    "responseQueueTimeMs",
    "sendTimeMs",
    "securityProtocol",
    "principal",
    "listener",
    "clientInformation",
]
"""In Kafka's order."""
SECRET = "do-not-tell-anybody"


class Told:
    def __init__(self, folder: Path) -> None:
        self.broker = BrokerProcess(folder, environment={"LOG_DIR": str(folder / "logs")})
        self.path = folder / "logs" / "kafka-request.log"

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def requests(self, api: str) -> list[dict[str, Any]]:
        texts = [line.partition("Completed request:")[2] for line in self.lines()]
        rows = [json.loads(text.rpartition(" (kafka.request.logger)")[0]) for text in texts]
        return [row for row in rows if row["requestHeader"]["requestApiKeyName"] == api]

    def wait_for(self, api: str) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 30
        while not (found := self.requests(api)):
            assert time.monotonic() < deadline, f"{api} was never told"
            time.sleep(0.01)
        return found

    def set_level(self, level: str) -> None:
        command = [sys.executable, "-m", "moldau.main", "configs", "--alter"]
        which = ["--entity-type", "broker-loggers", "--entity-name", "0"]
        # Kafka's other name of it.
        change = ["--add-config", f"kafka.network.RequestChannel$={level}"]
        where = ["--bootstrap-server", self.broker.bootstrap]
        subprocess.run([*command, *where, *which, *change], check=True, timeout=60)


@pytest.fixture
def told(tmp_path: Path) -> Any:
    told = Told(tmp_path)
    with told.broker:
        yield told


def produce(producer: Producer) -> None:
    producer.produce("t", SECRET.encode())
    assert producer.flush(30) == 0


def test_every_request_is_told_while_the_level_asks_for_it_also_of_who_was_there(
    told: Told,
) -> None:
    bootstrap = {"bootstrap.servers": told.broker.bootstrap}
    producer = Producer({**bootstrap, "client.id": "there-before"})
    produce(producer)
    assert told.lines() == []
    told.set_level("DEBUG")
    produce(producer)
    (row,) = told.wait_for("PRODUCE")
    assert list(row) == KEYS
    header = row["requestHeader"]
    assert header["clientId"] == "there-before" and header["requestApiKey"] == 0
    (topic,) = row["request"]["topicData"]
    (partition,) = topic["partitionData"]
    assert partition["recordsSizeInBytes"] > len(SECRET)
    (answered,) = row["response"]["responses"][0]["partitionResponses"]
    assert (answered["errorCode"], answered["baseOffset"]) == (0, 1)
    assert row["connection"].startswith(f"{told.broker.bootstrap}-127.0.0.1:")
    assert row["clientInformation"]["softwareName"] == "confluent-kafka-python"
    assert (row["principal"], row["listener"]) == ("User:ANONYMOUS", "PLAINTEXT")
    assert row["totalTimeMs"] >= row["localTimeMs"] >= 0
    read(bootstrap)
    fetched = [row for row in told.wait_for("FETCH") if row["response"]["responses"]]
    (partition,) = fetched[0]["response"]["responses"][0]["partitions"]
    assert partition["recordsSizeInBytes"] > len(SECRET)
    assert fetched[0]["totalTimeMs"] >= fetched[0]["remoteTimeMs"]
    told.set_level("WARN")
    count = len(told.lines())
    produce(producer)
    assert len(told.lines()) == count
    assert SECRET not in "".join(told.lines())
    assert "Completed request" not in told.broker.log_text


def read(bootstrap: dict[str, str]) -> None:
    consumer = Consumer({**bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    try:
        seen = 0
        while seen < 2:
            message = consumer.poll(30)
            assert message is not None and message.error() is None
            seen += 1
    finally:
        consumer.close()


def test_secrets_are_blanked(told: Told) -> None:
    told.set_level("DEBUG")
    admin = AdminClient({"bootstrap.servers": told.broker.bootstrap})
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    alteration = UserScramCredentialUpsertion("alice", scram, SECRET.encode())
    for future in admin.alter_user_scram_credentials([alteration]).values():
        future.result()
    entry = ConfigEntry(
        "listener.name.plaintext.ssl.key.password",
        SECRET,
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.exception()  # refused or not, it was asked
    (row,) = told.wait_for("ALTER_USER_SCRAM_CREDENTIALS")
    (upsertion,) = row["request"]["upsertions"]
    assert {upsertion["salt"], upsertion["saltedPassword"]} == {"Sensitive value hidden"}
    told.wait_for("INCREMENTAL_ALTER_CONFIGS")
    assert SECRET not in "".join(told.lines())
