"""The table of APIs: key, name, family of messages, versions declared, first flexible version.

The range is what can be encoded and decoded, which is more than a broker serves: routes say that.
Families are imported when the first message of one is needed, so a start pays only for what it
uses. A test holds the table and the declarations together.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

from moldau.wire.schema import Message


class Api(NamedTuple):
    key: int
    name: str
    family: str
    version_min: int
    version_max: int
    flexible_from: int | None

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


APIS: tuple[Api, ...] = (
    Api(0, "Produce", "produce", 0, 13, 9),
    Api(1, "Fetch", "fetch", 0, 18, 12),
    Api(2, "ListOffsets", "offsets", 0, 11, 6),
    Api(3, "Metadata", "metadata", 0, 13, 9),
    Api(4, "LeaderAndIsr", "replication", 0, 7, 4),
    Api(5, "StopReplica", "replication", 0, 4, 2),
    Api(6, "UpdateMetadata", "replication", 0, 8, 6),
    Api(7, "ControlledShutdown", "replication", 0, 3, 3),
    Api(8, "OffsetCommit", "group_offsets", 0, 10, 8),
    Api(9, "OffsetFetch", "group_offsets", 0, 10, 6),
    Api(10, "FindCoordinator", "groups", 0, 6, 3),
    Api(11, "JoinGroup", "groups", 0, 9, 6),
    Api(12, "Heartbeat", "groups", 0, 4, 4),
    Api(13, "LeaveGroup", "groups", 0, 5, 4),
    Api(14, "SyncGroup", "groups", 0, 5, 4),
    Api(15, "DescribeGroups", "group_admin", 0, 6, 5),
    Api(16, "ListGroups", "group_admin", 0, 5, 3),
    Api(17, "SaslHandshake", "sasl", 0, 1, None),
    Api(18, "ApiVersions", "api_versions", 0, 4, 3),
    Api(19, "CreateTopics", "topics", 0, 7, 5),
    Api(20, "DeleteTopics", "topics", 0, 6, 4),
    Api(21, "DeleteRecords", "topics", 0, 2, 2),
    Api(22, "InitProducerId", "transactions", 0, 6, 2),
    Api(23, "OffsetForLeaderEpoch", "offsets", 0, 4, 4),
    Api(24, "AddPartitionsToTxn", "transactions", 0, 5, 3),
    Api(25, "AddOffsetsToTxn", "transactions", 0, 4, 3),
    Api(26, "EndTxn", "transactions", 0, 5, 3),
    Api(27, "WriteTxnMarkers", "transactions", 0, 2, 1),
    Api(28, "TxnOffsetCommit", "transactions", 0, 5, 3),
    Api(29, "DescribeAcls", "acls", 0, 3, 2),
    Api(30, "CreateAcls", "acls", 0, 3, 2),
    Api(31, "DeleteAcls", "acls", 0, 3, 2),
    Api(32, "DescribeConfigs", "configs", 0, 4, 4),
    Api(33, "AlterConfigs", "configs", 0, 2, 2),
    Api(34, "AlterReplicaLogDirs", "log_dirs", 0, 2, 2),
    Api(35, "DescribeLogDirs", "log_dirs", 0, 5, 2),
    Api(36, "SaslAuthenticate", "sasl", 0, 2, 2),
    Api(37, "CreatePartitions", "topics", 0, 3, 2),
    Api(38, "CreateDelegationToken", "delegation_tokens", 0, 3, 2),
    Api(39, "RenewDelegationToken", "delegation_tokens", 0, 2, 2),
    Api(40, "ExpireDelegationToken", "delegation_tokens", 0, 2, 2),
    Api(41, "DescribeDelegationToken", "delegation_tokens", 0, 3, 2),
    Api(42, "DeleteGroups", "group_admin", 0, 2, 2),
    Api(43, "ElectLeaders", "partitions", 0, 2, 2),
    Api(44, "IncrementalAlterConfigs", "configs", 0, 1, 1),
    Api(45, "AlterPartitionReassignments", "partitions", 0, 1, 0),
    Api(46, "ListPartitionReassignments", "partitions", 0, 0, 0),
    Api(47, "OffsetDelete", "group_offsets", 0, 0, None),
    Api(48, "DescribeClientQuotas", "quotas", 0, 1, 1),
    Api(49, "AlterClientQuotas", "quotas", 0, 1, 1),
    Api(50, "DescribeUserScramCredentials", "scram", 0, 0, 0),
    Api(51, "AlterUserScramCredentials", "scram", 0, 0, 0),
    Api(52, "Vote", "quorum", 0, 2, 0),
    Api(53, "BeginQuorumEpoch", "quorum", 0, 1, 1),
    Api(54, "EndQuorumEpoch", "quorum", 0, 1, 1),
    Api(55, "DescribeQuorum", "quorum", 0, 2, 0),
    Api(56, "AlterPartition", "partitions", 0, 3, 0),
    Api(57, "UpdateFeatures", "brokers", 0, 2, 0),
    Api(58, "Envelope", "brokers", 0, 0, 0),
    Api(59, "FetchSnapshot", "quorum", 0, 1, 0),
    Api(60, "DescribeCluster", "metadata", 0, 2, 0),
    Api(61, "DescribeProducers", "transaction_admin", 0, 0, 0),
    Api(62, "BrokerRegistration", "brokers", 0, 4, 0),
    Api(63, "BrokerHeartbeat", "brokers", 0, 2, 0),
    Api(64, "UnregisterBroker", "brokers", 0, 0, 0),
    Api(65, "DescribeTransactions", "transaction_admin", 0, 0, 0),
    Api(66, "ListTransactions", "transaction_admin", 0, 2, 0),
    Api(67, "AllocateProducerIds", "brokers", 0, 0, 0),
    Api(68, "ConsumerGroupHeartbeat", "consumer_groups", 0, 1, 0),
    Api(69, "ConsumerGroupDescribe", "consumer_groups", 0, 1, 0),
    Api(70, "ControllerRegistration", "brokers", 0, 0, 0),
    Api(71, "GetTelemetrySubscriptions", "telemetry", 0, 0, 0),
    Api(72, "PushTelemetry", "telemetry", 0, 0, 0),
    Api(73, "AssignReplicasToDirs", "partitions", 0, 0, 0),
    Api(74, "ListConfigResources", "configs", 0, 1, 0),
    Api(75, "DescribeTopicPartitions", "metadata", 0, 0, 0),
    Api(76, "ShareGroupHeartbeat", "share_groups", 1, 1, 0),
    Api(77, "ShareGroupDescribe", "share_groups", 1, 1, 0),
    Api(78, "ShareFetch", "share_fetch", 1, 2, 0),
    Api(79, "ShareAcknowledge", "share_fetch", 1, 2, 0),
    Api(80, "AddRaftVoter", "voters", 0, 1, 0),
    Api(81, "RemoveRaftVoter", "voters", 0, 0, 0),
    Api(82, "UpdateRaftVoter", "voters", 0, 0, 0),
    Api(83, "InitializeShareGroupState", "share_state", 0, 0, 0),
    Api(84, "ReadShareGroupState", "share_state", 0, 0, 0),
    Api(85, "WriteShareGroupState", "share_state", 0, 1, 0),
    Api(86, "DeleteShareGroupState", "share_state", 0, 0, 0),
    Api(87, "ReadShareGroupStateSummary", "share_state", 0, 1, 0),
    Api(88, "StreamsGroupHeartbeat", "streams_groups", 0, 0, 0),
    Api(89, "StreamsGroupDescribe", "streams_groups", 0, 0, 0),
    Api(90, "DescribeShareGroupOffsets", "share_groups", 0, 1, 0),
    Api(91, "AlterShareGroupOffsets", "share_groups", 0, 0, 0),
    Api(92, "DeleteShareGroupOffsets", "share_groups", 0, 0, 0),
    # Moldau's own
    Api(20000, "CreateSnapshot", "snapshots", 0, 0, 0),
    Api(20001, "DescribeSnapshots", "snapshots", 0, 0, 0),
    Api(20002, "DeleteSnapshot", "snapshots", 0, 0, 0),
    Api(20003, "TakeSnapshotPart", "snapshots", 0, 0, 0),
    Api(20010, "BeginRestore", "restores", 0, 0, 0),
    Api(20011, "AppendRestored", "restores", 0, 0, 0),
    Api(20012, "EndRestore", "restores", 0, 0, 0),
    Api(20020, "BeginMirrors", "mirrors", 0, 0, 0),
    Api(20021, "AppendMirrored", "mirrors", 0, 0, 0),
    Api(20022, "DescribeMirrors", "mirrors", 0, 0, 0),
    Api(20023, "RaiseMirrorEpochs", "mirrors", 0, 0, 0),
    Api(20024, "PromoteMirror", "mirrors", 0, 0, 0),
    Api(20025, "DemoteToMirror", "mirrors", 0, 0, 0),
)

OWN_FROM = 20000
"""The first key of Moldau's own: no Kafka client needs to hear of these."""

