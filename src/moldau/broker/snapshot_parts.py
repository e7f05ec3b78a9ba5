"""What snapshots of a broker, or of a cluster, are taken from. Loaded when somebody wants one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau import __version__
from moldau.config.broker_config import BrokerConfig
from moldau.handlers.services import Services
from moldau.metadata.embedded import FILE_NAME, EmbeddedStore
from moldau.model.names import TopicPartition
from moldau.replication.replicas import Replicas
from moldau.storage.directories.log_store import LogStore

if TYPE_CHECKING:
    from moldau.broker.cluster_parts import ClusterParts
    from moldau.net.holding.outgoing_hold import OutgoingHold
    from moldau.storage.snapshots.snapshot_taking import Snapshots

NOT_A_FORKS: tuple[str, ...] = (
    "advertised.",
    "allow.everyone.if.no.acl.found",
    "authorizer.",
    "broker.id",
    "console.",
    "control.plane.",
    "controller.",
    "delegation.",
    "inter.broker.",
    "listener.",
    "listeners",
    "log.dir",
    "metrics.",
    "node.id",
    "password.",
    "principal.",
    "process.roles",
    "sasl.",
    "security.",
    "ssl.",
    "super.users",
    "zookeeper.",
)
"""Where a broker is, who it is and how it is locked: a fork is somebody else, somewhere else."""


class SnapshotParts:
    def __init__(
        self,
        logs: LogStore,
        replicas: Replicas,
        metadata: EmbeddedStore | None,
        services: Services,
    ) -> None:
        """`metadata` is None in a cluster."""
        self._logs = logs
        self._replicas = replicas
        self._metadata = metadata
        self._services = services
        self._snapshots: Snapshots | None = None

    def __call__(self) -> Snapshots:
        if self._snapshots is None:
            from moldau.storage.snapshots.snapshot_taking import Snapshots

            store = self._metadata
            self._snapshots = Snapshots(
                self._logs,
                high_watermarks=self._replicas.high_watermarks,
                metadata=None if store is None else lambda: (FILE_NAME, store.frozen()),
                settings=lambda: settings_of_forks(self._services.config),
                node_id=self._services.node_id,
                software=__version__,
            )
        return self._snapshots


def add_cluster_snapshots(
    services: Services, logs: LogStore, cluster: ClusterParts, hold: OutgoingHold
) -> None:
    """What makes snapshots of a cluster, and this broker's part in them."""
    from moldau.cluster.snapshots.cluster_snapshots import ClusterSnapshots
    from moldau.cluster.snapshots.snapshot_part import SnapshotPart

    member, replicas = cluster.member, services.replicas
    member.hold_by(hold)

    def led() -> dict[TopicPartition, int]:
        partitions = (replica.partition for replica in replicas)
        return {each.topic_partition: each.leader_epoch for each in partitions if each.is_leader}

    part = SnapshotPart(SnapshotParts(logs, replicas, None, services), led, hold)
    services.cluster_snapshots = ClusterSnapshots(
        member.node_id, part, cluster.store, member.peers, lambda: member.image.brokers
    )


def settings_of_forks(config: BrokerConfig) -> tuple[Mapping[str, str], bool]:
    """What was set on purpose and is neither an address nor a secret; whether there was a lock."""
    rows = BrokerConfig.rows
    settings = {
        key: text
        for key, text in sorted(config.given.items())
        if key in rows and not rows[key].is_sensitive and not key.startswith(NOT_A_FORKS)
    }
    protocols = {each.security_protocol for each in config.bound_endpoints}
    return settings, protocols != {"PLAINTEXT"} or bool(config.authorizer_class_name)
