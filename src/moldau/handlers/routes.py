"""The routing table: every API that is served, in which versions, and by which function.

ApiVersions advertises exactly these rows. A handler's module is imported when its API is first
asked for, which keeps the start of the broker short.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.handlers.services import Services

DESCRIBE_QUORUM = 55

Handler = Callable[[Any, Any, Any], Coroutine[Any, Any, Any]]
"""`async def name(request, ctx, on) -> response`; the response is None if nobody waits for one."""
Handlers = Mapping[int, Handler]
"""The handlers of one module, by the key of their API."""


class Route:
    __slots__ = ("_function", "_load", "api_key", "version_max", "version_min")

    def __init__(
        self, api_key: int, load: Callable[[], Handlers], version_min: int, version_max: int
    ) -> None:
        self.api_key = api_key
        self.version_min = version_min
        self.version_max = version_max
        self._load = load
        self._function: Handler | None = None

    @property
    def function(self) -> Handler:
        if self._function is None:
            self._function = self._load()[self.api_key]
        return self._function

    def serves(self, version: int) -> bool:
        return self.version_min <= version <= self.version_max


def _produce() -> Handlers:
    from moldau.handlers.topic_data import produce as served

    return {0: served.produce}


def _fetch() -> Handlers:
    from moldau.handlers.topic_data import fetch as served

    return {1: served.fetch}


def _log_offsets() -> Handlers:
    from moldau.handlers.topic_data import log_offsets as served

    return {2: served.list_offsets, 21: served.delete_records, 23: served.offset_for_leader_epoch}


def _metadata() -> Handlers:
    from moldau.handlers.topic_data import metadata as served

    return {3: served.metadata, 60: served.describe_cluster}


def _offset_commit() -> Handlers:
    from moldau.handlers.groups import offset_commit as served

    return {8: served.offset_commit, 47: served.offset_delete}


def _offset_fetch() -> Handlers:
    from moldau.handlers.groups import offset_fetch as served

    return {9: served.offset_fetch}


def _find_coordinator() -> Handlers:
    from moldau.handlers.groups import find_coordinator as served

    return {10: served.find_coordinator}


def _group_membership() -> Handlers:
    from moldau.handlers.groups import group_membership as served

    return {
        11: served.join_group,
        12: served.heartbeat,
        13: served.leave_group,
        14: served.sync_group,
    }


def _group_admin() -> Handlers:
    from moldau.handlers.groups import group_admin as served

    return {15: served.describe_groups, 16: served.list_groups, 42: served.delete_groups}


def _sasl() -> Handlers:
    from moldau.handlers import sasl as served

    return {17: served.sasl_handshake, 36: served.sasl_authenticate}


def _api_versions() -> Handlers:
    from moldau.handlers import api_versions as served

    return {18: served.api_versions}


def _topics() -> Handlers:
    from moldau.handlers.admin import topics as served

    return {19: served.create_topics, 20: served.delete_topics, 37: served.create_partitions}


def _producer_id_requests() -> Handlers:
    from moldau.handlers.transactions import producer_id_requests as served

    return {22: served.init_producer_id}


def _marker_requests() -> Handlers:
    from moldau.handlers.transactions import marker_requests as served

    return {27: served.write_txn_markers}


def _transaction_requests() -> Handlers:
    from moldau.handlers.transactions import transaction_requests as served

    return {
        24: served.add_partitions_to_txn,
        25: served.add_offsets_to_txn,
        26: served.end_txn,
        28: served.txn_offset_commit,
    }


def _acls() -> Handlers:
    from moldau.handlers.admin import acls as served

    return {29: served.describe_acls, 30: served.create_acls, 31: served.delete_acls}


def _delegation_tokens() -> Handlers:
    from moldau.handlers.admin import delegation_tokens as served

    return {
        38: served.create_delegation_token,
        39: served.renew_delegation_token,
        40: served.expire_delegation_token,
        41: served.describe_delegation_token,
    }


def _client_quotas() -> Handlers:
    from moldau.handlers.admin import client_quotas as served

    return {
        48: served.describe_client_quotas,
        49: served.alter_client_quotas,
    }


def _scram_credentials() -> Handlers:
    from moldau.handlers.admin import scram_credentials as served

    return {
        50: served.describe_user_scram_credentials,
        51: served.alter_user_scram_credentials,
    }


def _configs() -> Handlers:
    from moldau.handlers.admin import configs as served

    return {
        32: served.describe_configs,
        33: served.alter_configs,
        44: served.incremental_alter_configs,
    }


def _log_dirs() -> Handlers:
    from moldau.handlers.admin import log_dirs as served

    return {34: served.alter_replica_log_dirs, 35: served.describe_log_dirs}


def _elections() -> Handlers:
    from moldau.handlers.admin import elections as served

    return {43: served.elect_leaders}


def _reassignments() -> Handlers:
    from moldau.handlers.admin import reassignments as served

    return {45: served.alter_partition_reassignments, 46: served.list_partition_reassignments}


def _quorum() -> Handlers:
    from moldau.handlers.admin import quorum as served

    return {55: served.describe_quorum}


def _features() -> Handlers:
    from moldau.handlers.admin import features as served

    return {57: served.update_features}


def _transaction_admin() -> Handlers:
    from moldau.handlers.transactions import transaction_admin as served

    return {
        61: served.describe_producers,
        65: served.describe_transactions,
        66: served.list_transactions,
    }


def _config_resources() -> Handlers:
    from moldau.handlers.admin import config_resources as served

    return {74: served.list_config_resources}


def _snapshots() -> Handlers:
    from moldau.handlers.admin import snapshots as served

    return {
        20000: served.create_snapshot,
        20001: served.describe_snapshots,
        20002: served.delete_snapshot,
        20003: served.take_snapshot_part,
    }


def _restores() -> Handlers:
    from moldau.handlers.admin import restores as served

    return {
        20010: served.begin_restore,
        20011: served.append_restored,
        20012: served.end_restore,
    }


def _mirrors() -> Handlers:
    from moldau.handlers.admin import mirrors as served

    return {
        20020: served.begin_mirrors,
        20021: served.append_mirrored,
        20022: served.describe_mirrors,
        20023: served.raise_mirror_epochs,
        20024: served.promote_mirror,
        20025: served.demote_to_mirror,
    }


def _topic_partitions() -> Handlers:
    from moldau.handlers.topic_data import topic_partitions as served

    return {75: served.describe_topic_partitions}


def _client_telemetry() -> Handlers:
    from moldau.handlers.cluster import client_telemetry as served

    return {71: served.get_telemetry_subscriptions, 72: served.push_telemetry}


def _state_change_requests() -> Handlers:
    from moldau.handlers.cluster import state_change_requests as served

    return {4: served.leader_and_isr, 5: served.stop_replica, 6: served.update_metadata}


def _controller_requests() -> Handlers:
    from moldau.handlers.cluster import controller_requests as served

    return {
        7: served.controlled_shutdown,
        56: served.alter_partition,
        67: served.allocate_producer_ids,
    }


ROUTES: dict[int, Route] = {
    route.api_key: route
    for route in (
        Route(0, _produce, 0, 13),
        Route(1, _fetch, 0, 18),
        Route(2, _log_offsets, 0, 11),
        Route(3, _metadata, 0, 13),
        Route(8, _offset_commit, 1, 10),
        Route(9, _offset_fetch, 1, 10),
        Route(10, _find_coordinator, 0, 6),
        Route(11, _group_membership, 0, 9),
        Route(12, _group_membership, 0, 4),
        Route(13, _group_membership, 0, 5),
        Route(14, _group_membership, 0, 5),
        Route(15, _group_admin, 0, 6),
        Route(16, _group_admin, 0, 5),
        Route(17, _sasl, 0, 1),
        Route(18, _api_versions, 0, 4),
        Route(19, _topics, 2, 7),
        Route(20, _topics, 1, 6),
        Route(21, _log_offsets, 0, 2),
        Route(22, _producer_id_requests, 0, 5),
        Route(23, _log_offsets, 2, 4),
        Route(24, _transaction_requests, 0, 5),
        Route(25, _transaction_requests, 0, 4),
        Route(26, _transaction_requests, 0, 5),
        Route(27, _marker_requests, 1, 2),
        Route(28, _transaction_requests, 0, 5),
        Route(29, _acls, 1, 3),
        Route(30, _acls, 1, 3),
        Route(31, _acls, 1, 3),
        Route(32, _configs, 1, 4),
        Route(33, _configs, 0, 2),
        Route(34, _log_dirs, 1, 2),
        Route(35, _log_dirs, 1, 5),
        Route(36, _sasl, 0, 2),
        Route(37, _topics, 0, 3),
        Route(38, _delegation_tokens, 1, 3),
        Route(39, _delegation_tokens, 1, 2),
        Route(40, _delegation_tokens, 1, 2),
        Route(41, _delegation_tokens, 1, 3),
        Route(42, _group_admin, 0, 2),
        Route(43, _elections, 0, 2),
        Route(44, _configs, 0, 1),
        Route(45, _reassignments, 0, 1),
        Route(46, _reassignments, 0, 0),
        Route(47, _offset_commit, 0, 0),
        Route(48, _client_quotas, 0, 1),
        Route(49, _client_quotas, 0, 1),
        Route(50, _scram_credentials, 0, 0),
        Route(51, _scram_credentials, 0, 0),
        Route(55, _quorum, 0, 2),
        Route(57, _features, 0, 2),
        Route(60, _metadata, 0, 2),
        Route(61, _transaction_admin, 0, 0),
        Route(65, _transaction_admin, 0, 0),
        Route(66, _transaction_admin, 0, 2),
        Route(74, _config_resources, 0, 1),
        Route(75, _topic_partitions, 0, 0),
        Route(20000, _snapshots, 0, 0),
        Route(20001, _snapshots, 0, 0),
        Route(20002, _snapshots, 0, 0),
        Route(20003, _snapshots, 0, 0),
        Route(20010, _restores, 0, 0),
        Route(20011, _restores, 0, 0),
        Route(20012, _restores, 0, 0),
        Route(20020, _mirrors, 0, 0),
        Route(20021, _mirrors, 0, 0),
        Route(20022, _mirrors, 0, 0),
        Route(20023, _mirrors, 0, 0),
        Route(20024, _mirrors, 0, 0),
        Route(20025, _mirrors, 0, 0),
    )
}
"""One row per API, by key."""

TELEMETRY_ROUTES: dict[int, Route] = {
    route.api_key: route
    for route in (Route(71, _client_telemetry, 0, 0), Route(72, _client_telemetry, 0, 0))
}
"""Served, and told to clients, only where somebody looks at the metrics that they push."""


def routes_of(on: Services) -> Mapping[int, Route]:
    """What a broker serves."""
    routes = ROUTES if on.member is None else cluster_routes()
    return routes if on.telemetry is None else {**routes, **TELEMETRY_ROUTES}


def cluster_routes() -> dict[int, Route]:
    """What a broker of a cluster serves: what the controller and other brokers ask comes on top,
    and there is no quorum of its own to describe."""
    routes = {key: route for key, route in ROUTES.items() if key != DESCRIBE_QUORUM}
    for route in (
        Route(4, _state_change_requests, 0, 7),
        Route(5, _state_change_requests, 0, 4),
        Route(6, _state_change_requests, 0, 8),
        Route(7, _controller_requests, 0, 3),
        Route(56, _controller_requests, 0, 3),
        Route(67, _controller_requests, 0, 0),
    ):
        routes[route.api_key] = route
    return routes
