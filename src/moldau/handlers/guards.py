"""One row for each API: what its caller must be allowed, before the handler sees the request.

Used only where an authorizer is configured. Rows for whole requests are made by `needs`; where
single topics or groups of a request are denied, the guard leaves them out and adds their rows to
the answer. A few handlers ask for themselves, because only they know what the request means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.handlers.access import (
    admin_guards,
    group_guards,
    partition_guards,
    topic_guards,
    transaction_guards,
)
from moldau.handlers.access.row_guards import needed, whole
from moldau.handlers.authorization import CLUSTER, Guard, Resource
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Handler
from moldau.handlers.topic_data.produce_guard import guard_produce
from moldau.model.errors import ApiError, Error
from moldau.security.acl.acl_model import Operation, ResourceType

if TYPE_CHECKING:
    from moldau.handlers.services import Services

FREE: Final = frozenset({17, 18, 36, 71, 72})
"""Logging in, ApiVersions, and clients that push their metrics, which the broker wants of them."""
ASKS_ITSELF: Final = frozenset({1, 38, 39, 40, 41})
"""A Fetch may name nothing and mean what its session remembers; what somebody may do with a
delegation token depends on whose it is."""


def needs(
    operation: Operation,
    resource: Resource = CLUSTER,
    error: Error = Error.CLUSTER_AUTHORIZATION_FAILED,
) -> Guard:
    """The whole request or nothing."""

    async def guard(serve: Handler, request: Any, ctx: RequestContext, on: Services) -> Any:
        if not on.authorizer.allows(ctx, operation, resource):
            raise ApiError(error, needed(ctx, operation))
        return await serve(request, ctx, on)

    return guard


GUARDS: Mapping[int, Guard] = {
    # One row for each topic, group or transactional id
    0: guard_produce,
    2: topic_guards.guard_list_offsets,
    3: topic_guards.guard_metadata,
    8: group_guards.guard_offset_commit,
    9: group_guards.guard_offset_fetch,
    10: group_guards.guard_find_coordinator,
    11: group_guards.guard_join,
    12: whole(Operation.READ, ResourceType.GROUP, "group_id"),
    13: whole(Operation.READ, ResourceType.GROUP, "group_id"),
    14: group_guards.guard_sync,
    15: group_guards.guard_describe_groups,
    16: group_guards.guard_list_groups,
    19: topic_guards.guard_create_topics,
    20: topic_guards.guard_delete_topics,
    21: topic_guards.guard_delete_records,
    22: transaction_guards.guard_init_producer_id,
    23: topic_guards.guard_leader_epochs,
    24: transaction_guards.guard_add_partitions,
    25: transaction_guards.guard_add_offsets,
    26: whole(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
    27: transaction_guards.guard_write_markers,
    28: transaction_guards.guard_txn_offsets,
    32: admin_guards.guard_describe_configs,
    33: admin_guards.guard_alter_configs,
    37: topic_guards.guard_create_partitions,
    42: group_guards.guard_delete_groups,
    44: admin_guards.guard_alter_configs,
    47: group_guards.guard_offset_delete,
    60: topic_guards.guard_describe_cluster,
    61: transaction_guards.guard_describe_producers,
    65: transaction_guards.guard_describe_transactions,
    66: transaction_guards.guard_list_transactions,
    75: topic_guards.guard_topic_partitions,
    # Among brokers
    4: needs(Operation.CLUSTER_ACTION),
    5: needs(Operation.CLUSTER_ACTION),
    6: needs(Operation.CLUSTER_ACTION),
    7: needs(Operation.CLUSTER_ACTION),
    56: needs(Operation.CLUSTER_ACTION),
    67: needs(Operation.CLUSTER_ACTION),
    # About the whole cluster
    29: needs(Operation.DESCRIBE),
    30: admin_guards.guard_create_acls,
    31: admin_guards.guard_delete_acls,
    34: admin_guards.guard_move_replicas,
    35: admin_guards.guard_log_dirs,
    43: partition_guards.guard_elections,
    45: partition_guards.guard_reassignments,
    46: partition_guards.guard_reassignment_list,
    48: admin_guards.guard_describe_quotas,
    49: admin_guards.guard_alter_quotas,
    50: admin_guards.guard_describe_credentials,
    51: admin_guards.guard_alter_credentials,
    55: admin_guards.guard_quorum,
    57: needs(Operation.ALTER),
    74: needs(Operation.DESCRIBE_CONFIGS),
    # Snapshots have everything in them, and stay after what they are of is deleted
    20000: needs(Operation.ALTER),
    20001: needs(Operation.DESCRIBE),
    20002: needs(Operation.ALTER),
    20003: needs(Operation.CLUSTER_ACTION),
    # A restore writes as a follower does, and makes topics
    20010: needs(Operation.CLUSTER_ACTION),
    20011: needs(Operation.CLUSTER_ACTION),
    20012: needs(Operation.CLUSTER_ACTION),
    # A mirror too
    20020: needs(Operation.CLUSTER_ACTION),
    20021: needs(Operation.CLUSTER_ACTION),
    20022: needs(Operation.DESCRIBE),
    20023: needs(Operation.CLUSTER_ACTION),
    20024: needs(Operation.ALTER),
    20025: needs(Operation.ALTER),
}
