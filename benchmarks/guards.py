"""What access control costs: a log-in by SCRAM, an authorizer with lists, quotas; without TLS.

Two brokers of a kind stand side by side, one open and one with all locks; a load takes turns
between them in short slices, so that whatever else the machine does meets both.
"""

from __future__ import annotations

from pathlib import Path

import moldau
from benchmarks.brokers import PEERS, Apache, Moldau, Peer
from benchmarks.control import wait_for_first_ack
from benchmarks.doors import HOST
from benchmarks.measures import BATCH_SIZES, Scale, Values, records_per_batch, run_load, warm_up
from benchmarks.tls import with_listener
from moldau.admin import Acl, AclOperation, AclResourceType, PatternType
from moldau.testing.broker_process import free_port

USER, PASSWORD = "load", "of the benchmark"
TOPICS = "guarded-"
FAR_BEYOND = 1e12
"""A quota that everything is counted against and nobody reaches."""
OTHERS = 50
"""Access control lists, and quotas, of somebody else."""
AUTHORIZERS = {
    "Moldau": "kafka.security.authorizer.AclAuthorizer",
    "Apache Kafka": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}


def take(name: str, scale: Scale, directory: Path) -> Values:
    directory.mkdir(parents=True)
    is_launched = []
    try:
        is_open = PEERS[name](directory / "open")
        locked = _locked(name, directory)
        for peer in (is_open, locked):
            peer.launch()
            is_launched.append(peer)
            wait_for_first_ack(peer.port)
        _lock(locked)
        for peer in (is_open, locked):
            warm_up(peer, scale)
        return run_load(
            "guards_load",
            open_port=is_open.port,
            locked_port=locked.port,
            door=locked.way_in,
            topics=TOPICS,
            record_count=records_per_batch(BATCH_SIZES["16k"]),
            slices=2 * scale.transaction_slices + 1,
            slice_seconds=scale.transaction_slice_seconds,
        )
    finally:
        for peer in is_launched:
            peer.stop()


def _locked(name: str, directory: Path) -> Peer:
    port = free_port()
    listener = f"SASL_PLAINTEXT://{HOST}:{port}"
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": AUTHORIZERS[name],
        # Who comes in without a lock is the benchmark itself.
        "super.users": "User:ANONYMOUS",
    }
    peer: Moldau | Apache
    if name == "Moldau":
        peer = Moldau(directory / "locked")
        peer.settings |= settings | {"listeners": f"PLAINTEXT://{peer.bootstrap},{listener}"}
    else:
        peer = Apache(directory / "locked")
        with_listener(peer, listener)
        peer.settings |= settings
        peer.format()
    peer.way_in = {"port": port, "user": USER, "password": PASSWORD}
    return peer


def _lock(peer: Peer) -> None:
    """A user who may write these topics and has quotas, among others."""
    everything = dict.fromkeys(
        ("producer_byte_rate", "consumer_byte_rate", "request_percentage"), FAR_BEYOND
    )
    others = [f"somebody-{number}" for number in range(OTHERS)]
    with moldau.Admin({"bootstrap.servers": f"{HOST}:{peer.port}"}) as admin:
        admin.upsert_user_scram_credential(USER, PASSWORD)
        admin.create_acls(
            [
                *(
                    Acl(f"User:{user}", AclResourceType.TOPIC, f"of-{user}", AclOperation.WRITE)
                    for user in others
                ),
                *(
                    Acl(
                        f"User:{USER}",
                        AclResourceType.TOPIC,
                        topics,
                        AclOperation.WRITE,
                        pattern_type=PatternType.PREFIXED,
                    )
                    for topics in (TOPICS, "warm-up")
                ),
            ]
        )
        admin.alter_client_quotas({(("user", user),): everything for user in (USER, *others)})
