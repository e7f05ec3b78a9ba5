"""Hostile clients before a log-in: whatever they send, memory stays bounded and others are served.

The everyday test sends some hundred frames to each kind of listener, the long one the full count.
The seed is printed; --seed plays it again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau import Admin
from moldau.net import login
from moldau.testing.broker_process import BrokerProcess, free_ports
from moldau.testing.broker_security import Security
from moldau.wire.messages.sasl import SaslHandshakeRequest
from moldau.wire.request_framing import encode_request
from tests.support import seeds
from tests.support.eventually import eventually
from tests.support.hostile_logins import client_hello

KINDS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
FRAMES, FRAMES_LONG = 300, 100_000
HALF_OPEN, HALF_OPEN_LONG = 150, 3_000
CLAIMS, CLAIMS_LONG = 150, 3_000
GROWTH_BYTES_MAX = {**dict.fromkeys(KINDS, 48 << 20), "PLAINTEXT": 96 << 20, "SSL": 96 << 20}
"""Of the broker's memory, however many frames came. Without a log-in strangers are served."""
BYTES_PER_CONNECTION_MAX = 96 << 10
"""Half a handshake keeps its state, and nothing besides."""
CLAIM_BYTES = 524_288
"""sasl.server.max.receive.size: the longest frame of somebody unknown."""
RUN_SECONDS_MAX = 3_000
SECONDS_MAX = 120.0


class Place(NamedTuple):
    process: BrokerProcess
    security: Security
    ports: dict[str, int]

    def memory_bytes(self) -> int:
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        (kilobytes,) = (line.split()[1] for line in text.splitlines() if line.startswith("Rss:"))
        return int(kilobytes) << 10

    def check_service(self) -> None:
        """Everybody else is let in and served, and nothing went wrong inside."""
        for kind, port in self.ports.items():
            settings = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": kind}
            if kind in ("SSL", "SASL_SSL"):
                settings["ssl.truststore.type"] = "PEM"
                settings["ssl.truststore.location"] = self.security.ca_path
            if kind.startswith("SASL"):
                given = self.security.client_settings()
                settings["sasl.mechanism"] = given["sasl.mechanism"]
                settings["sasl.jaas.config"] = given["sasl.jaas.config"]
            with Admin(settings) as admin:
                assert admin.describe_cluster().controller is not None
        text = self.process.log_text
        assert "Traceback" not in text
        assert " ERROR " not in text
        assert self.process.is_running


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("hostile")
    ports = dict(zip(KINDS, free_ports(len(KINDS)), strict=True))
    mechanisms = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
    security = Security("SASL_SSL", mechanisms=mechanisms, users={"alice": "wonder"})
    security.prepare(folder, folder / "data")
    settings = security.broker_settings(f"127.0.0.1:{ports['SASL_SSL']}")
    given = {
        key.replace("sasl_ssl", "sasl_plaintext"): value
        for key, value in settings.items()
        if key.startswith("listener.name.sasl_ssl.") and ".sasl." in key
    }
    overrides = {
        **settings,
        **given,
        "listeners": ",".join(f"{kind}://127.0.0.1:{port}" for kind, port in ports.items()),
        "connection.failed.authentication.delay.ms": "0",
        "max.connections": "2147483647",
    }
    process = BrokerProcess(folder, port=ports["PLAINTEXT"], overrides=overrides)
    with process:
        running = Place(process, security, ports)
        running.check_service()
        yield running


