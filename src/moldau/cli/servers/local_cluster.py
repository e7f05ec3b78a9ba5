"""A cluster on one machine: ZooKeeper and several brokers under one folder, as processes.

What was asked for is kept in cluster.json, so that a later `start` brings back what is missing and
`status` and `stop` need the folder only. A process is known by its pid file together with its
command line: a pid that was given to something else meanwhile is not ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from moldau.cli.command_faults import CommandFault

PLAN_FILE = "cluster.json"
HOST = "127.0.0.1"
KAFKA_PORT, ZOOKEEPER_PORT = 9092, 2181
START_SECONDS_MAX = 90
STOP_SECONDS_MAX = 60
ANSWER_SECONDS_MAX = 5.0
PAUSE_SECONDS = 0.05


class Plan(NamedTuple):
    """What the cluster consists of."""

    brokers: int
    port: int
    zookeeper_ports: tuple[int, ...]
    """One server alone, or an ensemble; its own two ports follow each."""

    @property
    def zookeeper_connect(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.zookeeper_ports)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.port + n}" for n in range(self.brokers))


class Member(NamedTuple):
    """A process of the cluster: how it is called and what starts it."""

    name: str
    port: int
    command: tuple[str, ...]
    settings: Path


class LocalCluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan: Plan | None = read_plan(folder / PLAN_FILE)

    # Members

    @property
    def zookeepers(self) -> list[Member]:
        assert self.plan is not None
        ports = self.plan.zookeeper_ports
        return [
            self._member(f"zookeeper-{n + 1}", port, "zookeeper-server-start")
            for n, port in enumerate(ports)
        ]

    @property
    def brokers(self) -> list[Member]:
        assert self.plan is not None
        port = self.plan.port
        return [
            self._member(f"broker-{n}", port + n, "server-start") for n in range(self.plan.brokers)
        ]

    def _member(self, name: str, port: int, command: str) -> Member:
        settings = (self.folder / f"{name}.properties").resolve()
        return Member(name, port, (sys.executable, "-m", "moldau.main", command), settings)

    def pid_of(self, member: Member) -> int | None:
        """None if it does not run."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.folder / f"{member.name}.pid").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if os.fsencode(member.settings) in words or (words == [b""] and not is_zombie(pid)):
                return pid
        return None

    # Starting

    def start(self, plan: Plan, progress: Callable[[str], None]) -> None:
        """Whatever is missing; returns when every broker is in the cluster."""
        self.plan = plan
        for member in (*self.zookeepers, *self.brokers):
            if self.pid_of(member) is None and listens(member.port):
                raise CommandFault(
                    f"{member.name} cannot listen on {HOST}:{member.port}: another process does. "
                    "Choose another --port."
                )
        self.folder.mkdir(parents=True, exist_ok=True)
        write_plan(self.folder / PLAN_FILE, plan)
        for number, member in enumerate(self.zookeepers):
            member.settings.write_text(self._zookeeper_settings(number))
        for number, member in enumerate(self.brokers):
            if not member.settings.exists():
                member.settings.write_text(self._broker_settings(number))
        self._run_missing(self.zookeepers, progress)
        for member in self.zookeepers:
            self._wait(member)
        self._run_missing(self.brokers, progress)
        deadline = time.monotonic() + START_SECONDS_MAX
        while len(self.registered()) < plan.brokers:
            for member in self.brokers:
                self._must_run(member)
            if time.monotonic() > deadline:
                raise CommandFault(
                    f"{len(self.registered())} of {plan.brokers} brokers are in the cluster after "
                    f"{START_SECONDS_MAX} s; their logs are in {self.folder}."
                )
            time.sleep(PAUSE_SECONDS)

    def _run_missing(self, members: Sequence[Member], progress: Callable[[str], None]) -> None:
        for member in members:
            if self.pid_of(member) is not None:
                continue
            progress(f"starting {member.name} on {HOST}:{member.port}")
            with open(self.folder / f"{member.name}.log", "ab") as out:
                process = subprocess.Popen(
                    [*member.command, str(member.settings)],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            (self.folder / f"{member.name}.pid").write_text(f"{process.pid}\n")

    def _wait(self, member: Member) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not listens(member.port):
            self._must_run(member)
            if time.monotonic() > deadline:
                raise CommandFault(
                    f"{member.name} is not up after {START_SECONDS_MAX} s; its log is "
                    f"{self.folder / member.name}.log."
                )
            time.sleep(PAUSE_SECONDS)

    def _must_run(self, member: Member) -> None:
        if self.pid_of(member) is None:
            log = self.folder / f"{member.name}.log"
            with contextlib.suppress(OSError):
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                said = f": {last[0]}" if last else ""
                raise CommandFault(f"{member.name} has ended{said} (its log is {log}).")

    def _zookeeper_settings(self, number: int) -> str:
        assert self.plan is not None
        ports = self.plan.zookeeper_ports
        home = (self.folder / f"zookeeper-{number + 1}").resolve()
        home.mkdir(exist_ok=True)
        text = (
            f"dataDir={home}\nclientPort={ports[number]}\nclientPortAddress={HOST}\n"
            "tickTime=1000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
        )
        if len(ports) > 1:
            (home / "myid").write_text(f"{number + 1}\n")
            text += "initLimit=10\nsyncLimit=5\n"
            for n, port in enumerate(ports):
                text += f"server.{n + 1}={HOST}:{port + 100}:{port + 200}\n"
        return text

    def _broker_settings(self, number: int) -> str:
        assert self.plan is not None
        return (
            f"broker.id={number}\n"
            f"listeners=PLAINTEXT://{HOST}:{self.plan.port + number}\n"
            f"log.dirs={(self.folder / f'broker-{number}').resolve()}\n"
            f"zookeeper.connect={self.plan.zookeeper_connect}\n"
            "zookeeper.session.timeout.ms=6000\n"
            "group.initial.rebalance.delay.ms=0\n"
            f"offsets.topic.replication.factor={min(3, self.plan.brokers)}\n"
            f"transaction.state.log.replication.factor={min(3, self.plan.brokers)}\n"
            f"transaction.state.log.min.isr={min(2, self.plan.brokers)}\n"
        )

    # Looking

    def registered(self) -> dict[int, bool]:
        """Brokers of the cluster as it sees itself, and whether each is the controller."""
        assert self.plan is not None
        live = [m.port for m in self.brokers if self.pid_of(m) is not None and listens(m.port)]
        if not live:
            return {}
        from moldau.client.admin.blocking_admin import Admin
        from moldau.client.shared.client_errors import KafkaError

        servers = ",".join(f"{HOST}:{port}" for port in live)
        try:
            with Admin(bootstrap_servers=servers, request_timeout_ms=5000) as admin:
                cluster = admin.describe_cluster(timeout=ANSWER_SECONDS_MAX)
        except KafkaError:
            return {}
        controller = cluster.controller.id if cluster.controller is not None else -1
        return {node.id: node.id == controller for node in cluster.nodes}

    # Stopping

    def stop(self, progress: Callable[[str], None]) -> int:
        """Brokers first, while ZooKeeper can still take their farewell; how many there were.

        One after the other and the controller last: it moves the others' leaders away, and nobody
        waits for a controller that is itself on its way out.
        """
        if self.plan is None:
            return 0
        is_controller = self.registered()
        brokers = sorted(enumerate(self.brokers), key=lambda row: is_controller.get(row[0], False))
        stopped = sum(self._end([broker], progress) for _, broker in brokers)
        return stopped + self._end(self.zookeepers, progress)

    def _end(self, members: Sequence[Member], progress: Callable[[str], None]) -> int:
        running = [(m, pid) for m in members if (pid := self.pid_of(m)) is not None]
        for member, pid in running:
            progress(f"stopping {member.name}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        for member, pid in running:
            while self.pid_of(member) is not None:
                if time.monotonic() > deadline:
                    progress(f"{member.name} does not end in {STOP_SECONDS_MAX} s and is killed")
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    break
                time.sleep(PAUSE_SECONDS)
            (self.folder / f"{member.name}.pid").unlink(missing_ok=True)
        return len(running)


def is_zombie(pid: int) -> bool:
    """It has ended and nobody has asked how. One without words may also be becoming another
    program at this very moment, as a ZooKeeper does when it starts."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def zookeeper_ports(count: int, kafka_port: int) -> tuple[int, ...]:
    """The usual one beside the usual broker; beside another one, numbers that go with it."""
    first = ZOOKEEPER_PORT if kafka_port == KAFKA_PORT else kafka_port + 1000
    return tuple(range(first, first + count))


def read_plan(path: Path) -> Plan | None:
    try:
        fields = json.loads(path.read_text())
        return Plan(fields["brokers"], fields["port"], tuple(fields["zookeeper_ports"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CommandFault(f"cannot read {path}: {fault}.") from None


def write_plan(path: Path, plan: Plan) -> None:
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(plan._asdict()) + "\n")
    fresh.rename(path)
