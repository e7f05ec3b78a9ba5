"""Three brokers on an ensemble of three ZooKeeper servers, with gates on every way between them.

One fault at a time is started and ended: a process is killed and started again, held for longer
than its session lasts, cut off from everybody, or loses all its connections and what was on its way
on them. Which ones, and for how long, comes from a seed.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from moldau.testing.broker_process import BrokerProcess, free_port
from moldau.testing.zookeeper_process import ZooKeeperProcess, four_letters, serves
from tests.support.eventually import PAUSE_SECONDS, eventually
from tests.support.gates import Gates
from tests.support.reach import Reach
from tests.support.secured_cluster import SecuredCluster

SESSION_TIMEOUT_MS = 2_000
WHOM = ("broker", "controller", "zookeeper")
RESET = "reset"
HOW = ("kill", "pause", "cut off", RESET)
RESET_SECONDS = (0.05, 1.0)
"""For so long what is on its way gathers, to be lost."""
RECOVERY_SECONDS_MAX = 60.0
START_SECONDS_MAX = 180.0
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    # A broker that starts while the ensemble elects a leader waits for it.
    "zookeeper.connection.timeout.ms": "60000",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "100",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}
COMPACTING = {
    # Every few seconds, and soon: segments are small, and each round finds something to do.
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.segment.bytes": "1048576",
}


class Fault(NamedTuple):
    whom: str
    how: str
    number: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.how} {self.whom} {self.number} for {self.seconds:.1f} s"


class ClusterUnderFire:
    def __init__(
        self,
        directory: Path,
        servers: list[ZooKeeperProcess],
        draw: random.Random,
        settings: Mapping[str, str] | None = None,
        secured: SecuredCluster | None = None,
    ):
        self.servers = servers
        self.directory = directory
        self._settings = settings or {}
        self._secured = secured
        self._draw = draw
        self._gates = Gates()
        self._cut_brokers: set[str] = set()
        self._cut_servers: set[int] = set()
        self.brokers: list[BrokerProcess] = []
        self.client_ports: list[int] = []
        for number in range(3):
            self._add_broker(directory / f"broker-{number}", number)
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.client_ports)
        self.reach = Reach(bootstrap) if secured is None else secured.reach(bootstrap)
        self.zookeeper = KazooClient(
            ",".join(server.connect for server in servers) + "/kafka", timeout=10
        )

    def _add_broker(self, directory: Path, number: int) -> None:
        port = free_port()
        me = str(number)

        def is_shut(caller: str) -> bool:
            return me in self._cut_brokers or caller in self._cut_brokers

        def has_no_zookeeper(server: int) -> bool:
            return me in self._cut_brokers or server in self._cut_servers

        gate = self._gates.open(port, is_shut)
        secured = self._secured
        ports = [server.port for server in self.servers]
        if secured is not None:
            ports = secured.zookeeper_ports
        ways = [
            self._gates.open(port, lambda _, n=n: has_no_zookeeper(n))  # type: ignore[misc]
            for n, port in enumerate(ports)
        ]
        connect = ",".join(f"127.0.0.1:{way}" for way in ways)
        settings = {
            **SETTINGS,
            **self._settings,
            "broker.id": me,
            "zookeeper.connect": f"{connect}/kafka",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{gate}",
        }
        if secured is not None:
            settings |= secured.broker_settings(port, gate)
        broker = BrokerProcess(directory, port=port, overrides=settings)
        broker.start_seconds_max = START_SECONDS_MAX
        if secured is not None:
            broker.probe_context = secured.probe_context
        self.brokers.append(broker)
        self.client_ports.append(gate)

    def __enter__(self) -> ClusterUnderFire:
        try:
            for broker in self.brokers:
                broker.spawn()
            for broker in self.brokers:
                broker.wait_until_it_answers()
            self.zookeeper.start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for broker in self.brokers:
            if broker.process is not None:
                broker.kill()
        self.zookeeper.stop()
        self.zookeeper.close()
        self._gates.close()

    # What there is

    def node(self, path: str) -> Any:
        try:
            return json.loads(self.zookeeper.get(path)[0])
        except (KazooException, KazooTimeoutError):
            return None

    @property
    def controller(self) -> int:
        node = self.node("/controller")
        return -1 if node is None else int(node["brokerid"])

    @property
    def zookeeper_leader(self) -> int:
        for number, server in enumerate(self.servers):
            if "Mode: leader" in four_letters(server.port, "srvr"):
                return number
        return -1

    def _registration(self, broker: int) -> int | None:
        """The epoch of a broker that is registered."""
        try:
            stat = self.zookeeper.exists(f"/brokers/ids/{broker}")
        except (KazooException, KazooTimeoutError):
            return None
        return None if stat is None else int(stat.czxid)

    def missing(self, topics: dict[str, int]) -> list[str]:
        """What keeps the cluster from being whole: everybody serves, there is a controller, all
        replicas are in sync."""
        if self.zookeeper_leader < 0:
            return ["ZooKeeper has no leader"]
        found = [
            f"ZooKeeper {n} is silent"
            for n, each in enumerate(self.servers)
            if not serves(each.port)
        ]
        if self.controller < 0:
            found.append("nobody is the controller")
        found += [
            f"broker {n} is not registered" for n in range(3) if self._registration(n) is None
        ]
        for topic, count in topics.items():
            for number in range(count):
                state = self.node(f"/brokers/topics/{topic}/partitions/{number}/state")
                if state is None or len(state["isr"]) < 3 or state["leader"] < 0:
                    found.append(f"{topic}-{number}: {state}")
        return found

    def until_whole(self, topics: dict[str, int]) -> None:
        deadline = time.monotonic() + RECOVERY_SECONDS_MAX
        while missing := self.missing(topics):
            assert time.monotonic() < deadline, f"not whole again: {missing}, see {self.directory}"
            time.sleep(PAUSE_SECONDS)

    # Faults

    def next_fault(self, whom: str | None = None, how: str | None = None) -> Fault:
        whom = whom or self._draw.choice(WHOM)
        how = how or self._draw.choice(HOW)
        if whom == "controller":
            number = _somebody(lambda: self.controller)
        elif whom == "zookeeper":
            number = _somebody(lambda: self.zookeeper_leader)
        else:
            number = self._draw.randrange(3)
        longest = SESSION_TIMEOUT_MS / 1000 * 2.2
        shortest = 0.2 if how == "kill" else SESSION_TIMEOUT_MS / 1000 * 1.3
        if how == RESET:
            shortest, longest = RESET_SECONDS
        return Fault(whom, how, number, self._draw.uniform(shortest, longest))

    def begin(self, fault: Fault) -> None:
        whom, how, number, _ = fault
        if whom == "zookeeper":
            self._begin_at_server(how, number)
        elif how == "kill":
            self.brokers[number].kill()
        elif how == "pause":
            process = self.brokers[number].process
            assert process is not None
            process.send_signal(signal.SIGSTOP)
        else:
            self._cut_brokers.add(str(number))
            self._gates.look()

    def end(self, fault: Fault) -> None:
        whom, how, number, _ = fault
        if whom == "zookeeper":
            self._end_at_server(how, number)
        elif how == "kill":
            before = self._registration(number)
            self.brokers[number].start()
            eventually(lambda: self._registration(number) not in (before, None))
        elif how == "pause":
            process = self.brokers[number].process
            assert process is not None
            process.send_signal(signal.SIGCONT)
        else:
            self._open_again(how)

    def _open_again(self, how: str) -> None:
        if how == RESET:
            self._gates.break_shut()
        self._cut_brokers.clear()
        self._cut_servers.clear()
        self._gates.look()

    def _begin_at_server(self, how: str, number: int) -> None:
        if how == "kill":
            self.servers[number].kill()
        elif how == "pause":
            self.servers[number].send(signal.SIGSTOP)
        else:
            self._cut_servers.add(number)
            self._gates.look()

    def _end_at_server(self, how: str, number: int) -> None:
        if how == "kill":
            self.servers[number].start()
            self.servers[number].wait()
        elif how == "pause":
            self.servers[number].send(signal.SIGCONT)
        else:
            self._open_again(how)


def _somebody(active_controllers: Callable[[], int]) -> int:
    """The controller; there may be none just now."""
    found = -1

    def is_held() -> bool:
        nonlocal found
        found = active_controllers()
        return found >= 0

    eventually(is_held, RECOVERY_SECONDS_MAX)
    return found
