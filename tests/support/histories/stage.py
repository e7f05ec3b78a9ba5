"""The clients of one history on a cluster, and what is read when all is over."""

from __future__ import annotations

import random
import sys
import threading
import time
import traceback

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from tests.support.eventually import eventually
from tests.support.histories.clients import (
    Client,
    ListAppender,
    Notes,
    PlainWriter,
    Processor,
    Reader,
    now,
)
from tests.support.histories.libraries import FAULTS, Library, Moldau
from tests.support.histories.librdkafka import Librdkafka
from tests.support.histories.model import History, Look, Outcome, Place
from tests.support.reach import Reach

LIST, OUT, KEYS = "list", "out", "keys"
GROUP = "processors"
PARTITIONS = {LIST: 3, OUT: 2, KEYS: 2}
KEYS_COUNT = 12
COMPACTED = {
    "cleanup.policy": "compact",
    # Each second a new segment, so that there is always one to compact.
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
}
END_SECONDS_MAX = 180.0


def places(topic: str) -> list[Place]:
    return [(topic, number) for number in range(PARTITIONS[topic])]


class Stage:
    def __init__(self, reach: Reach, draw: random.Random) -> None:
        self.notes = Notes()
        self._reach = reach
        self._foreign = Librdkafka(reach)
        self.clients: list[Client] = self._clients(Moldau(reach), draw)
        self.clients += self._clients(self._foreign, draw)
        self._looker = threading.Thread(target=self._look_on, daemon=True)

    def _clients(self, library: Library, draw: random.Random) -> list[Client]:
        notes, everything = self.notes, [*places(LIST), *places(OUT)]
        return [
            ListAppender(notes, library, "appender", draw, places(LIST)),
            ListAppender(notes, library, "keys", draw, places(KEYS), keys=KEYS_COUNT),
            PlainWriter(notes, library, draw, places(LIST), pause_s=0.05),
            PlainWriter(notes, library, draw, places(KEYS), keys=KEYS_COUNT),
            Processor(notes, library, "processor", draw, GROUP, LIST, places(OUT)),
            Reader(notes, library, draw, everything),
            Reader(notes, library, draw, places(KEYS)),
        ]

    def start(self) -> None:
        admin = AdminClient({**self._reach.librdkafka, "log_level": 0})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 3, END_SECONDS_MAX)
        topics = [NewTopic(LIST, PARTITIONS[LIST], 3), NewTopic(OUT, PARTITIONS[OUT], 3)]
        topics.append(NewTopic(KEYS, PARTITIONS[KEYS], 3, config=COMPACTED))
        for made in admin.create_topics(topics).values():
            made.result(60)
        for client in self.clients:
            client.start()
        self._looker.start()

    def compact_internal_topics(self) -> None:
        """Let their segments be young ones too, now that they are there."""
        admin = AdminClient({**self._reach.librdkafka, "log_level": 0})
        operation = AlterConfigOpType.SET
        resources = [
            ConfigResource(
                ConfigResource.Type.TOPIC,
                topic,
                incremental_configs=[
                    ConfigEntry("segment.ms", "1000", incremental_operation=operation)
                ],
            )
            for topic in ("__consumer_offsets", "__transaction_state")
        ]

        def is_done() -> bool:
            try:
                for done in admin.incremental_alter_configs(resources).values():
                    done.result(60)
            except KafkaException as refusal:
                # ZooKeeper may be away for a moment. Other clients ask again by themselves.
                if refusal.args[0].code() != KafkaError.KAFKA_STORAGE_ERROR:
                    raise
                return False
            return True

        eventually(is_done, seconds_max=60)

    def is_under_way(self) -> bool:
        """Whether every client that writes has been told of a success."""
        done = {each.process for each in self.notes.operations if each.outcome is Outcome.OK}
        return all(any(p.startswith(client.name) for p in done) for client in self.clients)

    def finish(self) -> None:
        self.notes.is_over.set()
        deadline = time.monotonic() + END_SECONDS_MAX
        for thread in (*self.clients, self._looker):
            thread.join(max(1.0, deadline - time.monotonic()))
            assert not thread.is_alive(), f"{thread.name} does not come to an end: {_place(thread)}"
        for client in self.clients:
            if client.failure is not None:
                raise client.failure

    def history(self) -> History:
        """Ends what clients have left open, then reads every log to its end."""
        for client in self.clients:
            if isinstance(client, (ListAppender, Processor)):
                self._fence(client.identity)
        logs, ends = self._read()
        self._look()
        operations = sorted(self.notes.operations, key=lambda each: each.invoked)
        return History(operations, logs, self.notes.looks, ends, frozenset({KEYS}))

    def close(self) -> None:
        self._foreign.close()

    def _fence(self, identity: str) -> None:
        deadline = time.monotonic() + END_SECONDS_MAX
        while True:
            try:
                self._foreign.writing(identity).close()
                return
            except FAULTS:
                if time.monotonic() > deadline:
                    raise

    def _read(self) -> tuple[dict[Place, tuple[tuple[int, str], ...]], dict[Place, int]]:
        wanted = [place for topic in PARTITIONS for place in places(topic)]
        logs, ends = self._foreign.read_whole(wanted)
        return logs, ends

    def _look_on(self) -> None:
        while not self.notes.is_over.wait(0.5):
            try:
                self._look()
            except FAULTS as fault:
                self.notes.faults[f"looker: {fault}"] += 1

    def _look(self) -> None:
        begun = now()
        for place, offset in self._foreign.committed(GROUP, places(LIST)).items():
            self.notes.looks.append(Look(GROUP, place, offset, begun, now()))


def _place(thread: threading.Thread) -> str:
    """Where a thread is just now."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "it has ended" if frame is None else "".join(traceback.format_stack(frame))
