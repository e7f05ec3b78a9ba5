"""Clients that write what compaction works on, and remember what they were promised: keys of a
compacted topic, offsets of groups, transactions. `check` asks a broker that has started again
whether every promise holds. What was under way when the broker died may be there or not."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from moldau import Admin

KEYS, GROUPS, TRANSACTIONAL_IDS = 60, 4, 6
STATES, LEDGER = "states", "ledger"
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
SECONDS = 60
Value = int | None


class Promises:
    """By key: the value that was acknowledged last, and those tried since."""

    def __init__(self) -> None:
        self.kept: dict[str, Value] = {}
        self.tried: dict[str, list[Value]] = {}

    def attempt(self, key: str, value: Value) -> None:
        self.tried.setdefault(key, []).append(value)

    def keep(self, key: str, value: Value) -> None:
        self.kept[key] = value
        tried = self.tried.get(key, [])
        if value in tried:
            del tried[: tried.index(value) + 1]

    def check(self, what: str, found: dict[str, Value]) -> None:
        for key in self.kept.keys() | self.tried.keys() | found.keys():
            allowed = [self.kept.get(key), *self.tried.get(key, [])]
            assert found.get(key) in allowed, f"{what} {key}: {found.get(key)}, not of {allowed}"
        # What is there now is there for good.
        self.kept, self.tried = dict(found), {}


class CompactedLoad:
    def __init__(self, chance: random.Random, value_bytes: int) -> None:
        self.values, self.offsets, self.ledger = Promises(), Promises(), Promises()
        self.identities: dict[str, tuple[int, int]] = {}
        self.initialised: set[str] = set()
        self.acknowledged = 0
        self._chance = chance
        self._padding = b" " * value_bytes
        self._number = 0
        self._threads: list[Thread] = []
        self._stop = Event()
        self._bugs: list[BaseException] = []

    # While the broker lives

    def begin(self, bootstrap: str) -> None:
        self._client: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._stop.clear()
        works = (self._write, self._commit, self._transact)
        seeds = [self._chance.randrange(1 << 30) for _ in works]
        self._threads = [
            Thread(target=self._guarded, args=(work, random.Random(seed)), daemon=True)
            for work, seed in zip(works, seeds, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """The broker is dead: the clients find out and end."""
        self._stop.set()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive(), "a client hangs"
        if self._bugs:
            raise self._bugs[0]

    def _guarded(self, work: Callable[[random.Random], None], chance: random.Random) -> None:
        try:
            # The broker has died under them.
            with contextlib.suppress(KafkaException):
                work(chance)
        except BaseException as bug:
            self._bugs.append(bug)
            raise

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _encoded(self, value: Value) -> bytes | None:
        return None if value is None else b"%d" % value + self._padding

    def _write(self, chance: random.Random) -> None:
        options = {"acks": "all", "linger.ms": 0, "batch.num.messages": 1}
        producer = Producer({**self._client, **options, "enable.idempotence": True})
        while not self._stop.is_set():
            for _ in range(20):
                key = f"k{chance.randrange(KEYS)}"
                value = None if chance.random() < 0.05 else self._next()
                self.values.attempt(key, value)

                def delivered(error: Any, _: Any, key: str = key, value: Value = value) -> None:
                    if error is None:
                        self.values.keep(key, value)
                        self.acknowledged += 1

                producer.produce(STATES, self._encoded(value), key, 0, on_delivery=delivered)
            while len(producer) and not self._stop.is_set():
                producer.poll(0.01)
        producer.poll(0)
        producer.purge()
        producer.flush(SECONDS)

    def _commit(self, chance: random.Random) -> None:
        admin = AdminClient(self._client)
        while not self._stop.is_set():
            group, partition, offset = chance.randrange(GROUPS), chance.randrange(3), self._next()
            key = f"g{group} {partition}"
            self.offsets.attempt(key, offset)
            place = TopicPartition("watched", partition, offset)
            asked = [ConsumerGroupTopicPartitions(f"g{group}", [place])]
            [answer] = admin.alter_consumer_group_offsets(asked).values()
            while not answer.done():
                if self._stop.wait(0.0005):
                    return
            [row] = answer.result().topic_partitions
            if row.error is None:
                self.offsets.keep(key, offset)
                self.acknowledged += 1

    def _transact(self, chance: random.Random) -> None:
        while not self._stop.is_set():
            name = f"tx{chance.randrange(TRANSACTIONAL_IDS)}"
            producer = Producer({**self._client, "transactional.id": name, "linger.ms": 0})
            producer.init_transactions(5)
            self.initialised.add(name)
            for _ in range(5):
                if self._stop.is_set():
                    return
                key, value = f"l{chance.randrange(KEYS)}", self._next()
                producer.begin_transaction()
                producer.produce(LEDGER, self._encoded(value), key, 0)
                if chance.random() < 0.3:
                    producer.abort_transaction(5)
                else:
                    self.ledger.attempt(key, value)
                    producer.commit_transaction(5)
                    self.ledger.keep(key, value)
                self.acknowledged += 1

    # After each start

    def create(self, bootstrap: str, segment_bytes: int) -> None:
        """Topics of small segments. Those of the coordinators are made by their first use."""
        client: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        admin = AdminClient(client)
        small = {**COMPACTED, "internal.segment.bytes": f"{segment_bytes}"}
        topics = [NewTopic(name, 1, 1, config=small) for name in (STATES, LEDGER)]
        for made in admin.create_topics([*topics, NewTopic("watched", 3, 1)]).values():
            made.result(SECONDS)
        first = [ConsumerGroupTopicPartitions("first", [TopicPartition("watched", 0, 1)])]
        [answer] = admin.alter_consumer_group_offsets(first).values()
        answer.result(SECONDS)
        Producer({**client, "transactional.id": "first"}).init_transactions(SECONDS)
        change = ConfigEntry(
            "internal.segment.bytes",
            f"{segment_bytes}",
            incremental_operation=AlterConfigOpType.SET,
        )
        internal = [
            ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change])
            for name in ("__consumer_offsets", "__transaction_state")
        ]
        for changed in admin.incremental_alter_configs(internal).values():
            changed.result(SECONDS)

    def check(self, bootstrap: str) -> None:
        client = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._check_identities(bootstrap)
        for name in sorted(self.initialised):
            # Ends what was open, which read_committed would wait for.
            Producer({**client, "transactional.id": name}).init_transactions(SECONDS)
        self.values.check("the newest value of", newest(client, STATES))
        self.ledger.check("the newest committed value of", newest(client, LEDGER))
        self.offsets.check("the committed offset of", committed(client))

    def _check_identities(self, bootstrap: str) -> None:
        if not self.initialised:
            return
        with Admin(bootstrap_servers=bootstrap) as admin:
            described = admin.describe_transactions(sorted(self.initialised)).check()
        for name, found in described.items():
            producer_id, epoch = self.identities.get(name, (found.producer_id, 0))
            assert found.producer_id == producer_id, f"{name} has another producer id"
            assert found.producer_epoch >= epoch, f"the epoch of {name} went back"
            self.identities[name] = found.producer_id, found.producer_epoch


def newest(client: dict[str, Any], topic: str) -> dict[str, Value]:
    options = {"group.id": "check", "isolation.level": "read_committed"}
    consumer = Consumer({**client, **options, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[str, Value] = {}
    while True:
        message = consumer.poll(SECONDS)
        assert message is not None, f"{topic} cannot be read to its end"
        if message.error() is not None:
            break
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert value is None or isinstance(value, bytes)
        found[key.decode()] = None if value is None else int(value)
    consumer.close()
    return {key: value for key, value in found.items() if value is not None}


def committed(client: dict[str, Any]) -> dict[str, Value]:
    admin, found = AdminClient(client), {}
    for number in range(GROUPS):
        asked = [ConsumerGroupTopicPartitions(f"g{number}")]
        [answer] = admin.list_consumer_group_offsets(asked).values()
        for each in answer.result(SECONDS).topic_partitions:
            found[f"g{number} {each.partition}"] = each.offset
    return found
