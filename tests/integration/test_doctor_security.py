"""The doctor says why a handshake or a log-in failed, and what mends it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.testing.broker_process import BrokerProcess, free_ports
from moldau.testing.broker_security import HOSTS, Security
from tests.support.certificates import Authority

LISTENERS = ("SASL_SSL", "ELSEWHERE", "OLD", "MUTUAL", "PLAINTEXT")
PASSWORD = "pw-of-alice"
SECONDS_MAX = 120


class Place(NamedTuple):
    security: Security
    ports: dict[str, int]
    folder: Path

    def asked(self, listener: str, **changes: str) -> dict[str, str]:
        settings = {**self.security.client_settings(), **changes}
        file = self.folder / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        at = f"127.0.0.1:{self.ports[listener]}"
        words = ["doctor", "--bootstrap-server", at, "--command-config", str(file), "--json"]
        ran = subprocess.run(
            [sys.executable, "-m", "moldau.main", *words],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert ran.returncode == 2, ran.stdout + ran.stderr
        (finding,) = json.loads(ran.stdout)["findings"]
        return dict(finding)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("doctor")
    ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
    security = Security("SASL_SSL", mechanisms=("SCRAM-SHA-512",), users={"alice": PASSWORD})
    security.prepare(folder, folder / "data")
    settings = security.broker_settings(f"127.0.0.1:{ports['SASL_SSL']}")
    for name in ("elsewhere", "old"):
        settings |= {
            key.replace("sasl_ssl", name): value
            for key, value in settings.items()
            if key.startswith("listener.name.sasl_ssl.") and ".sasl." in key
        }
    for name, hosts, days in (("elsewhere", ("elsewhere.example",), 1), ("old", HOSTS, 0)):
        path = folder / f"{name}.pem"
        path.write_text(security.broker_certificate(hosts, days))
        settings[f"listener.name.{name}.ssl.keystore.location"] = str(path)
    settings |= {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": (
            "SASL_SSL:SASL_SSL,ELSEWHERE:SASL_SSL,OLD:SASL_SSL,MUTUAL:SSL,PLAINTEXT:PLAINTEXT"
        ),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    with BrokerProcess(folder, port=ports["PLAINTEXT"], overrides=settings):
        yield Place(security, ports, folder)


def test_an_authority_that_is_not_trusted(place: Place) -> None:
    other = place.folder / "other.pem"
    other.write_text(Authority("Other CA").certificate_pem)
    finding = place.asked("SASL_SSL", **{"ssl.truststore.location": str(other)})
    assert finding["code"] == "bootstrap-authority"
    assert "ssl.truststore.location" in finding["fix"]


def test_a_certificate_for_another_host(place: Place) -> None:
    finding = place.asked("ELSEWHERE")
    assert finding["code"] == "bootstrap-host-name"
    assert "127.0.0.1" in finding["fix"]


def test_a_certificate_whose_time_is_over(place: Place) -> None:
    finding = place.asked("OLD")
    assert finding["code"] == "bootstrap-expired"
    assert "new certificate" in finding["fix"]


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_client_without_tls_on_a_port_that_speaks_it(place: Place, protocol: str) -> None:
    finding = place.asked("SASL_SSL", **{"security.protocol": protocol})
    assert finding["code"] == "bootstrap-tls"


def test_a_client_with_tls_on_a_port_that_speaks_none(place: Place) -> None:
    assert place.asked("PLAINTEXT")["code"] == "bootstrap-plaintext"


def test_a_mechanism_that_is_not_offered(place: Place) -> None:
    module = place.security.client_settings()["sasl.jaas.config"]
    plain = module.replace("scram.ScramLoginModule", "plain.PlainLoginModule")
    finding = place.asked("SASL_SSL", **{"sasl.mechanism": "PLAIN", "sasl.jaas.config": plain})
    assert finding["code"] == "bootstrap-mechanism"
    assert "SCRAM-SHA-512" in finding["cause"]


def test_a_wrong_password(place: Place) -> None:
    module = place.security.client_settings()["sasl.jaas.config"].replace(PASSWORD, "a-guess")
    finding = place.asked("SASL_SSL", **{"sasl.jaas.config": module})
    assert finding["code"] == "bootstrap-credentials"
    assert "a-guess" not in json.dumps(finding)
    assert "sasl.jaas.config" in finding["fix"]
