"""Members of many groups that do nothing but heartbeat, each on a connection of its own.

All join at once, the leaders hand out assignments, and then every member sends a heartbeat each
HEARTBEAT_SECONDS, evenly spread. Told are the broker's processor time and how long answers took.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import struct
import sys
import time

from benchmarks import coordinator_requests as asking
from benchmarks.control import Control, Cursor
from benchmarks.latency import percentile
from benchmarks.process_usage import cpu_seconds

HEARTBEAT_SECONDS = 3.0
SESSION_MS, REBALANCE_MS = 45_000, 60_000
JOIN_SECONDS_MAX = 120.0
RECEIVE_BYTES = 64 * 1024
OTHER_FILES = 100


class Member:
    """One connection with at most one request unanswered."""

    def __init__(self, port: int, group: str) -> None:
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.is_syncing = False
        self.heartbeat = b""
        self.received = bytearray()
        self.sent_at = 0.0
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def join(self) -> None:
        self.is_syncing = False
        wanted = (self.group, self.member_id, SESSION_MS, REBALANCE_MS)
        self.socket.sendall(asking.join_group(*wanted))

    def answer(self) -> bytes | None:
        """The body of the next answer, after its correlation id, once it is there in full."""
        piece = self.socket.recv(RECEIVE_BYTES)
        if not piece:
            raise ConnectionError("the broker closed a member's connection")
        self.received += piece
        if len(self.received) < 4:
            return None
        end = 4 + int(struct.unpack_from(">i", self.received)[0])
        if len(self.received) < end:
            return None
        body = bytes(self.received[8:end])
        del self.received[:end]
        return body

    def advance(self, body: bytes) -> bool:
        """One step towards membership; whether it is reached."""
        cursor = Cursor(body, 4)
        (error,) = cursor.take(">h")
        if error == asking.REBALANCE_IN_PROGRESS or error in asking.LATER:
            self.join()
            return False
        if error:
            raise RuntimeError(f"{self.group} was refused with error {error}")
        if self.is_syncing:
            self.heartbeat = asking.heartbeat(self.group, self.generation, self.member_id)
            return True
        (self.generation,) = cursor.take(">i")
        _protocol, leader, self.member_id = (cursor.string() for _ in range(3))
        everyone = []
        for _ in range(cursor.take(">i")[0]):
            everyone.append(cursor.string())
            (metadata_bytes,) = cursor.take(">i")
            cursor.position += metadata_bytes
        self.is_syncing = True
        told = everyone if leader == self.member_id else []
        self.socket.sendall(asking.sync_group(self.group, self.generation, self.member_id, told))
        return False


def joined(port: int, groups: int, members_each: int) -> list[Member]:
    """Everyone, once every group has all its members in one generation."""
    count = groups * members_each
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most < count + OTHER_FILES:
        raise RuntimeError(f"{count} members need more open files than the {most} allowed")
    members = [Member(port, f"bench-{number // members_each}") for number in range(count)]
    by_file = {member.socket.fileno(): member for member in members}
    deadline = time.monotonic() + JOIN_SECONDS_MAX
    with select.epoll() as epoll:
        for file, member in by_file.items():
            epoll.register(file, select.EPOLLIN)
            member.join()
        missing = set(by_file)
        while missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(missing)} of {count} members did not join in time")
            for file, _mask in epoll.poll(1.0):
                body = by_file[file].answer()
                if body is not None and by_file[file].advance(body):
                    missing.discard(file)
    return members


class Heartbeats:
    """Sends on schedule, whether or not the broker keeps up with it."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.by_file = {member.socket.fileno(): member for member in members}
        self.latencies_ms: list[float] = []
        self.sent = self.answered = 0
        self.epoll = select.epoll()
        for file in self.by_file:
            self.epoll.register(file, select.EPOLLIN)

    def run(self, seconds: float) -> None:
        every = HEARTBEAT_SECONDS / len(self.members)
        started, first = time.perf_counter(), self.sent
        while (elapsed := time.perf_counter() - started) < seconds:
            while self.sent - first < elapsed / every:
                member = self.members[self.sent % len(self.members)]
                member.sent_at = time.perf_counter()
                member.socket.sendall(member.heartbeat)
                self.sent += 1
            self.receive(0.001)

    def receive(self, wait_seconds: float) -> None:
        for file, _mask in self.epoll.poll(wait_seconds):
            member = self.by_file[file]
            body = member.answer()
            if body is None:
                continue
            _throttle, error = struct.unpack_from(">ih", body)
            if error:
                raise RuntimeError(f"a heartbeat was answered with error {error}")
            self.latencies_ms.append((time.perf_counter() - member.sent_at) * 1000)
            self.answered += 1

    def drain(self) -> None:
        deadline = time.monotonic() + HEARTBEAT_SECONDS
        while self.answered < self.sent:
            if time.monotonic() > deadline:
                raise TimeoutError("some heartbeats were never answered")
            self.receive(0.1)


def measure(
    port: int, pid: int, groups: int, members_each: int, seconds: float
) -> dict[str, float]:
    with Control(port) as control:
        control.find_coordinator("bench-0", asking.GROUP)
    heartbeats = Heartbeats(joined(port, groups, members_each))
    # One heartbeat of everybody first: a rebalance that is still under way would be told here.
    heartbeats.run(HEARTBEAT_SECONDS)
    heartbeats.drain()
    heartbeats.latencies_ms.clear()
    broker_cpu, own_cpu, started = cpu_seconds(pid), time.process_time(), time.perf_counter()
    heartbeats.run(seconds)
    elapsed = time.perf_counter() - started
    broker_cpu, own_cpu = cpu_seconds(pid) - broker_cpu, time.process_time() - own_cpu
    heartbeats.drain()
    ordered = sorted(heartbeats.latencies_ms)
    for member in heartbeats.members:
        member.socket.close()
    return {
        "groups_cpu": 100 * broker_cpu / elapsed,
        "heartbeat_p50": percentile(ordered, 0.5),
        "heartbeat_p99": percentile(ordered, 0.99),
        "load_share_groups": own_cpu / elapsed,
    }


def main() -> None:
    print(json.dumps(measure(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
