"""Broker settings: share groups (KIP-932) and the coordinator that keeps their state."""

from __future__ import annotations

from moldau.config.broker_settings.coordinator_settings import (
    CAPPED,
    NO_SHARE_GROUPS,
    ONE_LOOP,
    WHOLE_BATCHES,
)
from moldau.config.setting_definition import (
    KIB,
    MIB,
    SECOND,
    Names,
    Scope,
    Settings,
    Short,
    setting,
)

# Rows stay compact, so that the table can be read as one.
# fmt: off


class ShareSettings(Settings):
    # Share groups
    group_share_session_timeout_ms: int = setting(
        "group.share.session.timeout.ms", 45 * SECOND, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="A share member that has not been heard of for this long is removed.")
    group_share_min_session_timeout_ms: int = setting(
        "group.share.min.session.timeout.ms", 45 * SECOND, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="Shortest session timeout that a share group may be given.")
    group_share_max_session_timeout_ms: int = setting(
        "group.share.max.session.timeout.ms", 60 * SECOND, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="Longest session timeout that a share group may be given.")
    group_share_heartbeat_interval_ms: int = setting(
        "group.share.heartbeat.interval.ms", 5 * SECOND, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="How often share members are told to report.")
    group_share_min_heartbeat_interval_ms: int = setting(
        "group.share.min.heartbeat.interval.ms", 5 * SECOND, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="Shortest heartbeat interval that a share group may be given.")
    group_share_max_heartbeat_interval_ms: int = setting(
        "group.share.max.heartbeat.interval.ms", 15 * SECOND, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="Longest heartbeat interval that a share group may be given.")
    group_share_max_size: int = setting(
        "group.share.max.size", 200, at_least=1, at_most=1000, no_effect=NO_SHARE_GROUPS,
        doc="Members that one share group may have.")
    group_share_assignors: Names = setting(
        "group.share.assignors", ("simple",), no_effect=NO_SHARE_GROUPS,
        doc="Ways to share out partitions in a share group; the first is the default.")
    group_share_assignment_interval_ms: int = setting(
        "group.share.assignment.interval.ms", 1 * SECOND, at_least=0, scope=Scope.CLUSTER,
        no_effect=NO_SHARE_GROUPS,
        doc="Shortest time between two assignments of a share group.")
    group_share_min_assignment_interval_ms: int = setting(
        "group.share.min.assignment.interval.ms", 0, at_least=0, no_effect=NO_SHARE_GROUPS,
        doc="Shortest assignment interval that a share group may be given.")
    group_share_max_assignment_interval_ms: int = setting(
        "group.share.max.assignment.interval.ms", 15 * SECOND, at_least=0,
        no_effect=NO_SHARE_GROUPS,
        doc="Longest assignment interval that a share group may be given.")
    group_share_delivery_count_limit: int = setting(
        "group.share.delivery.count.limit", 5, at_least=2, at_most=10, no_effect=NO_SHARE_GROUPS,
        doc="Times that a record is handed out before it is given up.")
    group_share_min_delivery_count_limit: int = setting(
        "group.share.min.delivery.count.limit", 2, at_least=2, at_most=5, no_effect=NO_SHARE_GROUPS,
        doc="Smallest delivery count limit that a share group may be given.")
    group_share_max_delivery_count_limit: int = setting(
        "group.share.max.delivery.count.limit", 10, at_least=5, at_most=25,
        no_effect=NO_SHARE_GROUPS,
        doc="Largest delivery count limit that a share group may be given.")
    group_share_record_lock_duration_ms: int = setting(
        "group.share.record.lock.duration.ms", 30 * SECOND, at_least=1 * SECOND,
        at_most=3600 * SECOND, no_effect=NO_SHARE_GROUPS,
        doc="How long a record belongs to the member it was handed to.")
    group_share_min_record_lock_duration_ms: int = setting(
        "group.share.min.record.lock.duration.ms", 15 * SECOND, at_least=1 * SECOND,
        at_most=30 * SECOND, no_effect=NO_SHARE_GROUPS,
        doc="Shortest lock duration that a share group may be given.")
    group_share_max_record_lock_duration_ms: int = setting(
        "group.share.max.record.lock.duration.ms", 60 * SECOND, at_least=30 * SECOND,
        at_most=3600 * SECOND, no_effect=NO_SHARE_GROUPS,
        doc="Longest lock duration that a share group may be given.")
    group_share_partition_max_record_locks: int = setting(
        "group.share.partition.max.record.locks", 2000, at_least=100, at_most=10000,
        no_effect=NO_SHARE_GROUPS,
        doc="Records of a partition that may be handed out at one time.")
    group_share_min_partition_max_record_locks: int = setting(
        "group.share.min.partition.max.record.locks", 100, at_least=100, at_most=2000,
        no_effect=NO_SHARE_GROUPS,
        doc="Smallest such number that a share group may be given.")
    group_share_max_partition_max_record_locks: int = setting(
        "group.share.max.partition.max.record.locks", 4000, at_least=2000, at_most=10000,
        no_effect=NO_SHARE_GROUPS,
        doc="Largest such number that a share group may be given.")
    group_share_max_share_sessions: int = setting(
        "group.share.max.share.sessions", 2000, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="Share sessions that are open at one time.")

    # Their state
    share_coordinator_state_topic_num_partitions: int = setting(
        "share.coordinator.state.topic.num.partitions", 50, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="Partitions of __share_group_state.")
    share_coordinator_state_topic_replication_factor: Short = setting(
        "share.coordinator.state.topic.replication.factor", 3, at_least=1,
        no_effect=NO_SHARE_GROUPS,
        doc=f"Replicas of __share_group_state. {CAPPED}")
    share_coordinator_state_topic_min_isr: Short = setting(
        "share.coordinator.state.topic.min.isr", 2, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="Replicas of __share_group_state that must be in sync; never more than it has.")
    share_coordinator_state_topic_segment_bytes: int = setting(
        "share.coordinator.state.topic.segment.bytes", 100 * MIB, at_least=1,
        no_effect=NO_SHARE_GROUPS,
        doc="Segment size of __share_group_state.")
    share_coordinator_state_topic_compression_codec: int = setting(
        "share.coordinator.state.topic.compression.codec", 0, at_least=0, at_most=4,
        no_effect=NO_SHARE_GROUPS,
        doc="Codec of __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        "share.coordinator.snapshot.update.records.per.snapshot", 500, at_least=0, at_most=500,
        no_effect=NO_SHARE_GROUPS,
        doc="Changes written between two full snapshots of a share partition.")
    share_coordinator_write_timeout_ms: int = setting(
        "share.coordinator.write.timeout.ms", 5 * SECOND, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="A change fails if its replicas have not stored it within this time.")
    share_coordinator_load_buffer_size: int = setting(
        "share.coordinator.load.buffer.size", 5 * MIB, at_least=1, no_effect=NO_SHARE_GROUPS,
        doc="Bytes read at a time when the coordinator loads its state.")
    share_coordinator_threads: int = setting(
        "share.coordinator.threads", 1, at_least=1, no_effect=ONE_LOOP,
        doc="Threads that serve share state.")
    share_coordinator_append_linger_ms: int = setting(
        "share.coordinator.append.linger.ms", -1, at_least=-1, no_effect=WHOLE_BATCHES,
        doc="How long changes are collected before they are written.")
    share_coordinator_cached_buffer_max_bytes: int = setting(
        "share.coordinator.cached.buffer.max.bytes", 1 * MIB + 12, at_least=512 * KIB,
        scope=Scope.CLUSTER, no_effect=WHOLE_BATCHES,
        doc="Largest write buffer that the coordinator keeps for reuse.")
