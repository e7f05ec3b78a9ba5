"""What both admins do: the subjects together, with the connections of one client.

`asyncio_admin.py` and `blocking_admin.py` are what users see. Here time-outs are milliseconds, and
calls on many things return `Outcomes`: a value or an error for each.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from moldau.client.admin.cluster_admin import ClusterAdmin
from moldau.client.admin.configs_admin import ConfigsAdmin
from moldau.client.admin.group_offsets_admin import GroupOffsetsAdmin
from moldau.client.admin.groups_admin import GroupsAdmin
from moldau.client.admin.offsets_admin import OffsetsAdmin
from moldau.client.admin.own.mirrors_admin import MirrorsAdmin
from moldau.client.admin.own.restores_admin import RestoresAdmin
from moldau.client.admin.own.snapshots_admin import SnapshotsAdmin
from moldau.client.admin.partitions_admin import PartitionsAdmin
from moldau.client.admin.quotas_admin import QuotasAdmin
from moldau.client.admin.security_admin import SecurityAdmin
from moldau.client.admin.tokens_admin import TokensAdmin
from moldau.client.admin.topics_admin import TopicsAdmin
from moldau.client.admin.transactions_admin import TransactionsAdmin
from moldau.client.network.cluster_metadata import Cluster
from moldau.client.network.network_client import Network, NetworkSettings
from moldau.config.client_settings.admin_settings import AdminConfig

log = logging.getLogger("moldau.client.admin")

CLIENT_ID = "moldau-admin"


class AdminCore(
    TopicsAdmin,
    ConfigsAdmin,
    OffsetsAdmin,
    GroupsAdmin,
    GroupOffsetsAdmin,
    TransactionsAdmin,
    PartitionsAdmin,
    ClusterAdmin,
    SecurityAdmin,
    QuotasAdmin,
    TokensAdmin,
    SnapshotsAdmin,
    RestoresAdmin,
    MirrorsAdmin,
):
    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self.config, warnings = AdminConfig.parse(config, **settings)
        for sentence in warnings:
            log.warning("%s", sentence)
        self.network = Network(
            self.config.bootstrap_servers,
            client_id=self.config.client_id or CLIENT_ID,
            settings=NetworkSettings.of(self.config, "admin.client"),
        )
        self.cluster = Cluster(self.network, metadata_max_age_ms=self.config.metadata_max_age_ms)

    async def close(self) -> None:
        """Close the connections; what is under way fails. A second time does nothing."""
        await self.network.close()
