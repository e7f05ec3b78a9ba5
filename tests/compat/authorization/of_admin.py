"""Requests about the cluster: settings, lists, users, tokens, quotas, directories."""

from __future__ import annotations

from moldau.security.acl.acl_model import Operation, PatternType, Permission, ResourceType
from moldau.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from moldau.wire.messages.brokers import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from moldau.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from moldau.wire.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from moldau.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from moldau.wire.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from moldau.wire.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from moldau.wire.messages.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from tests.compat.authorization.words import (
    GROUP,
    MINE,
    Ask,
    Grants,
    Request,
    Right,
    cluster,
    each,
    group,
    on_topics,
)

TOPIC_SETTINGS, BROKER_SETTINGS, LOGGERS, METRICS, GROUP_SETTINGS = 2, 4, 8, 16, 32
BROKER = "1"
KEY, VALUE = "retention.ms", "70000"
ANY = 1
NOWHERE = "/nowhere"
METADATA_TOPIC = "__cluster_metadata"
OWNER = Right(ResourceType.USER, "User:root", Operation.CREATE_TOKENS)
SEES_TOKENS = Right(ResourceType.USER, "User:root", Operation.DESCRIBE_TOKENS)


def resources(ask: Ask) -> list[tuple[int, str]]:
    return [
        (TOPIC_SETTINGS, ask.topic),
        (TOPIC_SETTINGS, MINE),
        (BROKER_SETTINGS, BROKER),
        (LOGGERS, BROKER),
        (GROUP_SETTINGS, GROUP),
    ]


def describe_configs(ask: Ask) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)  # type: ignore[arg-type]
            for kind, name in resources(ask)
        ]
    )


def alter_configs(ask: Ask) -> AlterConfigsRequest:
    rows = [
        AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(name=KEY, value=VALUE)] if kind == TOPIC_SETTINGS else [],
        )
        for kind, name in resources(ask)
        if kind != LOGGERS
    ]
    return AlterConfigsRequest(resources=rows, validate_only=True)


def alter_some_configs(ask: Ask) -> IncrementalAlterConfigsRequest:
    rows = [
        IncrementalAlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[IncrementalAlterableConfig(name=KEY, value=VALUE)]
            if kind == TOPIC_SETTINGS
            else [],
        )
        for kind, name in resources(ask)
    ]
    return IncrementalAlterConfigsRequest(resources=rows, validate_only=True)


def describe_lists(ask: Ask) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter="listed",
        pattern_type_filter=ANY,
        principal_filter=None,  # type: ignore[arg-type]
        host_filter=None,  # type: ignore[arg-type]
        operation=ANY,
        permission_type=ANY,
    )


def create_lists(ask: Ask) -> CreateAclsRequest:
    rows = [
        AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name=f"listed-{ask.own}",
            resource_pattern_type=PatternType.LITERAL,
            principal="User:somebody",
            host="*",
            operation=operation,
            permission_type=Permission.ALLOW,
        )
        for operation in (Operation.READ, Operation.CLUSTER_ACTION)
    ]
    return CreateAclsRequest(creations=rows)


def delete_lists(ask: Ask) -> DeleteAclsRequest:
    rows = [
        DeleteAclsFilter(
            resource_type_filter=ANY,
            resource_name_filter=name,
            pattern_type_filter=ANY,
            principal_filter=None,  # type: ignore[arg-type]
            host_filter=None,  # type: ignore[arg-type]
            operation=ANY,
            permission_type=ANY,
        )
        for name in ("never-listed", "nor-this")
    ]
    return DeleteAclsRequest(filters=rows)


def move(ask: Ask) -> AlterReplicaLogDirsRequest:
    rows = [AlterReplicaLogDirTopic(name=name, partitions=[0, 1]) for name in (ask.topic, MINE)]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=NOWHERE, topics=rows)])


def log_dirs(ask: Ask) -> DescribeLogDirsRequest:
    rows = [DescribableLogDirTopic(topic=name, partitions=[0]) for name in (ask.topic, MINE)]
    return DescribeLogDirsRequest(topics=rows)


def elect(ask: Ask) -> ElectLeadersRequest:
    rows = [TopicPartitions(topic=name, partitions=[0]) for name in (ask.topic, MINE)]
    return ElectLeadersRequest(topic_partitions=rows)


def reassign(ask: Ask) -> AlterPartitionReassignmentsRequest:
    rows = [
        ReassignableTopic(
            name=name, partitions=[ReassignablePartition(partition_index=0, replicas=[99])]
        )
        for name in (ask.topic, MINE)
    ]
    return AlterPartitionReassignmentsRequest(topics=rows)


