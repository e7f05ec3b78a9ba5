"""Clients that push their metrics: what is wanted of them, and where it can be seen then."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moldau
from moldau.admin import ConfigResource, ResourceType
from moldau.client.network.network_client import Network, NetworkSettings
from moldau.metrics.otlp.otlp_writing import DELTA, Family, Series, metrics_data
from moldau.model.errors import Error
from moldau.records.compression import Codec, compress
from moldau.testing.broker_process import BrokerProcess, free_port
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    PushTelemetryRequest,
)
from moldau.wire.request_framing import decode_response, encode_request
from tests.integration.test_server_metrics import numbers, page
from tests.support.eventually import eventually
from tests.support.hostile_costs import Client

ID = bytes(range(16))


class Watched:
    def __init__(self, broker: BrokerProcess, port: int) -> None:
        self.broker = broker
        self.port = port

    def subscribe(self, name: str, **changes: str | None) -> None:
        named = {key.replace("_", "."): value for key, value in changes.items()}
        with moldau.Admin({"bootstrap.servers": self.broker.bootstrap}) as admin:
            resource = ConfigResource(ResourceType.CLIENT_METRICS, name)
            admin.incremental_alter_configs({resource: named})

    def talk(self, *requests: Any, client_id: str = "by-hand") -> list[Any]:
        """The answers to these requests, one after the other on one connection."""

        async def talk() -> list[Any]:
            network = Network(
                self.broker.bootstrap, client_id=client_id, settings=NetworkSettings()
            )
            try:
                return [await network.call(-1, each) for each in requests]
            finally:
                await network.close()

        return asyncio.run(talk())

    def clients(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(page(self.port, "/clients.json"))
        return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    port = free_port()
    overrides = {"metrics.http.listener": f"127.0.0.1:{port}", "telemetry.max.bytes": "10000"}
    with BrokerProcess(tmp_path_factory.mktemp("telemetry"), overrides=overrides) as broker:
        yield Watched(broker, port)


def push(number: int, metrics: bytes = b"", **more: Any) -> PushTelemetryRequest:
    return PushTelemetryRequest(
        client_instance_id=ID, subscription_id=number, metrics=metrics, **more
    )


def test_what_is_pushed_can_be_scraped_and_read(watched: Watched) -> None:
    watched.subscribe("hand", metrics="a.,b", interval_ms="60000", match="client_id=by-hand")
    families = [
        Family("a.total", "", True, [Series((("topic", 'with "quotes"'),), 5)]),
        Family("b", "", False, [Series((), 0.5)]),
    ]
    data = metrics_data({"group.id": "g"}, "hand", families, 1, 2, temporality=DELTA)
    question = GetTelemetrySubscriptionsRequest(client_instance_id=ID)
    (wanted,) = watched.talk(question)
    assert (wanted.error_code, wanted.requested_metrics) == (0, ["a.", "b"])
    assert (wanted.push_interval_ms, wanted.telemetry_max_bytes) == (60000, 10000)
    assert wanted.accepted_compression_types == [4, 3, 1, 2]
    number = wanted.subscription_id
    answers = watched.talk(
        question,
        push(number, compress(Codec.ZSTD, data), compression_type=4),
        push(number, data),
        push(number + 1, data, terminating=True),
    )
    assert [each.error_code for each in answers] == [
        Error.NONE,
        Error.NONE,
        Error.THROTTLING_QUOTA_EXCEEDED,
        Error.UNKNOWN_SUBSCRIPTION_ID,
    ]
    found = {name: value for name, value in numbers(watched.port).items() if "by-hand" in name}
    assert sorted(found.values()) == [0.5, 5.0]
    assert any('topic="with \\"quotes\\""' in name for name in found)
    (client,) = [each for each in watched.clients()["clients"] if each["client_id"] == "by-hand"]
    assert client["client_software_name"] == "moldau"
    assert {each["name"] for each in client["metrics"]} == {"a.total", "b"}
    assert client["metrics"][0]["attributes"]["group.id"] == "g"


def test_of_long_names_of_clients_the_beginning_is_kept(watched: Watched) -> None:
    """A broker remembers thousands of clients."""
    name = "a" * 30_000

    def ask(client: Client, key: int, version: int, request: Any) -> Any:
        client.socket.sendall(encode_request(key, version, 7, name, request))
        return decode_response(key, version, client.take_frame())

    with Client(watched.broker.port) as client:
        named = ApiVersionsRequest(client_software_name=name, client_software_version=name)
        assert ask(client, 18, 3, named).error_code == 0
        wanted = ask(client, 71, 0, GetTelemetrySubscriptionsRequest())
        data = metrics_data({}, "s", [Family("long", "", False, [Series((), 1)])], 1, 2)
        request = PushTelemetryRequest(
            client_instance_id=wanted.client_instance_id,
            subscription_id=wanted.subscription_id,
            metrics=data,
        )
        assert ask(client, 72, 0, request).error_code == 0
    (told,) = [each for each in watched.clients()["clients"] if each["client_id"][:2] == "aa"]
    keys = ("client_id", "client_software_name", "client_software_version")
    assert [len(told[key]) for key in keys] == [256, 256, 256]


@pytest.mark.parametrize("how", ["at once", "with a reset"])
def test_the_last_push_counts_though_nobody_waits_for_its_answer(
    watched: Watched, how: str
) -> None:
    """Java's clients close the connection as soon as it is sent."""
    name = f"last-{how}"
    data = metrics_data({}, name, [Family(name, "", False, [Series((), 1)])], 1, 2)
    with Client(watched.broker.port) as client:
        wanted: Any = client.ask(71, 0, GetTelemetrySubscriptionsRequest())
        request = PushTelemetryRequest(
            client_instance_id=wanted.client_instance_id,
            subscription_id=wanted.subscription_id,
            metrics=compress(Codec.ZSTD, data),
            compression_type=4,
            terminating=True,
        )
        client.socket.sendall(encode_request(72, 0, 8, name, request))
        if how == "with a reset":
            time.sleep(0.1)  # or the request would be thrown away unread
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    eventually(lambda: any(name in each for each in numbers_of_pushed(watched)))


