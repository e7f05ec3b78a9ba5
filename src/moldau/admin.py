"""What `moldau.Admin` and `moldau.aio.Admin` ask with and get back: plain data, in Kafka's words.

    from moldau.admin import Admin, NewTopic

Calls on many things give `Results`.
"""

from __future__ import annotations

from moldau.client.admin.admin_results import (
    AlterConfig,
    AlterOperation,
    ApiVersionRange,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    CreatedTopic,
    ElectionType,
    FeatureMetadata,
    FeatureRange,
    ListedOffset,
    LogDirDescription,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionReassignment,
    QuorumInfo,
    QuorumReplica,
    ReplicaInfo,
    ResourceType,
    Results,
    TopicDescription,
    TopicListing,
    TopicPartitionInfo,
    TopicPartitionReplica,
    UpgradeType,
)
from moldau.client.admin.blocking_admin import Admin
from moldau.client.admin.group_admin_results import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from moldau.client.admin.group_offsets_admin import GroupOffsets
from moldau.client.admin.own.snapshots_admin import SnapshotInfo
from moldau.client.admin.quotas_admin import Entity, QuotaFilter, QuotaMatch
from moldau.client.admin.security_admin import (
    Acl,
    AclFilter,
    ScramCredential,
    ScramMechanism,
)
from moldau.client.admin.tokens_admin import DelegationToken
from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.client.network.network_client import Node
from moldau.model.names import TopicPartition
from moldau.security.acl.acl_model import Operation as AclOperation
from moldau.security.acl.acl_model import PatternType, Permission
from moldau.security.acl.acl_model import ResourceType as AclResourceType

__all__ = [
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclResourceType",
    "Admin",
    "AlterConfig",
    "AlterOperation",
    "ApiVersionRange",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "Entity",
    "FeatureMetadata",
    "FeatureRange",
    "GroupDescription",
    "GroupListing",
    "GroupOffsets",
    "ListedOffset",
    "LogDirDescription",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetSpec",
    "PartitionReassignment",
    "PatternType",
    "Permission",
    "ProducerIdAndEpoch",
    "ProducerState",
    "QuorumInfo",
    "QuorumReplica",
    "QuotaFilter",
    "QuotaMatch",
    "ReplicaInfo",
    "ResourceType",
    "Results",
    "ScramCredential",
    "ScramMechanism",
    "SnapshotInfo",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TopicPartitionInfo",
    "TopicPartitionReplica",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
]
