"""The loads of requests, produce and fetch once more, over a listener that speaks TLS.

Both brokers have the same certificate and settings; the load is a client with a TLS of its own and
shares the machine, so its share of a core tells whether the broker was what was measured.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.brokers import Apache, Moldau, Peer
from benchmarks.control import wait_for_first_ack
from benchmarks.doors import HOST
from benchmarks.measures import Scale, Values, fetch, one_record_requests, produce, warm_up
from moldau.net.tls.authority import Authority
from moldau.testing.broker_process import free_port

DAYS = 2
MEASURED = ("requests_", "produce_", "cpu_", "fetch_")


def take(name: str, scale: Scale, directory: Path) -> Values:
    peer = _peer(name, directory)
    peer.launch()
    try:
        wait_for_first_ack(peer.port)
        warm_up(peer, scale)
        values = one_record_requests(peer, scale) | produce(peer, scale) | fetch(peer, scale)
    finally:
        peer.stop()
    # Shares of the load keep the beginning by which the report knows them.
    return {
        f"load_share_tls_{key.removeprefix('load_share_')}"
        if key.startswith("load_share_")
        else f"tls_{key}": value
        for key, value in values.items()
        if key.startswith((*MEASURED, "load_share_"))
    }


def _peer(name: str, directory: Path) -> Peer:
    directory.mkdir(parents=True)
    authority = Authority.create("Benchmark", DAYS)
    ca, broker = directory / "ca.pem", directory / "broker.pem"
    ca.write_text(authority.identity.certificate)
    broker.write_text(authority.issue_broker("broker", (HOST,), DAYS).together)
    port = free_port()
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(broker)}
    listener = f"SSL://{HOST}:{port}"
    peer = _apache(directory, settings, listener) if name != "Moldau" else None
    peer = peer or _moldau(directory, settings, listener)
    peer.way_in = {"port": port, "ca": str(ca)}
    return peer


def _moldau(directory: Path, settings: dict[str, str], listener: str) -> Peer:
    broker = Moldau(directory / "broker")
    broker.settings |= settings | {"listeners": f"PLAINTEXT://{broker.bootstrap},{listener}"}
    return broker


def _apache(directory: Path, settings: dict[str, str], listener: str) -> Peer:
    broker = Apache(directory / "broker")
    with_listener(broker, listener)
    broker.settings |= settings
    broker.format()
    return broker


def with_listener(broker: Apache, listener: str) -> None:
    """One more, named by its protocol, for clients."""
    known = broker.properties()
    protocol = listener.partition(":")[0]
    broker.settings |= {
        "listeners": f"{known['listeners']},{listener}",
        "advertised.listeners": f"{known['advertised.listeners']},{listener}",
        "listener.security.protocol.map": known["listener.security.protocol.map"]
        + f",{protocol}:{protocol}",
        "inter.broker.listener.name": "PLAINTEXT",
    }