def numbers_of_pushed(watched: Watched) -> list[str]:
    return [row["name"] for each in watched.clients()["clients"] for row in each["metrics"]]


def test_what_cannot_be_read_is_refused_and_the_broker_goes_on(watched: Watched) -> None:
    watched.subscribe("hostile", metrics="*", interval_ms="100", match="client_id=hostile")

    def refusal(metrics: bytes, compression: int) -> int:
        (wanted,) = watched.talk(GetTelemetrySubscriptionsRequest(), client_id="hostile")
        request = PushTelemetryRequest(
            client_instance_id=wanted.client_instance_id,
            subscription_id=wanted.subscription_id,
            metrics=metrics,
            compression_type=compression,
        )
        (answer,) = watched.talk(request, client_id="hostile")
        code: int = answer.error_code
        return code

    assert refusal(b"no message at all", 0) == Error.INVALID_RECORD
    assert refusal(b"no message at all", 4) == Error.INVALID_RECORD
    assert refusal(compress(Codec.ZSTD, bytes(10_000_000)), 4) == Error.INVALID_RECORD
    assert refusal(b"", 9) == Error.UNSUPPORTED_COMPRESSION_TYPE
    assert refusal(bytes(10_001), 0) == Error.TELEMETRY_TOO_LARGE
    assert numbers(watched.port)["kafka_server_client_metrics_plugin_error_count{}"] == 3


def test_librdkafka_pushes_what_is_asked_for(watched: Watched) -> None:
    from confluent_kafka import Producer

    watched.subscribe("rd", metrics="*", interval_ms="200", match="client_id=rd")
    producer = Producer({"bootstrap.servers": watched.broker.bootstrap, "client.id": "rd"})
    producer.produce("pushed", b"x")
    assert producer.flush(30) == 0
    eventually(lambda: any('client_id="rd"' in name for name in numbers(watched.port)))
    (client,) = [each for each in watched.clients()["clients"] if each["client_id"] == "rd"]
    assert client["client_software_name"] == "confluent-kafka-python"


def test_who_is_not_watched_does_not_offer_to_take_metrics(tmp_path: Path) -> None:
    async def served(bootstrap: str) -> set[int]:
        network = Network(bootstrap, client_id="c", settings=NetworkSettings())
        try:
            return set((await network.connection(-1)).versions)
        finally:
            await network.close()

    with BrokerProcess(tmp_path) as broker:
        assert not {71, 72} & asyncio.run(served(broker.bootstrap))


