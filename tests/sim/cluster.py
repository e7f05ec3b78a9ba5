"""Three brokers, whole: the program's own `Broker`, in surroundings made of memory.

A host keeps its disk (real files) through crashes; each start of its broker is a new process with
a loop of its own. Of a killed process nothing runs on, not even its `finally` clauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moldau.broker.broker import Broker, StartFault, State
from moldau.broker.machine_environment import Surroundings
from moldau.config.broker_config import BrokerConfig
from moldau.metadata.store import SharedStore
from moldau.replication.replicas import Replicas
from moldau.storage.directories.storage_threads import Threads
from moldau.storage.storage_faults import StorageFault
from tests.sim.network import PORT, Network, SimServer
from tests.sim.tree import Ensemble
from tests.sim.world import SimClock, SimLoop, World, new_loop
from tests.support.at_once import AtOnce

SESSION_TIMEOUT_MS = 2_000
RESTART_US = 400_000
SETTINGS = {
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "1500",
    "controller.socket.timeout.ms": "1500",
    "request.timeout.ms": "2000",
    "replica.fetch.wait.max.ms": "300",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "log.cleaner.enable": "false",
    "log.index.size.max.bytes": "4096",
    "num.recovery.threads.per.data.dir": "1",
    "controlled.shutdown.max.retries": "2",
    "controlled.shutdown.retry.backoff.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
}


class SimThreads(AtOnce):
    """A disk that takes its time to flush."""

    def __init__(self, loop: SimLoop, delay_us: Callable[[], int]) -> None:
        self._loop = loop
        self._delay_us = delay_us

    def run(
        self,
        work: Callable[[], StorageFault | None],
        done: Callable[[StorageFault | None], None],
    ) -> None:
        outcome = work()
        self._loop.call_later(self._delay_us() / 1_000_000, done, outcome)


class SimSurroundings(Surroundings):
    def __init__(self, host: Host, loop: SimLoop) -> None:
        self._host = host
        self._loop = loop
        self._flushes = host.world.chance(f"{loop.name}/disk/{host.starts}")
        self.clock = SimClock(host.world)
        self.random_bytes = host.world.chance(f"{loop.name}/random/{host.starts}").randbytes
        self.server_type = type("SimServerHere", (SimServer,), {"network": host.network})

    def log_threads(self, loop: asyncio.AbstractEventLoop) -> Threads:
        return SimThreads(self._loop, lambda: self._flushes.randint(100, 50_000))

    def loading_threads(self, loop: asyncio.AbstractEventLoop) -> Threads:
        return SimThreads(self._loop, lambda: self._flushes.randint(100, 5_000))

    async def open_store(self, config: BrokerConfig) -> SharedStore:
        return self._host.ensemble.session(self._loop)


class Host:
    """A machine with a disk and, mostly, a broker."""

    def __init__(
        self,
        node_id: int,
        network: Network,
        ensemble: Ensemble,
        directory: Path,
        settings: dict[str, str],
    ) -> None:
        self.node_id = node_id
        self.name = f"b{node_id}"
        self.network = network
        self.world: World = network.world
        self.ensemble = ensemble
        self.starts = 0
        self.broker: Broker | None = None
        self.loop: SimLoop | None = None
        self._directory = directory / self.name
        self._settings = settings
        self._buried: list[tuple[SimLoop, Broker]] = []

    @property
    def replicas(self) -> Replicas | None:
        return None if self.broker is None else self.broker._replicas

    @property
    def is_running(self) -> bool:
        return self.broker is not None and self.broker.state is State.RUNNING

    def start(self) -> None:
        self.starts += 1
        self._directory.mkdir(exist_ok=True)
        self.world.note(f"{self.name} starts")
        self.network.speak_again(self.name)
        self.loop = loop = new_loop(self.world, self.name)
        self.network.attach(loop)
        properties = {
            **SETTINGS,
            **self._settings,
            "node.id": str(self.node_id),
            "broker.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{self.name}:{PORT}",
            "log.dirs": str(self._directory),
        }
        config, _ = BrokerConfig.parse(properties)
        self.broker = broker = Broker(config, loop, SimSurroundings(self, loop))
        loop.call_soon(self._begin, broker, loop)

    def _begin(self, broker: Broker, loop: SimLoop) -> None:
        loop.create_task(broker.start()).add_done_callback(self._started)

    def _started(self, starting: asyncio.Task[Any]) -> None:
        fault = starting.exception()
        if isinstance(fault, StartFault):
            # As whoever watches over a process would do it.
            self.world.note(f"{self.name} did not start: {fault}")
            self._lose()
            self.world.after(RESTART_US, self._start_again)
        elif fault is not None:
            self.world.fail(f"{self.name} cannot start: {fault!r}")
        else:
            self.world.note(f"{self.name} is up")

    def _start_again(self) -> None:
        if self.loop is None:
            self.start()

    def kill(self, *, silently: bool = False) -> None:
        """The process goes without a word; what it has written stays. Silently: the machine."""
        loop, broker = self.loop, self.broker
        if loop is None or broker is None:
            return
        self.world.note(f"{self.name} is killed{' with its host' if silently else ''}")
        self._lose(silently=silently)

    def _lose(self, *, silently: bool = False) -> None:
        loop, broker = self.loop, self.broker
        assert loop is not None
        assert broker is not None
        self.loop = self.broker = None
        loop.end()
        self.network.lose(loop, silently=silently)
        self._buried.append((loop, broker))
        if broker._logs is not None:
            for log in broker._logs.logs.values():
                log.cool()
            for directory in broker._logs.directories:
                directory.unlock()

    def stop(self) -> None:
        """In order, with leadership handed over."""
        loop, broker = self.loop, self.broker
        if loop is None or broker is None:
            return
        self.world.note(f"{self.name} stops")
        loop.call_soon(self._end, broker, loop)

    def _end(self, broker: Broker, loop: SimLoop) -> None:
        loop.create_task(broker.stop()).add_done_callback(lambda task: self._stopped(task, loop))

    def _stopped(self, stopping: asyncio.Task[Any], loop: SimLoop) -> None:
        if stopping.exception() is not None:
            self.world.fail(f"{self.name} cannot stop: {stopping.exception()!r}")
        elif self.loop is loop:
            self.world.note(f"{self.name} has stopped")
            self._lose()

    def pause(self) -> None:
        if self.loop is not None:
            self.world.note(f"{self.name} is stopped")
            self.loop.stop_process()

    def go_on(self) -> None:
        if self.loop is not None and self.loop.is_stopped:
            self.world.note(f"{self.name} goes on")
            self.loop.go_on()

    def bury(self) -> None:
        if self.loop is not None:
            self._lose()
        for loop, broker in self._buried:
            broker._threads.shutdown(wait=False)
            loop.bury()
