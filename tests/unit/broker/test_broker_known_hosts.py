"""Names by which metrics may be asked."""

from __future__ import annotations

import pytest

from moldau.broker.monitoring.known_hosts import KnownHosts

HOSTS = KnownHosts(["broker-1.Example.com", ""])


def fault(*lines: str) -> str | None:
    head = "\r\n".join(["GET /metrics HTTP/1.1", *lines, "", ""])
    return HOSTS.fault(head.encode())


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9404",
        "[::1]:9404",
        "10.2.3.4:80",
        "localhost:9404",
        "LOCALHOST",
        "grafana.localhost",
        "BROKER-1.example.com:9404",
        "broker-1.example.com.",
    ],
)
def test_an_address_and_an_own_name_will_do(host: str) -> None:
    assert fault(f"Host: {host}") is None


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example",
        "rebound.example:9404",
        "127.0.0.1.rebound.example",
        "localhost.rebound.example",
        "notlocalhost",
        "user@localhost",
        "[rebound.example]",
        "",
        ":9404",
    ],
)
def test_a_foreign_name_is_refused(host: str) -> None:
    assert fault(f"host:{host}") is not None


def test_two_names_are_refused_and_none_is_an_old_client() -> None:
    assert fault("Host: localhost", "Host: localhost") == "more than one Host was sent"
    assert fault("Accept: */*") is None
