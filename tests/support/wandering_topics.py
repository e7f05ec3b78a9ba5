"""Topics that are deleted, made anew, moved between log directories and adopted, on a broker that
is killed again and again; and what must be true of them after each start."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.client.admin.admin_results import TopicPartitionReplica
from moldau.client.admin.blocking_admin import Admin
from moldau.client.shared.client_errors import KafkaError
from moldau.testing.broker_process import BrokerProcess, answers
from tests.support.doomed_files import MAIN, doom
from tests.support.eventually import eventually

TOPICS = tuple(f"t{number}" for number in range(4))
OPERATION_SECONDS = 2
CHECK_SECONDS = 60
CHANGES = "rename,replace,unlink,mkdir,rmdir"
OPERATIONS = ("produce", "produce", "produce", "delete", "create", "create", "move", "cut")


@dataclass
class Life:
    """One topic from its creation to its deletion."""

    number: int
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Number to offset."""
    sent: int = 0
    cut: int = 0
    """Records before this offset may be gone: somebody asked for that."""
    is_certain: bool = False
    """Its creation was answered. Otherwise it may not be there."""
    is_ending: bool = False
    """Its deletion was asked for and not answered: it is there whole, or not at all."""


class WanderingTopics:
    def __init__(self, root: Path, chance: random.Random) -> None:
        self.chance = chance
        self.directories = [root / "a", root / "b"]
        self._root = root
        self._settings = {
            "log.dirs": ",".join(map(str, self.directories)),
            "log.segment.bytes": "1048576",
            "log.flush.offset.checkpoint.interval.ms": "300",
            "log.segment.delete.delay.ms": "200",
            "offsets.topic.num.partitions": "1",
            "auto.create.topics.enable": "false",
        }
        self.broker = BrokerProcess(root, overrides=self._settings)
        self.lives: dict[str, Life] = {}
        self.lives_begun = 0
        self.kills = 0
        self.done: dict[str, int] = {}

    # A round: a broker that is killed in the middle of something

    def play_until_killed(self) -> None:
        environment = None
        armed, kind = self._root / "armed", self.chance.random()
        if kind < 0.3:
            environment = doom(self.chance.randrange(40), r"/t\d-0|checkpoint", CHANGES, armed)
        elif kind < 0.7:
            # Around the renames by which logs are deleted, put aside and moved.
            environment = doom(self.chance.randrange(4), r"/t\d-0$", "rename", armed)
        main = MAIN if environment else "moldau.main"
        self.broker = BrokerProcess(
            self._root, overrides=self._settings, main=main, environment=environment
        )
        if self.chance.random() < 0.7:
            armed.unlink(missing_ok=True)
        self.broker.spawn()
        if not self._has_started():
            return
        self._operate("check", "")
        armed.touch()
        timer = threading.Timer(self.chance.uniform(0.1, 4.0), self._kill)
        timer.start()
        while not self._is_dead():
            self._operate(self.chance.choice(OPERATIONS), self.chance.choice(TOPICS))
        timer.cancel()
        timer.join()
        self.broker.wait()
        self.kills += 1

    def _has_started(self) -> bool:
        """False if it was killed before it answered anybody."""
        process = self.broker.process
        assert process is not None
        eventually(lambda: answers(self.broker.port) or process.poll() is not None, CHECK_SECONDS)
        if process.poll() is None:
            return True
        self.done["start"] = self.done.get("start", 0) + 1
        self.kills += 1
        assert self.broker.wait() == -signal.SIGKILL, self.broker.log_text[-5000:]
        return False

    def finish(self) -> None:
        """A last start that nothing happens to."""
        self.broker = BrokerProcess(self._root, overrides=self._settings)
        self.broker.start()
        self.check()

    def _kill(self) -> None:
        assert self.broker.process is not None
        self.broker.process.kill()

    def _operate(self, operation: str, topic: str) -> None:
        self.done[operation] = self.done.get(operation, 0) + 1
        try:
            getattr(self, operation)(topic)
        except (KafkaException, KafkaError, TimeoutError):
            # The broker is gone, or slow: whatever was asked for may have happened.
            assert operation != "check" or self._is_dead(), "a broker that lives does not answer"

    def _is_dead(self) -> bool:
        return self.broker.process is None or self.broker.process.poll() is not None

    # What clients do

    def create(self, topic: str) -> None:
        if topic in self.lives:
            return
        self.lives_begun += 1
        self.lives[topic] = life = Life(self.lives_begun)
        self._admin().create_topics([NewTopic(topic, 1, 1)], request_timeout=OPERATION_SECONDS)[
            topic
        ].result()
        life.is_certain = True

    def delete(self, topic: str) -> None:
        life = self.lives.get(topic)
        if life is None:
            return
        life.is_ending = True
        admin = self._admin()
        admin.delete_topics([topic], request_timeout=OPERATION_SECONDS)[topic].result()
        del self.lives[topic]

    def cut(self, topic: str) -> None:
        """Delete records, so that there are checkpoints of log starts."""
        life = self.lives.get(topic)
        if life is None or not life.acknowledged or life.is_ending:
            return
        life.cut = max(life.cut, self.chance.choice(list(life.acknowledged.values())))
        admin, place = self._admin(), TopicPartition(topic, 0, life.cut)
        admin.delete_records([place], request_timeout=OPERATION_SECONDS)[place].result()

    def move(self, topic: str) -> None:
        if topic not in self.lives:
            return
        replica = TopicPartitionReplica(topic, 0, 0)
        target = str(self.chance.choice(self.directories))
        timeout = {"request_timeout_ms": 1000 * OPERATION_SECONDS}
        timeout["default_api_timeout_ms"] = 1000 * OPERATION_SECONDS
        with Admin(bootstrap_servers=self.broker.bootstrap, **timeout) as admin:
            admin.alter_replica_log_dirs({replica: target}, raise_errors=False)

    def produce(self, topic: str) -> None:
        life = self.lives.get(topic)
        if life is None or life.is_ending or not life.is_certain:
            return
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "message.timeout.ms": 1000 * OPERATION_SECONDS,
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        for number in range(life.sent, life.sent + self.chance.choice([1, 20, 300])):

            def told(error: object, message: Message, number: int = number) -> None:
                if error is None:
                    life.acknowledged[number] = message.offset() or 0

            life.sent = number + 1
            value = b"%d %d " % (life.number, number) + b"x" * 4000
            producer.produce(topic, value, on_delivery=told)
        producer.flush(OPERATION_SECONDS)

    def _admin(self) -> AdminClient:
        self._kept = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        return self._kept

    # What must be true

    def check(self, _topic: str = "") -> None:
        """Everything acknowledged of the topics that live is there, and nothing of earlier ones."""
        there = self._admin().list_topics(timeout=CHECK_SECONDS).topics
        for topic in TOPICS:
            life = self.lives.get(topic)
            if topic not in there:
                assert life is None or life.is_ending or not life.is_certain, f"{topic} is gone"
                self.lives.pop(topic, None)
                continue
            assert life is not None, f"{topic} was deleted and is back"
            life.is_certain, life.is_ending = True, False
            self._check_records(topic, life)

    def _check_records(self, topic: str, life: Life) -> None:
        found = self._read(topic)
        strangers = [value for value in found if value[0] != life.number]
        assert not strangers, f"{topic} has records of earlier topics: {strangers[:3]}"
        numbers = {number for _, number in found}
        wanted = {number for number, at in life.acknowledged.items() if at >= life.cut}
        lost = wanted - numbers
        assert not lost, f"{topic}: {len(lost)} of {len(life.acknowledged)} lost, {min(lost)} first"
        assert len(numbers) == len(found), f"{topic} has records twice"

    def _read(self, topic: str) -> list[tuple[int, int]]:
        settings = {"bootstrap.servers": self.broker.bootstrap, "group.id": "-", "log_level": 0}
        consumer, place = Consumer(settings), TopicPartition(topic, 0)
        found: list[tuple[int, int]] = []
        try:
            start, end = consumer.get_watermark_offsets(place, CHECK_SECONDS)
            place.offset = start
            consumer.assign([place])
            while start + len(found) < end:
                wanted = min(1000, end - start - len(found))
                messages = consumer.consume(wanted, timeout=CHECK_SECONDS / 3)
                if self._is_dead():
                    raise TimeoutError("the broker was killed")
                assert messages, f"{topic}: {len(found)} records from {start} to {end}"
                for message in messages:
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    life, number, *_ = (message.value() or b"").split()
                    found.append((int(life), int(number)))
        finally:
            consumer.close()
        return found

    # Adoption

    def adopt_if_possible(self) -> None:
        """Take the metadata away, as if Apache Kafka had written the logs, and adopt them, with a
        kill in between. Not while a deletion or a move is half done: then nobody could know."""
        names = [name for path in self.directories for name in os.listdir(path)]
        logs = sorted(name for name in names if name.startswith("t") and name.endswith("-0"))
        certain = all(each.is_certain and not each.is_ending for each in self.lives.values())
        if not certain or logs != sorted(f"{topic}-0" for topic in self.lives):
            return
        if any(name.endswith("-future") for name in names):
            return
        (self.directories[0] / "moldau.metadata").unlink()
        number = self.chance.randrange(30)
        calls = "open,write,pwrite,fsync,fdatasync,rename"
        if self._adopt(**doom(number, r"moldau\.metadata", calls)) == 0:
            return
        self.kills += 1
        assert self._adopt() == 0
        self.done["adopt"] = self.done.get("adopt", 0) + 1

    def _adopt(self, **environment: str) -> int:
        flags = [word for path in self.directories for word in ("--log-dir", str(path))]
        main = MAIN if environment else "moldau.main"
        ran = subprocess.run(
            [sys.executable, "-m", main, "storage", "adopt", *flags],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode in (0, -9), ran.stderr
        return ran.returncode
