"""One life of a cluster, drawn from a seed: load, faults, and a quiet time to recover in."""

from __future__ import annotations

import gc
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from moldau.cluster.tree.metadata_journal import MetadataJournal
from moldau.engine.machine import JournalFault
from moldau.metadata import paths
from moldau.metadata.store import Delete
from moldau.model.names import TopicPartition
from tests.sim.client import NAME as CLIENT
from tests.sim.client import Client
from tests.sim.cluster import SESSION_TIMEOUT_MS, Host
from tests.sim.invariants import Invariants
from tests.sim.load import PARTITIONS, TOPIC, Load
from tests.sim.network import Network
from tests.sim.tree import ZOOKEEPER, Ensemble
from tests.sim.world import World, place_of

BROKERS = 3
FAULTY_MS = 8_000
RECOVERY_MS = 60_000
MEMORY = Path("/dev/shm")
MISUNDERSTOOD = ("the node exists", "no such node", "expected version", "the node has children")


class Outcome(NamedTuple):
    seed: int
    faults: list[str]
    trace: list[str]
    acknowledged: int
    losses: int


class Scenario:
    def __init__(self, seed: int, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.world = World(seed)
        self.chance = self.world.chance("scenario")
        self.network = Network(self.world)
        self.network.delay_us = self.chance.choice([(50, 500), (100, 3_000), (500, 30_000)])
        self.ensemble = Ensemble(self.network, SESSION_TIMEOUT_MS)
        pace = self.world.chance("pace")
        self.world.grain_us = pace.choice([1, 500, 4_000])
        self.ensemble.tree.lag_us = pace.choice([(50, 500), (100, 5_000), (1_000, 80_000)])
        self.hosts = [
            Host(node_id, self.network, self.ensemble, directory, settings or {})
            for node_id in range(BROKERS)
        ]
        self.invariants = Invariants(self.world, self.hosts)
        self.client = Client(self.world, self.network, BROKERS)
        self.load = Load(self.client, self.invariants, self.ensemble.tree.tree)
        self.acts = [
            (self._kill, 5),
            (self._stop, 2),
            (self._pause, 4),
            (self._cut_off, 4),
            (self._cut_from_tree, 3),
            (self._cut_pair, 3),
            (self._reset, 2),
            (self._expire, 2),
            (self._depose, 1),
            (self._elect, 1),
        ]

    def run(self) -> Outcome:
        try:
            self._live()
        finally:
            self.bury()
        world = self.world
        return Outcome(
            world.seed, world.faults, world.trace, self.load.acknowledged, self.invariants.losses
        )

    def bury(self) -> None:
        self.world.after_step = lambda loop: None
        for host in self.hosts:
            host.bury()
        self.client.loop.bury()

    def _live(self) -> None:
        world = self.world
        for host in self.hosts:
            host.start()
        self.load.start(min_insync=self.chance.choice([1, 2, 2]), producers=2)
        end_us = world.now_us + FAULTY_MS * 1000
        self._let_pass(self.chance.randint(500, 2_500))
        while world.now_us < end_us and not world.faults:
            acts, weights = zip(*self.acts, strict=True)
            (act,) = self.chance.choices(acts, weights)
            act()
            self._let_pass(self.chance.choice([50, 300, 1_000, 2_500]))
        self.recover()

    def _let_pass(self, delay_ms: int) -> None:
        self.world.run_until(lambda: False, delay_ms)

    # Faults

    def _host(self) -> Host:
        """Any one, but often one that matters: the controller, or the leader of a partition."""
        drawn = self.chance.random()
        some, partition = self.chance.choice(self.hosts), self.chance.randrange(PARTITIONS)
        if drawn < 0.2:
            node = self.ensemble.tree.tree.find(paths.CONTROLLER)
            return some if node is None else self.hosts[paths.decode_controller(node.data).broker]
        if drawn < 0.5:
            leader = self.invariants.newest_leader(TopicPartition(TOPIC, partition))
            return next((host for host in self.hosts if host.name == leader), some)
        return some

    def _kill(self) -> None:
        host = self._host()
        if host.loop is None:
            return
        host.kill(silently=self.chance.random() < 0.3)
        self._start_later(host)

    def _stop(self) -> None:
        host = self._host()
        loop = host.loop
        if loop is None or not host.is_running or loop.is_stopped:
            return
        host.stop()

        def start_when_stopped() -> None:
            if host.loop is None:
                host.start()
            elif host.loop is loop:
                self.world.after(200_000, start_when_stopped)

        self.world.after(500_000, start_when_stopped)

    def _start_later(self, host: Host) -> None:
        delay_ms = self.chance.choice([20, 300, 1_500, SESSION_TIMEOUT_MS + 1_500])

        def start() -> None:
            if host.loop is None:
                host.start()

        self.world.after(delay_ms * 1000, start)

    def _pause(self) -> None:
        host = self._host()
        if host.loop is None or host.loop.is_stopped:
            return
        host.pause()
        delay_ms = self.chance.choice([100, 800, SESSION_TIMEOUT_MS + 1_000, 5_000])
        self.world.after(delay_ms * 1000, host.go_on)

    def _cut_off(self) -> None:
        host = self._host()
        others = [each.name for each in self.hosts if each is not host]
        self._cut([(host.name, other) for other in [*others, ZOOKEEPER, CLIENT]])

    def _cut_from_tree(self) -> None:
        self._cut([(self._host().name, ZOOKEEPER)])

    def _cut_pair(self) -> None:
        one, other = self.chance.sample(self.hosts, 2)
        self._cut([(one.name, other.name)])

    def _cut(self, pairs: list[tuple[str, str]]) -> None:
        self.world.note("cut " + " ".join(f"{one}|{other}" for one, other in pairs))
        for pair in pairs:
            self.network.cut(*pair)
        delay_ms = self.chance.choice([300, 1_800, SESSION_TIMEOUT_MS + 1_500])
        self.world.after(delay_ms * 1000, self._heal, pairs)

    def _heal(self, pairs: list[tuple[str, str]]) -> None:
        self.world.note("heal " + " ".join(f"{one}|{other}" for one, other in pairs))
        self.network.heal(pairs)

    def _reset(self) -> None:
        one, other = self.chance.sample([CLIENT, *(host.name for host in self.hosts)], 2)
        self.world.note(f"reset {one}|{other}")
        self.network.reset(one, other)

    def _expire(self) -> None:
        """ZooKeeper's clock is its own: it may end the session of a broker in good health."""
        host = self._host()
        session = None if host.loop is None else self.ensemble.session_of(host.loop)
        if session is not None:
            session.end_session()

    def _depose(self) -> None:
        """Somebody deletes /controller, which forces an election."""
        tree = self.ensemble.tree
        if tree.tree.find(paths.CONTROLLER) is not None:
            self.world.note("/controller is deleted")
            tree.write([Delete(paths.CONTROLLER)], None)

    def _elect(self) -> None:
        self.ensemble.elect(self.chance.choice([100, 600, 3_000]) * 1000)

    # The end

    def recover(self) -> None:
        world = self.world
        if world.faults:
            return
        world.note("all is well again")
        self.network.heal()
        for host in self.hosts:
            host.go_on()
        world.run_until(lambda: all(host.is_running for host in self.hosts), RECOVERY_MS)
        self.load.end()
        if not world.run_until(lambda: self.load.is_over, RECOVERY_MS) and not world.faults:
            world.fail(f"the load does not come to its end: {self.load.unfinished()}")
        if not world.run_until(self._is_whole, RECOVERY_MS) and not world.faults:
            world.fail(f"not all replicas are in sync again: {self._differences()}")

    def _is_whole(self) -> bool:
        return not self._differences()

    def _differences(self) -> list[str]:
        found = []
        for partition in range(PARTITIONS):
            ends = set()
            leaders = []
            for host in self.hosts:
                replicas = host.replicas
                if replicas is None:
                    return [f"{host.name} is down"]
                known = replicas._replicas.get((TOPIC, partition))
                if known is None:
                    return [f"{host.name} has no {TOPIC}-{partition}"]
                ends.add((known.log.offset_end, known.partition.high_watermark))
                if known.partition.is_leader:
                    leaders.append((host.name, sorted(known.partition.isr)))
            wrong = self.invariants.transactions(TopicPartition(TOPIC, partition))
            if wrong is not None and not self.invariants.losses:
                found.append(wrong)
            if len(ends) > 1 or len(leaders) != 1 or len(leaders[0][1]) != BROKERS:
                found.append(f"{TOPIC}-{partition} ends={sorted(ends)} leaders={leaders}")
        return found + self.load.topics.differences(self._end_at_leader)

    def _end_at_leader(self, place: TopicPartition, topic_id: bytes) -> int | None:
        for host in self.hosts:
            known = None if host.replicas is None else host.replicas._replicas.get(place)
            if known is not None and known.partition.is_leader and known.log.topic_id == topic_id:
                return known.log.offset_end
        return None


def run(
    seed: int,
    settings: dict[str, str] | None = None,
    *,
    allows_loss: bool = False,
    with_logs: bool = False,
) -> Outcome:
    place = str(MEMORY) if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="moldau-sim-", dir=place) as directory:
        scenario = Scenario(seed, Path(directory), settings)
        scenario.invariants.allows_loss = allows_loss
        handler, faults = TraceLog(scenario.world), FaultLog(scenario.world)
        was_collecting = gc.isenabled()
        gc.disable()
        logging.disable(logging.NOTSET if with_logs else logging.WARNING)
        logging.getLogger().addHandler(faults)
        if with_logs:
            logging.getLogger().addHandler(handler)
            logging.getLogger().setLevel(logging.INFO)
        try:
            with patch.object(MetadataJournal, "_break", _watched(scenario.world)):
                return scenario.run()
        finally:
            logging.disable(logging.NOTSET)
            logging.getLogger().removeHandler(handler)
            logging.getLogger().removeHandler(faults)
            if was_collecting:
                gc.enable()


def _watched(world: World) -> Callable[[MetadataJournal, JournalFault], None]:
    """The tree refuses what a controller that was replaced wants to write, and nothing else: a
    node that is there already or no longer, or another version than the state says, means that
    the controller has misunderstood the tree."""
    resign = MetadataJournal._break

    def watched(journal: MetadataJournal, fault: JournalFault) -> None:
        if any(word in fault.message for word in MISUNDERSTOOD):
            world.fail(f"b{journal._term.broker} as controller resigns: {fault.message}")
        resign(journal, fault)

    return watched


class FaultLog(logging.Handler):
    """What somebody caught and logged with its traceback is a bug too, though the cluster may get
    over it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        fault = record.exc_info[1] if record.exc_info else None
        if fault is not None:
            self._world.fail(f"{record.name}: {record.getMessage()}: {fault!r}{place_of(fault)}")


class TraceLog(logging.Handler):
    """What the brokers log, between the events."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        from asyncio import events

        loop = events._get_running_loop()
        self._world.note(f"  {getattr(loop, 'name', '')} {record.name}: {record.getMessage()}")