OLD_VERSIONS: Final = {
    0: 2, 1: 3, 2: 0, 8: 1, 9: 0, 11: 1, 19: 1, 20: 0, 23: 1, 29: 0,
    30: 0, 31: 0, 32: 0, 34: 0, 35: 0, 38: 0, 39: 0, 40: 0, 41: 0,
}  # fmt: skip
"""By key the last version that Apache Kafka 3.9 calls deprecated; 4.0 refuses most of them."""

_BY_KEY = {row.key: row for row in APIS}
_REQUESTS: dict[int, type[Message]] = {}
_RESPONSES: dict[int, type[Message]] = {}


def api(key: int) -> Api | None:
    return _BY_KEY.get(key)


def is_old(key: int, version: int) -> bool:
    """Whether a broker of a later release may not understand it."""
    return version <= OLD_VERSIONS.get(key, -1)


def request_class(key: int) -> type[Message]:
    found = _REQUESTS.get(key)
    if found is None:
        found = _REQUESTS[key] = _message(_BY_KEY[key], "Request")
    return found


def response_class(key: int) -> type[Message]:
    found = _RESPONSES.get(key)
    if found is None:
        found = _RESPONSES[key] = _message(_BY_KEY[key], "Response")
    return found


def _message(row: Api, direction: str) -> type[Message]:
    family = import_module(f"moldau.wire.messages.{row.family}")
    found: type[Message] = getattr(family, row.name + direction)
    return found
