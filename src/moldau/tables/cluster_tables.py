"""What a cluster tells of itself, as tables: topics, partitions, groups, lag, settings, brokers.

What one may not see, or what is deleted while it is asked about, has no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from moldau.client.admin.admin_results import ConfigResource, OffsetSpec
from moldau.model.names import TopicPartition
from moldau.tables.table_faults import load

if TYPE_CHECKING:
    import pyarrow

    from moldau.client.admin.blocking_admin import Admin

Rows = list[dict[str, Any]]
KINDS = {
    "topics": "topic string, topic_id string, partitions int32, is_internal bool",
    "partitions": (
        "topic string, partition int32, leader int32, replicas ints, in_sync ints,"
        " first_offset int64, end_offset int64"
    ),
    "groups": "group_id string, state string, type string, protocol_type string, members int32",
    "lag": (
        "group_id string, topic string, partition int32, committed int64, end_offset int64,"
        " lag int64"
    ),
    "settings": (
        "resource_type string, resource string, name string, value string, source string,"
        " is_sensitive bool, is_read_only bool"
    ),
    "brokers": "broker int32, host string, port int32, rack string, is_controller bool",
}
"""The columns of each table."""


def cluster_table(admin: Admin, name: str) -> pyarrow.Table:
    pa = load("pyarrow", "arrow")
    fields = [each.strip().split() for each in KINDS[name].split(",")]
    kinds = {"ints": pa.list_(pa.int32())}
    schema = pa.schema(
        [(field, kinds.get(kind) or pa.type_for_alias(kind)) for field, kind in fields]
    )
    return pa.Table.from_pylist(_ROWS[name](admin), schema)


def _topics(admin: Admin) -> Rows:
    return [
        {
            "topic": name,
            "topic_id": each.topic_id_text,
            "partitions": len(each.partitions),
            "is_internal": each.is_internal,
        }
        for name, each in sorted(_described(admin).items())
    ]


def _described(admin: Admin) -> Mapping[str, Any]:
    names = sorted(admin.list_topics(include_internal=True))
    outcomes = admin.describe_topics(names, raise_errors=False).outcomes if names else {}
    return {name: each for name, each in outcomes.items() if not isinstance(each, Exception)}


def _partitions(admin: Admin) -> Rows:
    described = _described(admin)
    places = [
        TopicPartition(name, each.partition)
        for name, topic in described.items()
        for each in topic.partitions
        if each.leader >= 0
    ]
    firsts = _offsets(admin, places, OffsetSpec.EARLIEST)
    ends = _offsets(admin, places, OffsetSpec.LATEST)
    return [
        {
            "topic": name,
            "partition": each.partition,
            "leader": each.leader if each.leader >= 0 else None,
            "replicas": each.replicas,
            "in_sync": each.isr,
            "first_offset": firsts.get(TopicPartition(name, each.partition)),
            "end_offset": ends.get(TopicPartition(name, each.partition)),
        }
        for name, topic in sorted(described.items())
        for each in topic.partitions
    ]


def _offsets(admin: Admin, places: list[TopicPartition], spec: OffsetSpec) -> dict[Any, int]:
    """Those that are to be had: a partition may have lost its leader."""
    if not places:
        return {}
    outcomes = admin.list_offsets(dict.fromkeys(places, spec), raise_errors=False).outcomes
    return {tp: each.offset for tp, each in outcomes.items() if not isinstance(each, Exception)}


def _groups(admin: Admin) -> Rows:
    listed = sorted(admin.list_groups())
    described = admin.describe_groups([each.group_id for each in listed], raise_errors=False)
    rows = []
    for each in listed:
        group = described.outcomes.get(each.group_id)
        members = getattr(group, "members", None)
        rows.append(
            {
                "group_id": each.group_id,
                "state": each.state,
                "type": each.type,
                "protocol_type": each.protocol_type,
                "members": None if members is None else len(members),
            }
        )
    return rows


def _lag(admin: Admin) -> Rows:
    names = [each.group_id for each in admin.list_groups()]
    if not names:
        return []
    outcomes = admin.list_group_offsets(names, raise_errors=False).outcomes
    committed = {
        (name, tp): each.offset
        for name, offsets in outcomes.items()
        if not isinstance(offsets, Exception)
        for tp, each in offsets.items()
        if each is not None and not isinstance(each, Exception) and each.offset >= 0
    }
    ends = _offsets(admin, sorted({tp for _, tp in committed}), OffsetSpec.LATEST)
    return [
        {
            "group_id": name,
            "topic": tp.topic,
            "partition": tp.partition,
            "committed": offset,
            "end_offset": ends.get(tp),
            "lag": max(0, ends[tp] - offset) if tp in ends else None,
        }
        for (name, tp), offset in sorted(committed.items())
    ]


def _settings(admin: Admin) -> Rows:
    resources = [ConfigResource.topic(name) for name in admin.list_topics(include_internal=True)]
    resources += [ConfigResource.broker(node.id) for node in admin.describe_cluster().nodes]
    rows = []
    outcomes = admin.describe_configs(resources, raise_errors=False).outcomes
    for resource, entries in outcomes.items():
        if isinstance(entries, Exception):
            continue
        rows += [
            {
                "resource_type": resource.type.name.lower(),
                "resource": resource.name,
                "name": entry.name,
                "value": entry.value,
                "source": entry.source.name.lower(),
                "is_sensitive": entry.is_sensitive,
                "is_read_only": entry.is_read_only,
            }
            for entry in entries.values()
        ]
    return rows


def _brokers(admin: Admin) -> Rows:
    cluster = admin.describe_cluster()
    controller = cluster.controller
    return [
        {
            "broker": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "is_controller": controller is not None and node.id == controller.id,
        }
        for node in sorted(cluster.nodes, key=lambda node: node.id)
    ]


_ROWS: dict[str, Callable[[Any], Rows]] = {
    "topics": _topics,
    "partitions": _partitions,
    "groups": _groups,
    "lag": _lag,
    "settings": _settings,
    "brokers": _brokers,
}
