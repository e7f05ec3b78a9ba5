"""Foreign clients on secured listeners: let in by every mechanism, and told at once why not.

A client that is turned away ends with its own error of authentication: it does not try again and
again without a word. Each runs in a process of its own that must end by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moldau.testing.broker_process import BrokerProcess, free_ports
from moldau.testing.broker_security import Security
from tests.compat.clients.program import build, franz_go_command, fresh_copy, java_command
from tests.support.certificates import Authority

pytestmark = pytest.mark.compat

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
PASSWORD = "wonder,land=7"
SECONDS_MAX = 300
LOUD = {"MOLDAU_LOG_LEVEL": "DEBUG"}
"""So that the log says of each connection why it ended."""
SESSION_MS = 3_000
EXPIRED = "its session has expired"
RENEWS = ("java", "confluent-kafka", "franz-go", "kafka-python", "kafkajs")
"""aiokafka knows no renewal: its connection ends with the session, and it comes back."""


class Place(NamedTuple):
    process: BrokerProcess
    security: Security
    ports: dict[str, int]
    other_ca: str

    def asked(self, listener: str, **more: Any) -> dict[str, Any]:
        protocol = {"SHORT": "SASL_SSL", "MUTUAL": "SSL", "ELSEWHERE": "SASL_SSL"}.get(
            listener, listener
        )
        return {
            "bootstrap": f"127.0.0.1:{self.ports[listener]}",
            "protocol": protocol,
            "mechanism": "" if protocol == "SSL" else "SCRAM-SHA-256",
            "user": "alice",
            "password": PASSWORD,
            "ca": self.security.ca_path if "SSL" in protocol else "",
            "pair": "",
            "topic": "words",
            "sends": 1,
            "pause_ms": 0,
            **more,
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("secured")
    names = ("SASL_SSL", "SASL_PLAINTEXT", "MUTUAL", "SHORT", "ELSEWHERE")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    security = Security("SASL_SSL", mechanisms=MECHANISMS, users={"alice": PASSWORD})
    security.prepare(folder, folder / "data")
    settings = security.broker_settings(f"127.0.0.1:{ports['SASL_SSL']}")
    for name in ("sasl_plaintext", "short", "elsewhere"):
        settings |= {
            key.replace("sasl_ssl", name): value
            for key, value in settings.items()
            if key.startswith("listener.name.sasl_ssl.") and ".sasl." in key
        }
    settings |= {
        f"listener.name.short.{mechanism.lower()}.connections.max.reauth.ms": str(SESSION_MS)
        for mechanism in MECHANISMS
    }
    other = Authority("Other CA")
    other_ca = folder / "other-ca.pem"
    other_ca.write_text(other.certificate_pem)
    settings |= {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": (
            "SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,MUTUAL:SSL,SHORT:SASL_SSL,"
            "ELSEWHERE:SASL_SSL"
        ),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.elsewhere.ssl.keystore.location": elsewhere(security, folder),
    }
    process = BrokerProcess(
        folder, port=ports["SASL_PLAINTEXT"], overrides=settings, environment=LOUD
    )
    with process:
        yield Place(process, security, ports, str(other_ca))


def elsewhere(security: Security, folder: Path) -> str:
    """A good certificate of the right authority, for another host."""
    path = folder / "elsewhere.pem"
    path.write_text(security.broker_certificate(["elsewhere.example"]))
    return str(path)


Command = Callable[[], list[str]]


def of_python(name: str) -> Command:
    return lambda: [sys.executable, "-m", "tests.compat.clients.login_probe", name]


def of_kafkajs() -> list[str]:
    folder = fresh_copy("kafkajs")
    build(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], folder)
    return ["node", "--no-warnings", str(folder / "login.js")]


COMMANDS: dict[str, Command] = {
    "java": lambda: java_command("Login"),
    "confluent-kafka": of_python("confluent-kafka"),
    "kafka-python": of_python("kafka-python"),
    "aiokafka": of_python("aiokafka"),
    "franz-go": lambda: [*franz_go_command(), "login"],
    "kafkajs": of_kafkajs,
}


@pytest.fixture(scope="module", params=COMMANDS)
def client(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    return request.param, COMMANDS[request.param]()


Client = tuple[str, list[str]]


def told(client: Client, asked: dict[str, Any]) -> dict[str, Any]:
    ran = subprocess.run(
        client[1], input=json.dumps(asked), capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_right_password_lets_a_client_in(
    place: Place, client: Client, protocol: str, mechanism: str
) -> None:
    assert told(client, place.asked(protocol, mechanism=mechanism)) == {"ok": True}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("user", "password"), [("alice", "guess"), ("nobody", PASSWORD)])
def test_a_wrong_password_and_an_unknown_user_are_told(
    place: Place, client: Client, protocol: str, mechanism: str, user: str, password: str
) -> None:
    asked = place.asked(protocol, mechanism=mechanism, user=user, password=password)
    answer = told(client, asked)
    assert answer.get("kind") == "login", answer


def test_a_certificate_lets_a_client_in(place: Place, client: Client) -> None:
    pair = place.security.certificate("alice")
    assert told(client, place.asked("MUTUAL", pair=pair)) == {"ok": True}


def test_a_broker_of_another_authority_is_refused(place: Place, client: Client) -> None:
    answer = told(client, place.asked("SASL_SSL", ca=place.other_ca))
    assert answer.get("kind") == "tls", answer


def test_a_broker_whose_certificate_names_another_host_is_refused(
    place: Place, client: Client
) -> None:
    answer = told(client, place.asked("ELSEWHERE"))
    assert answer.get("kind") == "tls", answer


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_session_that_ends_does_not_stop_a_client(
    place: Place, client: Client, mechanism: str
) -> None:
    """Those that can log in again on their connection do so, before it is cut."""
    before = place.process.log_text.count(EXPIRED)
    asked = place.asked("SHORT", mechanism=mechanism, sends=12, pause_ms=SESSION_MS // 4)
    assert told(client, asked) == {"ok": True}
    if client[0] in RENEWS:
        assert place.process.log_text.count(EXPIRED) == before
