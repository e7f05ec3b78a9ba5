"""The admin client: one method per administrative request, in two forms.

`AsyncAdmin` (as `moldau.aio.Admin`) runs on the caller's event loop. `Admin` (as `moldau.Admin`)
has the same methods, which block: they run on the background loop of the process. Calls on many
things return `Results`, see admin_results.py.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from moldau.client.admin_cluster import ClusterAdmin
from moldau.client.admin_configs import ConfigsAdmin
from moldau.client.admin_group_offsets import GroupOffsetsAdmin
from moldau.client.admin_groups import GroupsAdmin
from moldau.client.admin_offsets import OffsetsAdmin
from moldau.client.admin_partitions import PartitionsAdmin
from moldau.client.admin_quotas import QuotasAdmin
from moldau.client.admin_security import SecurityAdmin
from moldau.client.admin_tokens import TokensAdmin
from moldau.client.admin_topics import TopicsAdmin
from moldau.client.admin_transactions import TransactionsAdmin
from moldau.client.cluster import Cluster
from moldau.client.loop_thread import blocking, is_inherited, run
from moldau.client.network import Network, NetworkSettings
from moldau.config.client_admin import AdminConfig

log = logging.getLogger("moldau.client.admin")

CLIENT_ID = "moldau-admin"


class AsyncAdmin(
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
):
    """Administers a cluster from asyncio code.

        async with aio.Admin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics([NewTopic("orders", partitions=3)])

    Settings are Kafka's keys, in a mapping or as keywords with underscores. It belongs to the
    event loop that first uses it."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self.config, warnings = AdminConfig.parse(config, **settings)
        for sentence in warnings:
            log.warning("%s", sentence)
        self.network = Network(
            self.config.bootstrap_servers,
            client_id=self.config.client_id or CLIENT_ID,
            settings=NetworkSettings.of(self.config),
        )
        self.cluster = Cluster(self.network, metadata_max_age_ms=self.config.metadata_max_age_ms)

    async def close(self) -> None:
        """Close the connections; what is under way fails. A second time does nothing."""
        await self.network.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class Admin:
    """Administers a cluster; every call blocks until it is done.

        with Admin(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics([NewTopic("orders", partitions=3)]).check()

    Settings are Kafka's keys, in a mapping or as keywords with underscores. Threads may share
    one."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._twin = AsyncAdmin(config, **settings)

    create_topics = blocking(AsyncAdmin.create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topics = blocking(AsyncAdmin.describe_topics)
    create_partitions = blocking(AsyncAdmin.create_partitions)

    describe_configs = blocking(AsyncAdmin.describe_configs)
    incremental_alter_configs = blocking(AsyncAdmin.incremental_alter_configs)
    alter_configs = blocking(AsyncAdmin.alter_configs)
    list_config_resources = blocking(AsyncAdmin.list_config_resources)

    list_offsets = blocking(AsyncAdmin.list_offsets)
    delete_records = blocking(AsyncAdmin.delete_records)

    list_groups = blocking(AsyncAdmin.list_groups)
    describe_groups = blocking(AsyncAdmin.describe_groups)
    delete_groups = blocking(AsyncAdmin.delete_groups)
    remove_members_from_group = blocking(AsyncAdmin.remove_members_from_group)
    list_group_offsets = blocking(AsyncAdmin.list_group_offsets)
    alter_group_offsets = blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = blocking(AsyncAdmin.delete_group_offsets)

    describe_producers = blocking(AsyncAdmin.describe_producers)
    describe_transactions = blocking(AsyncAdmin.describe_transactions)
    list_transactions = blocking(AsyncAdmin.list_transactions)
    abort_transaction = blocking(AsyncAdmin.abort_transaction)
    fence_producers = blocking(AsyncAdmin.fence_producers)
    force_terminate_transaction = blocking(AsyncAdmin.force_terminate_transaction)

    elect_leaders = blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = blocking(AsyncAdmin.list_partition_reassignments)
    describe_log_dirs = blocking(AsyncAdmin.describe_log_dirs)
    alter_replica_log_dirs = blocking(AsyncAdmin.alter_replica_log_dirs)

    describe_cluster = blocking(AsyncAdmin.describe_cluster)
    api_versions = blocking(AsyncAdmin.api_versions)
    describe_features = blocking(AsyncAdmin.describe_features)
    update_features = blocking(AsyncAdmin.update_features)
    unregister_broker = blocking(AsyncAdmin.unregister_broker)
    describe_metadata_quorum = blocking(AsyncAdmin.describe_metadata_quorum)

    describe_acls = blocking(AsyncAdmin.describe_acls)
    create_acls = blocking(AsyncAdmin.create_acls)
    delete_acls = blocking(AsyncAdmin.delete_acls)
    describe_user_scram_credentials = blocking(AsyncAdmin.describe_user_scram_credentials)
    upsert_user_scram_credential = blocking(AsyncAdmin.upsert_user_scram_credential)
    delete_user_scram_credential = blocking(AsyncAdmin.delete_user_scram_credential)
    describe_client_quotas = blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = blocking(AsyncAdmin.alter_client_quotas)

    create_delegation_token = blocking(AsyncAdmin.create_delegation_token)
    renew_delegation_token = blocking(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = blocking(AsyncAdmin.expire_delegation_token)
    describe_delegation_tokens = blocking(AsyncAdmin.describe_delegation_tokens)

    def close(self) -> None:
        """Close the connections; a second time does nothing."""
        if not is_inherited(self._twin):
            run(self._twin.close(), self._twin)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
