"""A little of everything that a broker counts: the same for every broker that is to be compared."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import moldau

TOPIC = "watched"
GROUP = "watchers"
RECORDS = 60
COPIED = 20
BEHIND = 5
"""Records of the last write, which the group has not read."""


def watched_load(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "client.id": "watched-client"}
    with moldau.Admin(settings) as admin:
        admin.create_topics([moldau.NewTopic(TOPIC, 3, 1)])
    with moldau.Producer({**settings, "linger.ms": 0}) as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, b"%d" % number, key=b"k", partition=number % 3).result()
    _read_all(settings)
    _copy(settings)
    with moldau.Producer(settings) as producer:
        for _ in range(BEHIND):
            producer.send(TOPIC, b"behind", partition=1).result()


def _read_all(settings: dict[str, str]) -> None:
    reading = {**settings, "group.id": GROUP, "auto.offset.reset": "earliest"}
    with moldau.Consumer(reading) as consumer:
        consumer.subscribe([TOPIC])
        read = 0
        while read < RECORDS:
            read += len(consumer.poll(1000))
        consumer.commit()


def _copy(settings: dict[str, str]) -> None:
    """A transaction."""
    with moldau.Producer({**settings, "transactional.id": "watched-copy"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(COPIED):
            producer.send(TOPIC + "-copy", b"%d" % number)
        producer.commit_transaction()


class Watchers:
    """Clients that stay: one with a quota, and one that goes on writing and reading."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> Self:
        with moldau.Admin({"bootstrap.servers": self._bootstrap}) as admin:
            limits = {
                "producer_byte_rate": 1e6,
                "consumer_byte_rate": 1e6,
                "request_percentage": 500.0,
            }
            admin.alter_client_quotas({(("client-id", "watched-client"),): limits})
        watched_load(self._bootstrap)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _go_on(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "client.id": "watched-client"}
        reading = {**settings, "group.id": GROUP + "-for-ever", "auto.offset.reset": "earliest"}
        with (
            moldau.Producer({**settings, "linger.ms": 0}) as producer,
            moldau.Consumer(reading) as consumer,
        ):
            consumer.subscribe([TOPIC])
            while not self._is_over.is_set():
                producer.send(TOPIC, b"again").result()
                consumer.poll(100)