def test_the_command_prints_what_kafkas_does(watched: Watched) -> None:
    def ran(*words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "moldau.main", "client-metrics"]
        where = ["--bootstrap-server", watched.broker.bootstrap]
        done = subprocess.run(
            [*command, *where, *words], capture_output=True, text=True, timeout=60
        )
        return done.returncode, done.stdout, done.stderr

    words = ("--alter", "--name", "told", "--metrics", "m1,m2", "--match", "client_id=x")
    assert ran(*words) == (0, "Altered client metrics config for told.\n", "")
    assert ran("--alter", "--name", "told", "--interval", "")[0] == 0
    assert ran("--describe", "--name", "told")[1] == (
        "Client metrics configs for told are:\n"
        "  interval.ms=300000\n  match=client_id=x\n  metrics=m1,m2\n"
    )
    assert "told" in ran("--list")[1].splitlines()
    code, text, _ = ran("--alter", "--name", "told", "--interval", "99")
    assert code == 1
    assert text.startswith("Error while executing client metrics command : ")
    assert ran("--delete", "--name", "told")[1] == "Deleted client metrics config for told.\n"
    assert ran("--describe", "--name", "told")[1] == (
        "The client metric resource told doesn't exist and doesn't have dynamic config.\n"
    )
    assert ran("--alter", "--metrics", "m")[0] == 1
    assert ran("--list", "--name", "told")[0] == 1
    generated = ran("--alter", "--generate-name", "--metrics", "m")[1]
    assert len(generated.split()[-1]) == 23


def names_of(watched: Watched, client_id: str) -> set[str]:
    clients = watched.clients()["clients"]
    return {
        metric["name"].removeprefix("org.apache.kafka.")
        for client in clients
        if client["client_id"] == client_id
        for metric in client["metrics"]
    }


def test_our_own_clients_push_what_is_asked_for(watched: Watched) -> None:
    watched.subscribe("own", metrics="*", interval_ms="200", match="client_id=own-.*")
    where = {"bootstrap.servers": watched.broker.bootstrap}
    told = {**where, "client.id": "own-consumer", "group.id": "own", "client.rack": "r1"}
    with (
        moldau.Producer({**where, "client.id": "own-producer"}) as producer,
        moldau.Consumer({**told, "auto.offset.reset": "earliest"}) as consumer,
        moldau.Admin({**where, "client.id": "own-admin"}) as admin,
        moldau.Producer(
            {**where, "client.id": "own-silent", "enable.metrics.push": False}
        ) as silent,
    ):
        consumer.subscribe(["own"])

        def is_told() -> bool:
            for sender in (producer, silent):
                sender.send("own", b"x").result()
            consumer.poll(100)
            consumer.commit()
            admin.list_topics()
            return (
                {"producer.request.latency.avg", "producer.node.request.latency.max"}
                <= names_of(watched, "own-producer")
                and {"consumer.fetch.manager.fetch.latency.avg", "consumer.request.total"}
                <= names_of(watched, "own-consumer")
                and "admin.client.connection.creation.total" in names_of(watched, "own-admin")
            )

        eventually(is_told)
    assert names_of(watched, "own-silent") == set()
    (consumer_told,) = [
        each for each in watched.clients()["clients"] if each["client_id"] == "own-consumer"
    ]
    attributes = consumer_told["metrics"][0]["attributes"]
    assert attributes == {"group_id": "own", "client_rack": "r1"}


def test_the_last_numbers_are_pushed_when_a_client_closes(watched: Watched) -> None:
    watched.subscribe("last", metrics="*", interval_ms="3600000", match="client_id=last")
    settings = {"bootstrap.servers": watched.broker.bootstrap, "client.id": "last"}
    before = instances(watched)
    with moldau.Producer(settings) as producer:
        producer.send("last", b"x").result()
        # Requests are counted as soon as the broker has answered what it wants.
        eventually(lambda: instances(watched) > before)
        for _ in range(20):
            producer.send("last", b"x").result()
    eventually(lambda: "producer.request.latency.avg" in names_of(watched, "last"))


def instances(watched: Watched) -> float:
    return numbers(watched.port)["kafka_server_client_metrics_instance_count{}"]


def test_an_asyncio_client_pushes_too(watched: Watched) -> None:
    watched.subscribe("aio", metrics="*", interval_ms="200", match="client_id=aio")

    async def produce() -> None:
        from moldau.aio import Producer

        settings = {"bootstrap.servers": watched.broker.bootstrap, "client.id": "aio"}
        async with Producer(settings) as producer:
            async with asyncio.timeout(60):
                while not await asyncio.to_thread(names_of, watched, "aio"):
                    await (await producer.send("aio", b"x"))

    asyncio.run(produce())
