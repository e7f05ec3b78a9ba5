"""What requests about settings, log directories, lists and users need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.config.config_changes import ResourceType as ConfigType
from moldau.handlers.access.row_guards import ERRORS, Judge, may, may_with_cluster, rows
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Handler
from moldau.model.errors import ApiError, Error
from moldau.security.acl.acl_model import CLUSTER_NAME, Operation, ResourceType
from moldau.wire.messages import acls, configs, log_dirs, quotas, scram

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


def _altered(row: Any, error: Error) -> configs.AlterConfigsResourceResponse:
    return configs.AlterConfigsResourceResponse(
        error_code=error,
        error_message=error.sentence,
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
    "resources", "responses", _config_judge(Operation.ALTER_CONFIGS), _altered
)


def _cluster_judge(operation: Operation) -> Judge:
    def judge(row: Any, request: Any, ctx: RequestContext, on: Services) -> Error | None:
        return None if may_with_cluster(ctx, on, operation) else DENIED

    return judge


guard_create_acls = rows(
    "creations",
    "results",
    _cluster_judge(Operation.ALTER),
    lambda row, error: acls.AclCreationResult(error_code=error, error_message=error.sentence),
)
guard_delete_acls = rows(
    "filters",
    "filter_results",
    _cluster_judge(Operation.ALTER),
    lambda row, error: acls.DeleteAclsFilterResult(error_code=error, error_message=error.sentence),
)


async def guard_alter_credentials(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    if may_with_cluster(ctx, on, Operation.ALTER):
        return await serve(request, ctx, on)
    names = dict.fromkeys(row.name for row in (*request.deletions, *request.upsertions))
    return scram.AlterUserScramCredentialsResponse(
        results=[
            scram.AlterUserScramCredentialsResult(
                user=name, error_code=DENIED, error_message=DENIED.sentence
            )
            for name in names
        ]
    )


async def guard_alter_quotas(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    if may_with_cluster(ctx, on, Operation.ALTER_CONFIGS):
        return await serve(request, ctx, on)
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


async def guard_move_replicas(
    serve: Handler, request: Any, ctx: RequestContext, on: Services
) -> Any:
    if may_with_cluster(ctx, on, Operation.ALTER):
        return await serve(request, ctx, on)
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


async def guard_log_dirs(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
    if may_with_cluster(ctx, on, Operation.DESCRIBE):
        return await serve(request, ctx, on)
    if ctx.api_version >= ERRORS_SINCE:
        raise ApiError(DENIED)
    return log_dirs.DescribeLogDirsResponse()
