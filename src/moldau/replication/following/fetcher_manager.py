"""All fetchers of this broker: for each leader that it follows, `num.replica.fetchers` at most.

A partition always goes to the same one of a leader's fetchers. Fetchers start with their first
partition and stop some time after they lost their last one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from zlib import crc32

from moldau.config.broker_config import BrokerConfig
from moldau.engine.timers import Timers
from moldau.model.clock import Clock
from moldau.model.names import BrokerId, TopicPartition
from moldau.net.peers import PeerCalls
from moldau.replication.following.fetch_plan import FetchSettings
from moldau.replication.following.replica_fetcher import Fetcher
from moldau.replication.following.replication_throttle import Throttle
from moldau.replication.replica import Replica
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.server.ReplicaFetcherManager")

NAMED_MAX = 20
"""Partitions that one log line names."""


class ReplicaFetchers:
    def __init__(
        self,
        node_id: BrokerId,
        peers: PeerCalls,
        *,
        config: Callable[[], BrokerConfig],
        broker_epoch: Callable[[], int],
        clock: Clock,
        timers: Timers,
        broken: Callable[[Replica, StorageFault], None],
    ) -> None:
        self._node_id = node_id
        self._peers = peers
        self._config = config
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._timers = timers
        self._broken = broken
        self._fetchers: dict[tuple[BrokerId, int], Fetcher] = {}
        self._places: dict[TopicPartition, Fetcher] = {}
        self._added: dict[BrokerId, list[TopicPartition]] = {}
        self._removed: list[TopicPartition] = []
        self._stopping: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        self._throttle = Throttle()

    def slow_down(self, throttle: Throttle) -> None:
        self._throttle = throttle

    def __len__(self) -> int:
        return len(self._fetchers)

    def each(self) -> Iterator[tuple[BrokerId, int, Fetcher]]:
        """With its leader and its number among that one's."""
        for (leader, number), fetcher in self._fetchers.items():
            yield leader, number, fetcher

    def follow(self, replica: Replica) -> None:
        """Fetch for it from its leader, unless that is being done in this very leader epoch."""
        partition = replica.partition
        place = partition.topic_partition
        fetcher = self._places.get(place)
        if fetcher is not None:
            known_epoch = fetcher.leader_epoch(place)
            if fetcher.leader == partition.leader and known_epoch == partition.leader_epoch:
                return
            fetcher.unfollow(place)
        if self._is_stopped:
            return
        fetcher = self._fetcher_for(partition.leader, place)
        self._places[place] = fetcher
        fetcher.follow(replica)
        self._added.setdefault(partition.leader, []).append(place)
        self._tell_soon()

    def unfollow(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            fetcher = self._places.pop(place, None)
            if fetcher is not None and fetcher.unfollow(place):
                self._removed.append(place)
                self._tell_soon()

    async def stop(self) -> None:
        """Nothing is replicated any more when this returns."""
        self._is_stopped = True
        self._removed += self._places
        self._tell()
        fetchers, self._fetchers, self._places = self._fetchers, {}, {}
        for fetcher in fetchers.values():
            await fetcher.stop()
        if self._stopping:
            await asyncio.wait(self._stopping)

    def drop_idle(self) -> None:
        """Stop fetchers that have nothing to fetch."""
        for key, fetcher in list(self._fetchers.items()):
            if not len(fetcher):
                del self._fetchers[key]
                stopping = asyncio.get_running_loop().create_task(fetcher.stop())
                self._stopping.add(stopping)
                stopping.add_done_callback(self._stopping.discard)

    def _fetcher_for(self, leader: BrokerId, place: TopicPartition) -> Fetcher:
        number = crc32(str(place).encode()) % self._config().num_replica_fetchers
        fetcher = self._fetchers.get((leader, number))
        if fetcher is None:
            fetcher = self._fetchers[leader, number] = Fetcher(
                leader,
                number,
                peers=self._peers,
                clock=self._clock,
                timers=self._timers,
                settings=self._settings,
                timeout_ms=lambda: self._config().replica_socket_timeout_ms,
                broken=self._broken,
                throttle=self._throttle,
            )
            fetcher.start()
        return fetcher

    def _settings(self) -> FetchSettings:
        config = self._config()
        return FetchSettings(
            self._node_id,
            self._broker_epoch(),
            config.replica_fetch_wait_max_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
            config.replica_fetch_backoff_ms,
        )

    # One line for any number of partitions

    def _tell_soon(self) -> None:
        if len(self._removed) + sum(map(len, self._added.values())) == 1:
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        prefix = f"[ReplicaFetcherManager on broker {self._node_id}]"
        if self._removed:
            log.info("%s Removed fetcher for partitions Set(%s)", prefix, _named(self._removed))
        for leader, places in self._added.items():
            log.info(
                "%s Added fetcher to broker %d for partitions %s", prefix, leader, _named(places)
            )
        self._removed, self._added = [], {}


def _named(places: list[TopicPartition]) -> str:
    more = f" and {len(places) - NAMED_MAX} more" if len(places) > NAMED_MAX else ""
    return ", ".join(map(str, places[:NAMED_MAX])) + more