def attack(place: Place, kind: str, count: int) -> dict[str, int]:
    words = [sys.executable, "-m", "tests.support.hostile_logins", kind, str(place.ports[kind])]
    done = subprocess.run(
        [*words, str(seeds.one()), str(count)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, int] = json.loads(done.stdout)
    return outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_frames_before_the_log_in_harm_nobody(place: Place, kind: str) -> None:
    mutate(place, kind, FRAMES)


@pytest.mark.long
@pytest.mark.timeout(RUN_SECONDS_MAX)
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_frames_before_the_log_in_harm_nobody_for_long(place: Place, kind: str) -> None:
    mutate(place, kind, FRAMES_LONG)


def mutate(place: Place, kind: str, count: int) -> None:
    before = place.memory_bytes()
    outcomes = attack(place, kind, count)
    print(f"{kind}: {outcomes}, memory {before >> 20} MB, then {place.memory_bytes() >> 20} MB")
    assert outcomes["sent"] >= count * 0.4, "the broker hung up before much was sent"
    assert place.memory_bytes() - before < GROWTH_BYTES_MAX[kind]
    place.check_service()


def test_half_open_handshakes_harm_nobody(place: Place) -> None:
    hold_handshakes(place, HALF_OPEN)


@pytest.mark.long
@pytest.mark.timeout(RUN_SECONDS_MAX)
def test_half_open_handshakes_by_the_thousand_harm_nobody(place: Place) -> None:
    hold_handshakes(place, HALF_OPEN_LONG)


def hold_handshakes(place: Place, count: int) -> None:
    """Some have said nothing, some half a greeting, some all of it and never finish."""
    before = place.memory_bytes()
    hello = client_hello()
    starts = (b"", hello[:1], hello[: len(hello) // 2], hello)
    with contextlib.ExitStack() as held:
        for number in range(count):
            client = connect(held, place.ports[KINDS[1 + 2 * (number % 2)]])
            client.sendall(starts[number % len(starts)])
        place.check_service()
        grown = place.memory_bytes() - before
        print(f"{count} half-open handshakes: {grown >> 20} MB, {grown // count} bytes each")
        assert grown < GROWTH_BYTES_MAX["SSL"] + count * BYTES_PER_CONNECTION_MAX


def connect(held: contextlib.ExitStack, port: int) -> socket.socket:
    return held.enter_context(socket.create_connection(("127.0.0.1", port), SECONDS_MAX))


def test_memory_is_not_given_for_a_claim(place: Place) -> None:
    claim(place, CLAIMS)


@pytest.mark.long
@pytest.mark.timeout(RUN_SECONDS_MAX)
def test_memory_is_not_given_for_a_claim_by_thousands(place: Place) -> None:
    claim(place, CLAIMS_LONG)


def claim(place: Place, count: int) -> None:
    """Each says that a frame of 512 KB follows, and sends a few bytes of it."""
    before = place.memory_bytes()
    with contextlib.ExitStack() as held:
        for _ in range(count):
            client = connect(held, place.ports["SASL_PLAINTEXT"])
            client.sendall(struct.pack(">i", CLAIM_BYTES) + b"\0\x24\0\0")
        place.check_service()
        grown = place.memory_bytes() - before
        print(f"{count} claims of 512 KB: {grown >> 20} MB, {grown // count} bytes each")
        assert grown < GROWTH_BYTES_MAX["SSL"] + count * BYTES_PER_CONNECTION_MAX


@pytest.mark.parametrize("size", [CLAIM_BYTES + 1, 2**31 - 1, -1])
@pytest.mark.parametrize("is_greeted", [False, True])
def test_a_claim_beyond_the_limit_ends_the_connection(
    place: Place, size: int, is_greeted: bool
) -> None:
    with contextlib.ExitStack() as held:
        client = connect(held, place.ports["SASL_PLAINTEXT"])
        if is_greeted:
            client.sendall(encode_request(17, 1, 1, "x", SaslHandshakeRequest(mechanism="PLAIN")))
            assert client.recv(65_536)
        client.sendall(struct.pack(">i", size))
        # Closed, and not after the time that a log-in may take.
        client.settimeout(login.LOGIN_SECONDS_MAX - 5)
        assert client.recv(1) == b""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_slow_writers_are_turned_away_while_others_are_served(place: Place) -> None:
    with contextlib.ExitStack() as held:
        ports = [place.ports["SASL_PLAINTEXT"], place.ports["SASL_SSL"]]
        slow = [connect(held, port) for port in ports for _ in range(50)]
        starts = {
            ports[0]: struct.pack(">i", 1_000) + bytes(900),
            ports[1]: client_hello(),
        }
        written = 0

        def are_gone() -> bool:
            nonlocal written
            gone = 0
            for client in slow:
                start = starts[client.getpeername()[1]] if not is_closed(client) else b""
                gone += not start
                with contextlib.suppress(OSError):
                    client.sendall(start[written : written + 1])
            written += 1
            place.check_service()
            return gone == len(slow)

        eventually(are_gone, SECONDS_MAX)
    eventually(lambda: "it has not logged in within" in place.process.log_text)


def is_closed(client: socket.socket) -> bool:
    """What the broker has said meanwhile, half a handshake perhaps, is thrown away."""
    client.setblocking(False)
    try:
        while client.recv(65_536):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        client.setblocking(True)
