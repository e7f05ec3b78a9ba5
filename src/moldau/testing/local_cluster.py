"""A cluster for one test: a ZooKeeper and some brokers, each a process of its own.

    with moldau.testing.cluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.brokers[0].kill()
        cluster.producer(acks="all").send("orders", b"1").result(30)
        cluster.brokers[0].start()

Brokers are `LocalBroker`s, and so is what the cluster can do as a whole.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.testing.local_broker import READ_SECONDS, LocalBroker
from moldau.testing.zookeeper_process import ZooKeeperProcess, zookeeper

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin
    from moldau.client.consumer.blocking_consumer import Consumer
    from moldau.client.consumer.consumer_records import ConsumerRecord
    from moldau.client.producer.blocking_producer import Producer

BROKERS = 3
READY_SECONDS_MAX = 60.0
POLL_SECONDS = 0.1
SETTINGS = {
    # A dead broker is missed soon.
    "zookeeper.session.timeout.ms": "2000",
    "controlled.shutdown.retry.backoff.ms": "100",
}


class LocalCluster:
    """Brokers 0, 1, … on one ZooKeeper, all with the same settings."""

    def __init__(
        self,
        directory: Path,
        server: ZooKeeperProcess,
        settings: Mapping[str, Any] | None = None,
        *,
        size: int = BROKERS,
        with_faults: bool = False,
    ) -> None:
        self.zookeeper = server
        copies = str(min(size, BROKERS))
        common = {
            **SETTINGS,
            "zookeeper.connect": f"{server.connect}/kafka",
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            **(settings or {}),
        }
        self.brokers = [
            LocalBroker(
                directory / f"broker-{number}",
                {**common, "broker.id": number},
                with_faults=with_faults,
            )
            for number in range(size)
        ]

    @property
    def bootstrap(self) -> str:
        """For any Kafka client: its bootstrap.servers, all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def start(self) -> None:
        """Return once all brokers know of one another. Also starts those that a test has ended."""
        for broker in self.brokers:
            broker.start()
        self.wait_until_known(*range(len(self.brokers)))

    def wait_until_known(self, *numbers: int) -> None:
        """Until the brokers that run count exactly on these; TimeoutError if they never do."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        for broker in self.brokers:
            if not broker.is_running:
                continue
            while True:
                with contextlib.closing(broker.admin()) as admin:
                    known = {each.id for each in admin.describe_cluster().nodes}
                if known == {*numbers}:
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{broker.bootstrap} knows of {known}, not of {numbers}")
                time.sleep(POLL_SECONDS)

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            for broker in self.brokers:
                stack.callback(broker.close)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, Any] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> str:
        """The topic's name, once it can be written to; on all brokers, three at most, unless told
        otherwise."""
        factor = replication_factor or min(len(self.brokers), BROKERS)
        broker = self._any()
        return broker.create_topic(name, partitions, configs, replication_factor=factor)

    def producer(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> Producer:
        return self._any().producer({**self._everybody, **(config or {})}, **settings)

    def consumer(
        self, *topics: str, config: Mapping[str, Any] | None = None, **settings: Any
    ) -> Consumer:
        given = {**self._everybody, **(config or {})}
        return self._any().consumer(*topics, config=given, **settings)

    def admin(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> Admin:
        return self._any().admin({**self._everybody, **(config or {})}, **settings)

    def read(
        self, topic: str, count: int, *, timeout: float = READ_SECONDS, **settings: Any
    ) -> list[ConsumerRecord]:
        return self._any().read(topic, count, timeout=timeout, **settings)

    def leader(self, topic: str, partition: int = 0) -> LocalBroker:
        """The broker that leads now."""
        with contextlib.closing(self.admin()) as admin:
            found = admin.describe_topics([topic]).check()[topic]
        return self.brokers[found.partitions[partition].leader]

    @property
    def _everybody(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap}

    def _any(self) -> LocalBroker:
        """One that runs: it closes the clients that come from here."""
        return next((each for each in self.brokers if each.is_running), self.brokers[0])


@contextlib.contextmanager
def cluster(
    settings: Mapping[str, Any] | None = None,
    *,
    brokers: int = BROKERS,
    with_faults: bool = False,
    directory: str | os.PathLike[str] | None = None,
) -> Iterator[LocalCluster]:
    """A cluster for the length of a `with` block.

        with moldau.testing.cluster(brokers=3) as cluster:
            print(cluster.bootstrap)

    `settings` are those of server.properties, for every broker. With `with_faults` clients, and the
    brokers among themselves, meet each broker through its proxy."""
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="moldau-"))
        home = Path(directory)
        server = stack.enter_context(zookeeper(home / "zookeeper"))
        made = LocalCluster(home, server, settings, size=brokers, with_faults=with_faults)
        stack.callback(made.close)
        made.start()
        yield made
