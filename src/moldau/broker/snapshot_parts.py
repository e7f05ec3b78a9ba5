"""What snapshots of a broker that stands alone are taken from. Loaded when somebody wants one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau import __version__
from moldau.config.broker_config import BrokerConfig
from moldau.handlers.services import Services
from moldau.metadata.embedded import FILE_NAME, EmbeddedStore
from moldau.replication.replicas import Replicas
from moldau.storage.directories.log_store import LogStore

if TYPE_CHECKING:
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
        self, logs: LogStore, replicas: Replicas, metadata: EmbeddedStore, services: Services
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._metadata = metadata
        self._services = services
        self._snapshots: Snapshots | None = None

    def __call__(self) -> Snapshots:
        if self._snapshots is None:
            from moldau.storage.snapshots.snapshot_taking import Snapshots

            self._snapshots = Snapshots(
                self._logs,
                high_watermarks=self._replicas.high_watermarks,
                metadata=lambda: (FILE_NAME, self._metadata.frozen()),
                settings=lambda: settings_of_forks(self._services.config),
                node_id=self._services.node_id,
                software=__version__,
            )
        return self._snapshots


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
