"""The cluster as a whole: brokers, versions, features, the controllers' quorum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.client.admin.admin_requests import AdminRequests, check_top, operations, value_or_error
from moldau.client.admin.admin_results import (
    ApiVersionRange,
    ClusterDescription,
    FeatureMetadata,
    FeatureRange,
    Outcomes,
    QuorumInfo,
    QuorumReplica,
    UpgradeType,
    of_each,
)
from moldau.client.network.broker_connection import Connection
from moldau.client.network.network_client import Node
from moldau.client.shared.client_errors import UnsupportedVersionError, error_for
from moldau.model.errors import Error
from moldau.wire.messages.brokers import (
    FeatureUpdateKey,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from moldau.wire.messages.metadata import DescribeClusterRequest, MetadataRequest
from moldau.wire.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from moldau.wire.schema import Message

QUORUM_TOPIC = "__cluster_metadata"


class ClusterAdmin(AdminRequests):
    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout_ms: int | None = None,
    ) -> ClusterDescription:
        """Cluster id, brokers and controller.

        [f"{node.host}:{node.port}" for node in admin.describe_cluster().nodes]
        """
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        )
        try:
            response = await self._from_introduced(request, timeout_ms)
        except UnsupportedVersionError:
            return await self._describe_old(timeout_ms)
        nodes = [Node(row.broker_id, row.host, row.port, row.rack) for row in response.brokers]
        return ClusterDescription(
            response.cluster_id,
            next((node for node in nodes if node.id == response.controller_id), None),
            sorted(nodes),
            operations(response.cluster_authorized_operations),
        )

    async def api_versions(
        self, node_id: int | None = None, *, timeout_ms: int | None = None
    ) -> dict[int, ApiVersionRange]:
        """The requests that a broker serves, by API key, with their versions.

        admin.api_versions(0)[1].max_version    # of Fetch
        """
        connection = await self._connection(node_id, timeout_ms)
        return {
            key: ApiVersionRange(key, low, high)
            for key, (low, high) in sorted(connection.versions.items())
        }

    async def describe_features(
        self, node_id: int | None = None, *, timeout_ms: int | None = None
    ) -> FeatureMetadata:
        """Features in force and those that a broker supports."""
        # A connection's answer may be old: features change while it is open.
        connection = await self._connection(node_id, timeout_ms, is_fresh=True)
        answer = connection.api_versions
        assert answer is not None, "an open connection knows the broker's versions"
        return FeatureMetadata(
            {
                row.name: FeatureRange(row.min_version_level, row.max_version_level)
                for row in answer.finalized_features
            },
            {
                row.name: FeatureRange(row.min_version, row.max_version)
                for row in answer.supported_features
            },
            answer.finalized_features_epoch,
        )

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, None]:
        """Bring features to these levels; 0 switches one off.

        admin.update_features({"transaction.version": 2}).check()
        """
        request = UpdateFeaturesRequest(
            timeout_ms=self._limit_ms(timeout_ms),
            feature_updates=[
                FeatureUpdateKey(
                    feature=name,
                    max_version_level=level,
                    allow_downgrade=upgrade_type != UpgradeType.UPGRADE,
                    upgrade_type=upgrade_type,
                )
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )

        async def ask() -> Outcomes[str, None]:
            response = await self._from_controller(request, timeout_ms)
            # From version 2 on all features are updated or none, so only failure has rows.
            results: Outcomes[str, None] = dict(dict.fromkeys(levels))
            for row in response.results:
                results[row.feature] = value_or_error(row, None)
            return results

        return await of_each(levels, ask())

    async def unregister_broker(self, broker_id: int, *, timeout_ms: int | None = None) -> None:
        """Forget a broker that will not come back."""
        await self._from_any(UnregisterBrokerRequest(broker_id=broker_id), timeout_ms)

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumInfo:
        """Leader, voters and observers of the controllers' log, where the cluster has one."""
        request = DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequestTopic(
                    topic_name=QUORUM_TOPIC,
                    partitions=[DescribeQuorumRequestPartition(partition_index=0)],
                )
            ]
        )
        response = await self._from_any(request, timeout_ms)
        row = response.topics[0].partitions[0]
        found = value_or_error(
            row,
            QuorumInfo(
                row.leader_id,
                row.leader_epoch,
                row.high_watermark,
                [_replica(each) for each in row.current_voters],
                [_replica(each) for each in row.observers],
            ),
        )
        if isinstance(found, QuorumInfo):
            return found
        raise found

    async def _connection(
        self, node_id: int | None, timeout_ms: int | None, *, is_fresh: bool = False
    ) -> Connection:
        async def attempt() -> Connection:
            await self.cluster.refresh_brokers()
            wanted = self.cluster.brokers[0].id if node_id is None else node_id
            if is_fresh:
                await self.network.disconnect(wanted)
            return await self.network.connection(wanted)

        return await self._try(timeout_ms, attempt)

    async def _from_introduced(self, request: Message, timeout_ms: int | None) -> Any:
        """A broker that has just begun knows of none, not even of itself: it is asked again, or
        another is."""

        async def attempt() -> Any:
            response = check_top(await self.network.call_any(request, timeout_ms=timeout_ms))
            if not response.brokers:
                raise error_for(Error.NETWORK_EXCEPTION, "That broker knows of none yet")
            return response

        return await self._try(timeout_ms, attempt)

    async def _describe_old(self, timeout_ms: int | None) -> ClusterDescription:
        response = await self._from_introduced(MetadataRequest(topics=[]), timeout_ms)
        nodes = [Node(row.node_id, row.host, row.port, row.rack) for row in response.brokers]
        controller = next((node for node in nodes if node.id == response.controller_id), None)
        return ClusterDescription(response.cluster_id or "", controller, sorted(nodes))


def _replica(row: Any) -> QuorumReplica:
    return QuorumReplica(
        row.replica_id,
        row.replica_directory_id,
        row.log_end_offset,
        row.last_fetch_timestamp,
        row.last_caught_up_timestamp,
    )
