"""What requests about settings, log directories, lists and users need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.config.config_changes import ResourceType as ConfigType
from moldau.handlers.access.row_guards import ERRORS, Judge, cluster_or, may, may_with_cluster, rows
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Handler
from moldau.model.errors import ApiError, Error
from moldau.security.acl.acl_model import CLUSTER_NAME, Operation, ResourceType
from moldau.wire.messages import acls, configs, log_dirs, quorum, quotas, scram

if TYPE_CHECKING:
    from moldau.handlers.services import Services

ERRORS_SINCE = 3
DENIED = Error.CLUSTER_AUTHORIZATION_FAILED
OWN_RESOURCES = {
    int(ConfigType.TOPIC): ResourceType.TOPIC,
    int(ConfigType.GROUP): ResourceType.GROUP,
}
"""Settings of everything else are the cluster's."""


def _config_judge(operation: Operation) -> Judge:
    def judge(row: Any, request: Any, ctx: RequestContext, on: Services) -> Error | None:
        kind = OWN_RESOURCES.get(row.resource_type, ResourceType.CLUSTER)
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else row.resource_name
        return None if may(ctx, on, operation, kind, name) else ERRORS[kind]

    return judge


def _not_altered(row: Any, error: Error) -> configs.AlterConfigsResourceResponse:
    is_logger = row.resource_type == ConfigType.BROKER_LOGGER
    return configs.AlterConfigsResourceResponse(
        error_code=error,
        error_message=None if is_logger else error.sentence,
        resource_type=row.resource_type,
        resource_name=row.resource_name,
    )


guard_describe_configs = rows(
    "resources",
    "results",
    _config_judge(Operation.DESCRIBE_CONFIGS),
    lambda row, error: configs.DescribeConfigsResult(
        error_code=error,
        error_message=error.sentence,
        resource_type=row.resource_type,
        resource_name=row.resource_name,
    ),
)
guard_alter_configs = rows(
    "resources", "responses", _config_judge(Operation.ALTER_CONFIGS), _not_altered
)


guard_create_acls = cluster_or(
    Operation.ALTER,
    lambda request, text: acls.CreateAclsResponse(
        results=[
            acls.AclCreationResult(error_code=DENIED, error_message=text) for _ in request.creations
        ]
    ),
)
guard_delete_acls = cluster_or(
    Operation.ALTER,
    lambda request, text: acls.DeleteAclsResponse(
        filter_results=[
            acls.DeleteAclsFilterResult(error_code=DENIED, error_message=text)
            for _ in request.filters
        ]
    ),
)
guard_describe_credentials = cluster_or(
    Operation.DESCRIBE,
    lambda request, text: scram.DescribeUserScramCredentialsResponse(
        error_code=DENIED,
        error_message=None,
        # Apache Kafka names nobody in these.
        results=[
            scram.DescribeUserScramCredentialsResult(error_code=DENIED) for _ in request.users or ()
        ],
    ),
)
guard_alter_credentials = cluster_or(
    Operation.ALTER,
    lambda request, text: scram.AlterUserScramCredentialsResponse(
        results=[
            scram.AlterUserScramCredentialsResult(user=name, error_code=DENIED, error_message=text)
            for name in dict.fromkeys(row.name for row in (*request.deletions, *request.upsertions))
        ]
    ),
)


def _quotas_kept(request: Any, text: str) -> quotas.AlterClientQuotasResponse:
    return quotas.AlterClientQuotasResponse(
        entries=[
            quotas.AlterClientQuotasResponseEntry(
                error_code=DENIED,
                error_message=DENIED.sentence,
                entity=[
                    quotas.EntityData(entity_type=row.entity_type, entity_name=row.entity_name)
                    for row in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def _not_moved(request: Any, text: str) -> log_dirs.AlterReplicaLogDirsResponse:
    return log_dirs.AlterReplicaLogDirsResponse(
        results=[
            log_dirs.AlterReplicaLogDirTopicResult(
                topic_name=row.name,
                partitions=[
                    log_dirs.AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=DENIED
                    )
                    for index in row.partitions
                ],
            )
            for directory in request.dirs
            for row in directory.topics
        ]
    )


guard_describe_quotas = cluster_or(
    Operation.DESCRIBE_CONFIGS,
    lambda request, text: quotas.DescribeClientQuotasResponse(
        error_code=DENIED, error_message=None, entries=None
    ),
)
guard_alter_quotas = cluster_or(Operation.ALTER_CONFIGS, _quotas_kept)
guard_move_replicas = cluster_or(Operation.ALTER, _not_moved)
guard_quorum = cluster_or(
    Operation.DESCRIBE,
    lambda request, text: quorum.DescribeQuorumResponse(
        error_code=DENIED, error_message=DENIED.sentence
    ),
)


async def guard_log_dirs(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
    if may_with_cluster(ctx, on, Operation.DESCRIBE):
        return await serve(request, ctx, on)
    if ctx.api_version >= ERRORS_SINCE:
        raise ApiError(DENIED)
    return log_dirs.DescribeLogDirsResponse()
