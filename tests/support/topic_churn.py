"""Clients that create topics, write to them at once and delete some of them, all at the same time.

Each client keeps what was acknowledged of each topic that it did not delete. Names are used again:
a topic is deleted and made anew, and what was written to the new one has to stay.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.cluster_of_three import ClusterOfThree

ANSWER_SECONDS_MAX = 20
ATTEMPTS_SECONDS_MAX = 120
RECORDS_PER_TOPIC = 3
UNTIMELY = frozenset(
    {
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.BROKER_NOT_AVAILABLE,
        # A broker that should get a replica is down for the moment.
        KafkaError.INVALID_REPLICA_ASSIGNMENT,
    }
)
"""What a client is told while the controller changes: it asks again."""


class TopicClient:
    """One of the clients, a thread of its own."""

    def __init__(self, cluster: ClusterOfThree, number: int, topics: int, seed: int) -> None:
        self.acknowledged: dict[str, list[str]] = {}
        """By topic, of those that should be there."""
        self.deleted: set[str] = set()
        self._free: set[str] = set()
        """Those whose names are used again: no request for their deletion is on its way."""
        self.faults: list[str] = []
        self._cluster = cluster
        self._number = number
        self._topics = topics
        self._chance = random.Random(f"{seed}/{number}")
        self._admin = cluster.admin
        self._written = 0
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            for number in range(self._topics):
                self._create(f"churn-{self._number}-{number}")
                if self._chance.random() < 0.3:
                    self._delete(self._chance.choice(sorted(self.acknowledged)))
                if self._free and self._chance.random() < 0.3:
                    self._create(self._chance.choice(sorted(self._free)))
        except Exception as fault:
            # Told by the test, in its own thread.
            self.faults.append(f"client {self._number}: {fault!r}")

    def _create(self, name: str) -> None:
        count = self._chance.choice([1, 1, 3])
        replicas = self._chance.sample(range(3), count)
        new = NewTopic(name, 1, replica_assignment=[replicas])
        self._ask(lambda: self._admin.create_topics([new])[name], KafkaError.TOPIC_ALREADY_EXISTS)
        self.deleted.discard(name)
        self._free.discard(name)
        self.acknowledged[name] = []
        self._write(name)

    def _write(self, name: str) -> None:
        values = [f"{name}/{self._written + n}" for n in range(RECORDS_PER_TOPIC)]
        self._written += RECORDS_PER_TOPIC
        settings = {"bootstrap.servers": self._cluster.bootstrap, "acks": "all", "log_level": 0}
        timing = {"reconnect.backoff.max.ms": 100, "linger.ms": 0, "message.timeout.ms": 60_000}
        producer = Producer({**settings, **timing})

        def told(value: str, fault: KafkaError | None, _: object) -> None:
            if fault is None:
                self.acknowledged[name].append(value)
            else:
                self.faults.append(f"{value} was refused: {fault}")

        for value in values:
            producer.produce(name, value, on_delivery=partial(told, value))
        producer.flush(90)

    def _delete(self, name: str) -> None:
        is_repeated = self._ask(
            lambda: self._admin.delete_topics([name])[name], KafkaError.UNKNOWN_TOPIC_OR_PART
        )
        del self.acknowledged[name]
        # The name is free when the controller has heard from every replica.
        self._until(lambda: self._cluster.zookeeper.exists(f"/brokers/topics/{name}") is None)
        self.deleted.add(name)
        if not is_repeated:
            self._free.add(name)

    def _ask(self, ask: Callable[[], object], done_already: int) -> bool:
        """Until it is done; whether it took more than one request. `done_already` says that an
        attempt of unknown outcome had done it."""
        is_repeated = False
        deadline = time.monotonic() + ATTEMPTS_SECONDS_MAX
        while True:
            try:
                ask().result(ANSWER_SECONDS_MAX)  # type: ignore[attr-defined]
                return is_repeated
            except KafkaException as refused:
                code = refused.args[0].code()
                if code == done_already and is_repeated:
                    return True
                if code not in UNTIMELY or time.monotonic() > deadline:
                    raise
            except TimeoutError:
                # The broker that was asked has died meanwhile.
                if time.monotonic() > deadline:
                    raise
            is_repeated = True
            time.sleep(0.05)
            self._admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap})

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + ATTEMPTS_SECONDS_MAX
        while not is_so():
            assert time.monotonic() < deadline, "it did not come true in time"
            time.sleep(0.02)
