"""Broker settings: consumer, share and streams groups, their offsets, and transactions."""

from __future__ import annotations

from moldau.config.setting_definition import (
    DAY,
    INT_MAX,
    KIB,
    MIB,
    MINUTE,
    SECOND,
    Long,
    Names,
    Scope,
    Settings,
    Short,
    setting,
)

NO_CONSUMER_PROTOCOL = "groups of the consumer protocol (KIP-848) are not served yet"
NO_SHARE_GROUPS = "share groups are not served yet"
NO_STREAMS_GROUPS = "streams groups are not served yet"
CLASSIC_ONLY = "the classic protocol is the one that is served so far"
ONE_LOOP = "coordinators run on the broker's event loop"
WHOLE_BATCHES = "coordinators write and load whole batches without a buffer of their own"
CAPPED = (
    "A cluster makes the topic when so many brokers are alive; a broker that stands alone, without "
    "ZooKeeper, makes one replica."
)

# Rows stay compact, so that the table can be read as one.
# fmt: off


class GroupSettings(Settings):
    # Offsets
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions", 50, at_least=1,
        doc="Partitions of __consumer_offsets; choose before the first group exists.")
    group_state_max_bytes: Long = setting(
        "group.state.max.bytes", 128 * MIB, at_least=1 * MIB,
        doc="Moldau's own: about how much memory the groups that this broker coordinates may take, "
            "offsets apart; beyond it nobody new may join, and clients come back.")
    offsets_topic_replication_factor: Short = setting(
        "offsets.topic.replication.factor", 3, at_least=1,
        doc=f"Replicas of __consumer_offsets. {CAPPED}")
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes", 100 * MIB, at_least=1,
        doc="Segment size of __consumer_offsets; small ones are compacted and loaded faster.")
    offsets_topic_compression_codec: int = setting(
        "offsets.topic.compression.codec", 0, at_least=0, at_most=4,
        doc="Codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes", 7 * 24 * 60, at_least=1,
        doc="Keep the offsets of a group without members for this long.")
    offsets_retention_check_interval_ms: Long = setting(
        "offsets.retention.check.interval.ms", 10 * MINUTE, at_least=1,
        doc="How often expired offsets are looked for.")
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms", 5 * SECOND, at_least=1,
        doc="A commit fails if its replicas have not stored it within this time.")
    offsets_commit_required_acks: Short = setting(
        "offsets.commit.required.acks", -1,
        no_effect="commits always wait for all in-sync replicas",
        doc="Kept from old releases: acknowledgements that a commit waits for.")
    offsets_load_buffer_size: int = setting(
        "offsets.load.buffer.size", 5 * MIB, at_least=1, no_effect=WHOLE_BATCHES,
        doc="Bytes read at a time when a coordinator loads its groups.")
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes", 4096, at_least=0,
        doc="Longest note that a client may store with an offset.")

    # Classic groups
    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms", 6 * SECOND, at_least=0,
        doc="Shortest session timeout that a member may ask for.")
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms", 30 * MINUTE, at_least=0,
        doc="Longest session timeout that a member may ask for.")
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms", 3 * SECOND, at_least=0,
        doc="How long a new group waits for more members before its first assignment; 0 while "
            "developing.")
    group_max_size: int = setting(
        "group.max.size", INT_MAX, at_least=1,
        doc="Members that one group may have.")

    # The coordinator
    group_coordinator_rebalance_protocols: Names = setting(
        "group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"),
        one_of=("consumer", "classic", "share", "streams"), no_effect=CLASSIC_ONLY,
        doc="Group protocols that clients may use.")
    group_coordinator_threads: int = setting(
        "group.coordinator.threads", 4, at_least=1, no_effect=ONE_LOOP,
        doc="Threads that serve groups.")
    group_coordinator_background_threads: int = setting(
        "group.coordinator.background.threads", 2, at_least=1, no_effect=ONE_LOOP,
        doc="Threads for the heavier work on groups.")
    group_coordinator_append_linger_ms: int = setting(
        "group.coordinator.append.linger.ms", -1, at_least=-1, no_effect=WHOLE_BATCHES,
        doc="How long changes of groups are collected before they are written.")
    group_coordinator_cached_buffer_max_bytes: int = setting(
        "group.coordinator.cached.buffer.max.bytes", 1 * MIB + 12, at_least=512 * KIB,
        scope=Scope.CLUSTER, no_effect=WHOLE_BATCHES,
        doc="Largest write buffer that a coordinator keeps for reuse.")

    # Consumer groups (KIP-848)
    group_consumer_session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms", 45 * SECOND, at_least=1,
        no_effect=NO_CONSUMER_PROTOCOL,
        doc="A member that has not been heard of for this long is removed.")
    group_consumer_min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms", 45 * SECOND, at_least=1,
        no_effect=NO_CONSUMER_PROTOCOL,
        doc="Shortest session timeout that a group may be given.")
    group_consumer_max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms", 60 * SECOND, at_least=1,
        no_effect=NO_CONSUMER_PROTOCOL,
        doc="Longest session timeout that a group may be given.")
    group_consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms", 5 * SECOND, at_least=1,
        no_effect=NO_CONSUMER_PROTOCOL,
        doc="How often members are told to report.")
    group_consumer_min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms", 5 * SECOND, at_least=1,
        no_effect=NO_CONSUMER_PROTOCOL,
        doc="Shortest heartbeat interval that a group may be given.")
    group_consumer_max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms", 15 * SECOND, at_least=1,
        no_effect=NO_CONSUMER_PROTOCOL,
        doc="Longest heartbeat interval that a group may be given.")
    group_consumer_max_size: int = setting(
        "group.consumer.max.size", INT_MAX, at_least=1, no_effect=NO_CONSUMER_PROTOCOL,
        doc="Members that one consumer group may have.")
    group_consumer_assignors: Names = setting(
        "group.consumer.assignors", ("uniform", "range"), no_effect=NO_CONSUMER_PROTOCOL,
        doc="Ways to share out partitions on the broker; the first is the default.")
    group_consumer_migration_policy: str = setting(
        "group.consumer.migration.policy", "bidirectional", ignore_case=True,
        one_of=("disabled", "downgrade", "upgrade", "bidirectional"),
        no_effect=NO_CONSUMER_PROTOCOL,
        doc="Whether groups may change between the classic and the consumer protocol.")
    group_consumer_assignment_interval_ms: int = setting(
        "group.consumer.assignment.interval.ms", 1 * SECOND, at_least=0, scope=Scope.CLUSTER,
        no_effect=NO_CONSUMER_PROTOCOL,
        doc="Shortest time between two assignments of a group.")
    group_consumer_min_assignment_interval_ms: int = setting(
        "group.consumer.min.assignment.interval.ms", 0, at_least=0, no_effect=NO_CONSUMER_PROTOCOL,
        doc="Shortest assignment interval that a group may be given.")
    group_consumer_max_assignment_interval_ms: int = setting(
        "group.consumer.max.assignment.interval.ms", 15 * SECOND, at_least=0,
        no_effect=NO_CONSUMER_PROTOCOL,
        doc="Longest assignment interval that a group may be given.")
    group_consumer_regex_refresh_interval_ms: int = setting(
        "group.consumer.regex.refresh.interval.ms", 10 * MINUTE, at_least=10 * SECOND, hidden=True,
        no_effect=NO_CONSUMER_PROTOCOL,
        doc="How often patterns are matched against the topics again.")

    # Streams groups (KIP-1071)
    group_streams_session_timeout_ms: int = setting(
        "group.streams.session.timeout.ms", 45 * SECOND, at_least=1, no_effect=NO_STREAMS_GROUPS,
        doc="A streams member that has not been heard of for this long is removed.")
    group_streams_min_session_timeout_ms: int = setting(
        "group.streams.min.session.timeout.ms", 45 * SECOND, at_least=1,
        no_effect=NO_STREAMS_GROUPS,
        doc="Shortest session timeout that a streams group may be given.")
    group_streams_max_session_timeout_ms: int = setting(
        "group.streams.max.session.timeout.ms", 60 * SECOND, at_least=1,
        no_effect=NO_STREAMS_GROUPS,
        doc="Longest session timeout that a streams group may be given.")
    group_streams_heartbeat_interval_ms: int = setting(
        "group.streams.heartbeat.interval.ms", 5 * SECOND, at_least=1, no_effect=NO_STREAMS_GROUPS,
        doc="How often streams members are told to report.")
    group_streams_min_heartbeat_interval_ms: int = setting(
        "group.streams.min.heartbeat.interval.ms", 5 * SECOND, at_least=1,
        no_effect=NO_STREAMS_GROUPS,
        doc="Shortest heartbeat interval that a streams group may be given.")
    group_streams_max_heartbeat_interval_ms: int = setting(
        "group.streams.max.heartbeat.interval.ms", 15 * SECOND, at_least=1,
        no_effect=NO_STREAMS_GROUPS,
        doc="Longest heartbeat interval that a streams group may be given.")
    group_streams_max_size: int = setting(
        "group.streams.max.size", INT_MAX, at_least=1, no_effect=NO_STREAMS_GROUPS,
        doc="Members that one streams group may have.")
    group_streams_num_standby_replicas: int = setting(
        "group.streams.num.standby.replicas", 0, at_least=0, no_effect=NO_STREAMS_GROUPS,
        doc="Warm copies of the state that a streams group keeps.")
    group_streams_max_standby_replicas: int = setting(
        "group.streams.max.standby.replicas", 2, at_least=0, no_effect=NO_STREAMS_GROUPS,
        doc="Most warm copies that a streams group may be given.")
    group_streams_initial_rebalance_delay_ms: int = setting(
        "group.streams.initial.rebalance.delay.ms", 3 * SECOND, at_least=0,
        no_effect=NO_STREAMS_GROUPS,
        doc="How long a new streams group waits for more members.")
    group_streams_assignment_interval_ms: int = setting(
        "group.streams.assignment.interval.ms", 1 * SECOND, at_least=0, scope=Scope.CLUSTER,
        no_effect=NO_STREAMS_GROUPS,
        doc="Shortest time between two assignments of a streams group.")
    group_streams_min_assignment_interval_ms: int = setting(
        "group.streams.min.assignment.interval.ms", 0, at_least=0, no_effect=NO_STREAMS_GROUPS,
        doc="Shortest assignment interval that a streams group may be given.")
    group_streams_max_assignment_interval_ms: int = setting(
        "group.streams.max.assignment.interval.ms", 15 * SECOND, at_least=0,
        no_effect=NO_STREAMS_GROUPS,
        doc="Longest assignment interval that a streams group may be given.")

    # Transactions
    transaction_state_log_num_partitions: int = setting(
        "transaction.state.log.num.partitions", 50, at_least=1,
        doc="Partitions of __transaction_state; choose before the first transaction.")
    transaction_state_max_bytes: Long = setting(
        "transaction.state.max.bytes", 256 * MIB, at_least=1 * MIB,
        doc="Moldau's own: about how much memory the transactional ids that this broker "
            "coordinates may take; beyond it no new id is taken, and clients come back.")
    transaction_state_log_replication_factor: Short = setting(
        "transaction.state.log.replication.factor", 3, at_least=1,
        doc=f"Replicas of __transaction_state. {CAPPED}")
    transaction_state_log_min_isr: int = setting(
        "transaction.state.log.min.isr", 2, at_least=1,
        doc="Replicas of __transaction_state that must be in sync; never more than it has.")
    transaction_state_log_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes", 100 * MIB, at_least=1,
        doc="Segment size of __transaction_state.")
    transaction_state_log_load_buffer_size: int = setting(
        "transaction.state.log.load.buffer.size", 5 * MIB, at_least=1, no_effect=WHOLE_BATCHES,
        doc="Bytes read at a time when a coordinator loads its transactions.")
    transaction_max_timeout_ms: int = setting(
        "transaction.max.timeout.ms", 15 * MINUTE, at_least=1,
        doc="Longest transaction timeout that a producer may ask for.")
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms", 7 * DAY, at_least=1,
        doc="Forget a transactional id that has not been used for this long.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10 * SECOND, at_least=1,
        doc="How often transactions past their timeout are looked for and aborted.")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", 60 * MINUTE, at_least=1,
        doc="How often expired transactional ids are looked for.")
    transaction_partition_verification_enable: bool = setting(
        "transaction.partition.verification.enable", True, scope=Scope.CLUSTER,
        doc="Ask the coordinator whether a partition belongs to the transaction before writing.")
    transaction_two_phase_commit_enable: bool = setting(
        "transaction.two.phase.commit.enable", False,
        doc="Allow transactions without a timeout, for outside coordinators.")
    add_partitions_to_txn_retry_backoff_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.ms", 20, at_least=1,
        doc="Pause before the broker asks again whether a transaction has ended.")
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.max.ms", 100, at_least=0,
        doc="Longest such pause.")
