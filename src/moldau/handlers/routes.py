"""The routing table: every API that is served, in which versions, and by which function.

ApiVersions advertises exactly these rows. A handler's module is imported when its API is first
asked for, which keeps the start of the broker short.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

DESCRIBE_QUORUM = 55

Handler = Callable[[Any, Any, Any], Awaitable[Any]]
"""`async def name(request, ctx, on) -> response`; the response is None if nobody waits for one."""


class Route:
    __slots__ = ("_function", "_place", "api_key", "version_max", "version_min")

    def __init__(self, api_key: int, place: str, version_min: int, version_max: int) -> None:
        self.api_key = api_key
        self.version_min = version_min
        self.version_max = version_max
        self._place = place
        self._function: Handler | None = None

    @property
    def function(self) -> Handler:
        if self._function is None:
            module, name = self._place.split(":")
            self._function = getattr(import_module(f"moldau.handlers.{module}"), name)
        return self._function

    def serves(self, version: int) -> bool:
        return self.version_min <= version <= self.version_max


ROUTES: dict[int, Route] = {
    route.api_key: route
    for route in (
        Route(0, "produce:produce", 0, 13),
        Route(1, "fetch:fetch", 0, 18),
        Route(2, "offsets:list_offsets", 0, 11),
        Route(3, "metadata:metadata", 0, 13),
        Route(8, "group_offsets:offset_commit", 1, 10),
        Route(9, "group_offset_fetch:offset_fetch", 1, 10),
        Route(10, "coordinators:find_coordinator", 0, 6),
        Route(11, "groups:join_group", 0, 9),
        Route(12, "groups:heartbeat", 0, 4),
        Route(13, "groups:leave_group", 0, 5),
        Route(14, "groups:sync_group", 0, 5),
        Route(15, "group_admin:describe_groups", 0, 6),
        Route(16, "group_admin:list_groups", 0, 5),
        Route(18, "api_versions:api_versions", 0, 4),
        Route(19, "topics:create_topics", 2, 7),
        Route(20, "topics:delete_topics", 1, 6),
        Route(21, "offsets:delete_records", 0, 2),
        Route(22, "producer_ids:init_producer_id", 0, 5),
        Route(23, "offsets:offset_for_leader_epoch", 2, 4),
        Route(24, "transactions:add_partitions_to_txn", 0, 5),
        Route(25, "transactions:add_offsets_to_txn", 0, 4),
        Route(26, "transactions:end_txn", 0, 5),
        Route(27, "coordinators:write_txn_markers", 1, 2),
        Route(28, "transactions:txn_offset_commit", 0, 5),
        Route(32, "configs:describe_configs", 1, 4),
        Route(33, "configs:alter_configs", 0, 2),
        Route(34, "log_dirs:alter_replica_log_dirs", 1, 2),
        Route(35, "log_dirs:describe_log_dirs", 1, 5),
        Route(37, "topics:create_partitions", 0, 3),
        Route(42, "group_admin:delete_groups", 0, 2),
        Route(43, "elections:elect_leaders", 0, 2),
        Route(44, "configs:incremental_alter_configs", 0, 1),
        Route(45, "reassignments:alter_partition_reassignments", 0, 1),
        Route(46, "reassignments:list_partition_reassignments", 0, 0),
        Route(47, "group_offsets:offset_delete", 0, 0),
        Route(55, "quorum:describe_quorum", 0, 2),
        Route(57, "features:update_features", 0, 2),
        Route(60, "metadata:describe_cluster", 0, 2),
        Route(61, "transaction_admin:describe_producers", 0, 0),
        Route(65, "transaction_admin:describe_transactions", 0, 0),
        Route(66, "transaction_admin:list_transactions", 0, 2),
        Route(74, "config_resources:list_config_resources", 0, 1),
        Route(75, "topic_partitions:describe_topic_partitions", 0, 0),
    )
}
"""One row per API, by key."""


def cluster_routes() -> dict[int, Route]:
    """What a broker of a cluster serves: what the controller and other brokers ask comes on top,
    and there is no quorum of its own to describe."""
    routes = {key: route for key, route in ROUTES.items() if key != DESCRIBE_QUORUM}
    for route in (
        Route(4, "cluster_requests:leader_and_isr", 0, 7),
        Route(5, "cluster_requests:stop_replica", 0, 4),
        Route(6, "cluster_requests:update_metadata", 0, 8),
        Route(7, "controller_requests:controlled_shutdown", 0, 3),
        Route(56, "controller_requests:alter_partition", 0, 3),
        Route(67, "controller_requests:allocate_producer_ids", 0, 0),
    ):
        routes[route.api_key] = route
    return routes
