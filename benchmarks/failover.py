"""How long partitions cannot be written to after the broker that leads them was killed.

Two moments count: the kill, and when ZooKeeper ended the killed broker's session, which is as soon
as anybody can know. A prober asks a survivor for the new leaders again and again and sends each
partition one record with acks=all until it is acknowledged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import requests
from benchmarks.cluster_requests import (
    acknowledged,
    ask_cluster,
    cluster_of,
    create_placed_topic,
    delete_topic,
    error_of_one_topic,
    metadata,
    probe,
)
from benchmarks.control import Control

if TYPE_CHECKING:
    from benchmarks.cluster_peers import LocalCluster

PARTITIONS_PER_PROBE = 50
RECORD_BYTES = 100
READY_SECONDS_MAX = 120.0
RETRY_SECONDS = 0.01


class Failover(NamedTuple):
    seconds: float
    """From the kill until the last partition took a record."""
    beyond_session_seconds: float
    """The same from the end of the session."""


def create(cluster: LocalCluster, topic: str, placement: Sequence[Sequence[int]]) -> float:
    """Seconds until every partition has its first replica as leader and all in sync."""
    seen = ask_cluster(cluster.port, topic)
    began = time.monotonic()
    with Control(seen.brokers[seen.controller]) as control:
        control.socket.settimeout(READY_SECONDS_MAX)
        if error := error_of_one_topic(control.ask(create_placed_topic(topic, placement))):
            raise RuntimeError(f"creating {topic} was refused with error {error}")
    for broker in cluster.brokers:
        wait_until_placed(broker.port, topic, placement, began + READY_SECONDS_MAX)
    return time.monotonic() - began


def wait_until_placed(
    port: int, topic: str, placement: Sequence[Sequence[int]], deadline: float
) -> None:
    with Control(port) as control:
        while True:
            seen = cluster_of(control.ask(metadata(topic))).partitions
            if len(seen) == len(placement) and all(
                seen[number].leader == replicas[0] and len(seen[number].isr) == len(replicas)
                for number, replicas in enumerate(placement)
            ):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was not ready in time")
            time.sleep(RETRY_SECONDS)


def delete(cluster: LocalCluster, topic: str) -> None:
    """Until no broker knows it any more."""
    seen = ask_cluster(cluster.port, topic)
    with Control(seen.brokers[seen.controller]) as control:
        if error := error_of_one_topic(control.ask(delete_topic(topic))):
            raise RuntimeError(f"deleting {topic} was refused with error {error}")
    deadline = time.monotonic() + READY_SECONDS_MAX
    for broker in cluster.brokers:
        while ask_cluster(broker.port, topic).partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was not deleted in time")
            time.sleep(RETRY_SECONDS)


class SessionEnd:
    """Notes when ZooKeeper dropped a broker's registration."""

    def __init__(self, connect: str, broker: int) -> None:
        from kazoo.client import KazooClient

        self.at = 0.0
        self.ended = threading.Event()
        self.client = KazooClient(connect)
        self.client.start()
        if not self.client.exists(f"/brokers/ids/{broker}", watch=self.note):
            raise RuntimeError(f"broker {broker} is not registered")

    def note(self, _event: object) -> None:
        self.at = time.monotonic()
        self.ended.set()

    def close(self) -> None:
        self.client.stop()
        self.client.close()


def kill_and_measure(cluster: LocalCluster, topic: str, victim: int, count: int) -> Failover:
    """`victim` leads all `count` partitions of the topic."""
    survivor = cluster.brokers[(victim + 1) % len(cluster.brokers)]
    session = SessionEnd(cluster.zookeeper.connect, victim)
    try:
        with Control(survivor.port) as control:
            began = time.monotonic()
            cluster.brokers[victim].kill()
            wait_for_acks(control, topic, victim, count, began + READY_SECONDS_MAX)
            done = time.monotonic()
        if not session.ended.wait(READY_SECONDS_MAX):
            raise TimeoutError(f"the session of broker {victim} did not end in time")
        return Failover(done - began, done - session.at)
    finally:
        session.close()


def wait_for_acks(control: Control, topic: str, victim: int, count: int, deadline: float) -> None:
    missing = set(range(count))
    record = requests.batch(RECORD_BYTES, 1, int(time.time() * 1000)).encoded
    links: dict[int, Control] = {}
    try:
        while missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(missing)} partitions were not written to in time")
            seen = cluster_of(control.ask(metadata(topic)))
            ready: dict[int, list[int]] = {}
            for number in missing:
                leader = seen.partitions[number].leader
                if leader not in (victim, -1) and leader in seen.brokers:
                    ready.setdefault(leader, []).append(number)
            for leader, numbers in ready.items():
                if leader not in links:
                    links[leader] = Control(seen.brokers[leader])
                missing -= written(links[leader], topic, numbers, record)
            if missing:
                time.sleep(RETRY_SECONDS)
    finally:
        for link in links.values():
            link.close()


def written(link: Control, topic: str, numbers: Sequence[int], record: bytes) -> set[int]:
    done: set[int] = set()
    for first in range(0, len(numbers), PARTITIONS_PER_PROBE):
        some = numbers[first : first + PARTITIONS_PER_PROBE]
        done.update(acknowledged(link.ask(probe(topic, some, record))))
    return done