def reassignments(ask: Ask) -> ListPartitionReassignmentsRequest:
    rows = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=[0])
        for name in (ask.topic, MINE)
    ]
    return ListPartitionReassignmentsRequest(topics=rows)


def quorum(ask: Ask) -> DescribeQuorumRequest:
    rows = [
        DescribeQuorumRequestTopic(
            topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartition()]
        )
    ]
    return DescribeQuorumRequest(topics=rows)


def alter_users(ask: Ask) -> AlterUserScramCredentialsRequest:
    upsertion = ScramCredentialUpsertion(
        name=f"new-{ask.own}",
        mechanism=1,
        iterations=4096,
        salt=b"salt",
        salted_password=b"0" * 32,
    )
    return AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="nobody", mechanism=1)], upsertions=[upsertion]
    )


def alter_quotas(ask: Ask) -> AlterClientQuotasRequest:
    rows = [
        AlterClientQuotasRequestEntry(
            entity=[EntityData(entity_type="user", entity_name=name)],
            ops=[OpData(key="producer_byte_rate", value=1e9)],
        )
        for name in ("somebody", "else")
    ]
    return AlterClientQuotasRequest(entries=rows, validate_only=True)


def update_features(ask: Ask) -> UpdateFeaturesRequest:
    row = FeatureUpdateKey(feature="nothing.version", max_version_level=1)
    return UpdateFeaturesRequest(feature_updates=[row], validate_only=True)


def settings_rights(operation: Operation) -> tuple[Grants, ...]:
    return (*on_topics(operation), (cluster(operation),), (group(operation),))


DESCRIBE, ALTER = Operation.DESCRIBE, Operation.ALTER
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
SEES, CHANGES = each(cluster(DESCRIBE)), each(cluster(ALTER))

REQUESTS = (
    Request(29, "describe-lists", describe_lists, SEES, names_a_topic=False),
    Request(30, "create-lists", create_lists, CHANGES, names_a_topic=False),
    Request(31, "delete-lists", delete_lists, CHANGES, names_a_topic=False),
    Request(32, "describe-configs", describe_configs, settings_rights(DESCRIBE_CONFIGS)),
    Request(33, "alter-configs", alter_configs, settings_rights(ALTER_CONFIGS)),
    Request(44, "alter-some-configs", alter_some_configs, settings_rights(ALTER_CONFIGS)),
    Request(34, "move-replicas", move, CHANGES),
    Request(35, "log-dirs", log_dirs, SEES),
    Request(
        38,
        "create-token",
        lambda ask: CreateDelegationTokenRequest(max_lifetime_ms=-1),
        names_a_topic=False,
    ),
    Request(
        38,
        "create-anothers-token",
        lambda ask: CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="root", max_lifetime_ms=-1
        ),
        each(OWNER),
        first=3,
        names_a_topic=False,
    ),
    Request(
        39,
        "renew-token",
        lambda ask: RenewDelegationTokenRequest(hmac=ask.world.token, renew_period_ms=-1),
        names_a_topic=False,
    ),
    Request(
        40,
        "expire-token",
        lambda ask: ExpireDelegationTokenRequest(hmac=ask.world.token, expiry_time_period_ms=10),
        names_a_topic=False,
    ),
    Request(
        41,
        "describe-tokens",
        lambda ask: DescribeDelegationTokenRequest(owners=None),
        each(SEES_TOKENS),
        names_a_topic=False,
        settles=True,
    ),
    Request(43, "elect", elect, CHANGES),
    Request(45, "reassign", reassign, CHANGES),
    Request(46, "reassignments", reassignments, SEES),
    Request(
        48,
        "describe-quotas",
        lambda ask: DescribeClientQuotasRequest(),
        each(cluster(DESCRIBE_CONFIGS)),
        names_a_topic=False,
    ),
    Request(49, "alter-quotas", alter_quotas, each(cluster(ALTER_CONFIGS)), names_a_topic=False),
    Request(
        50,
        "describe-users",
        lambda ask: DescribeUserScramCredentialsRequest(),
        SEES,
        names_a_topic=False,
    ),
    Request(
        50,
        "describe-some-users",
        lambda ask: DescribeUserScramCredentialsRequest(
            users=[UserName(name=name) for name in ("nobody", "else")]
        ),
        SEES,
        names_a_topic=False,
    ),
    Request(51, "alter-users", alter_users, CHANGES, names_a_topic=False),
    Request(55, "quorum", quorum, SEES, names_a_topic=False),
    Request(57, "features", update_features, CHANGES, names_a_topic=False),
    Request(
        74,
        "config-resources",
        lambda ask: ListConfigResourcesRequest(),
        each(cluster(DESCRIBE_CONFIGS)),
        names_a_topic=False,
    ),
)
