"""Broker settings of parts that Moldau does not have: KRaft, tiered storage.

A file written for Apache Kafka is accepted as it is, and tools that expect to find these keys
do find them; nothing reads the values.
"""

from __future__ import annotations

from moldau.config.setting_definition import (
    DAY,
    GIB,
    HOUR,
    LONG_MAX,
    MIB,
    MINUTE,
    SECOND,
    Long,
    Names,
    Scope,
    Settings,
    setting,
)

NO_KRAFT = "metadata lives in ZooKeeper or in the embedded store, not in a KRaft quorum"
NO_TIERING = "there is no tiered storage"

# Rows stay compact, so that the table can be read as one.
# fmt: off


class ForeignSettings(Settings):
    # KRaft
    process_roles: Names = setting(
        "process.roles", (), one_of=("broker", "controller"), no_effect=NO_KRAFT,
        doc="Roles of the process; it is always a broker.")
    controller_listener_names: Names = setting(
        "controller.listener.names", (),
        doc="Listeners of a KRaft controller; they are left out of listeners, since nothing would "
            "answer there.")
    controller_quorum_voters: Names = setting(
        "controller.quorum.voters", (), no_effect=NO_KRAFT,
        doc="Voters of the quorum as id@host:port.")
    controller_quorum_bootstrap_servers: Names = setting(
        "controller.quorum.bootstrap.servers", (), no_effect=NO_KRAFT,
        doc="Addresses at which the quorum is found.")
    controller_quorum_auto_join_enable: bool = setting(
        "controller.quorum.auto.join.enable", False, no_effect=NO_KRAFT,
        doc="Whether a controller joins the voters by itself.")
    controller_quorum_append_linger_ms: int = setting(
        "controller.quorum.append.linger.ms", 25, at_least=0, no_effect=NO_KRAFT,
        doc="How long the quorum's leader collects writes.")
    controller_quorum_election_backoff_max_ms: int = setting(
        "controller.quorum.election.backoff.max.ms", 1 * SECOND, at_least=0, no_effect=NO_KRAFT,
        doc="Longest pause between two elections.")
    controller_quorum_election_timeout_ms: int = setting(
        "controller.quorum.election.timeout.ms", 1 * SECOND, at_least=0, no_effect=NO_KRAFT,
        doc="How long an election may take.")
    controller_quorum_fetch_timeout_ms: int = setting(
        "controller.quorum.fetch.timeout.ms", 2 * SECOND, at_least=0, no_effect=NO_KRAFT,
        doc="A voter that cannot fetch for this long calls an election.")
    controller_quorum_fetch_max_bytes: int = setting(
        "controller.quorum.fetch.max.bytes", 1 * MIB, at_least=1, no_effect=NO_KRAFT,
        doc="Most bytes that a voter fetches at once.")
    controller_quorum_fetch_snapshot_max_bytes: int = setting(
        "controller.quorum.fetch.snapshot.max.bytes", 1 * MIB, at_least=1, no_effect=NO_KRAFT,
        doc="Most bytes of a snapshot that a voter fetches at once.")
    controller_quorum_request_timeout_ms: int = setting(
        "controller.quorum.request.timeout.ms", 2 * SECOND, at_least=0, no_effect=NO_KRAFT,
        doc="How long a voter waits for an answer.")
    controller_quorum_retry_backoff_ms: int = setting(
        "controller.quorum.retry.backoff.ms", 20, at_least=0, no_effect=NO_KRAFT,
        doc="Pause before a voter asks again.")
    broker_heartbeat_interval_ms: int = setting(
        "broker.heartbeat.interval.ms", 2 * SECOND, at_least=1, no_effect=NO_KRAFT,
        doc="How often a broker reports to the quorum.")
    broker_session_timeout_ms: int = setting(
        "broker.session.timeout.ms", 9 * SECOND, at_least=1, no_effect=NO_KRAFT,
        doc="The quorum declares a broker dead after this long; see zookeeper.session.timeout.ms.")
    initial_broker_registration_timeout_ms: int = setting(
        "initial.broker.registration.timeout.ms", 1 * MINUTE, at_least=1, no_effect=NO_KRAFT,
        doc="How long a broker tries to register with the quorum.")
    metadata_log_dir: str | None = setting(
        "metadata.log.dir", no_effect=NO_KRAFT,
        doc="Directory of the metadata log.")
    metadata_log_segment_bytes: int = setting(
        "metadata.log.segment.bytes", 1 * GIB, at_least=8 * MIB, no_effect=NO_KRAFT,
        doc="Segment size of the metadata log.")
    metadata_log_segment_ms: Long = setting(
        "metadata.log.segment.ms", 7 * DAY, no_effect=NO_KRAFT,
        doc="Age at which a segment of the metadata log is rolled.")
    metadata_log_max_record_bytes_between_snapshots: Long = setting(
        "metadata.log.max.record.bytes.between.snapshots", 20 * MIB, at_least=1, no_effect=NO_KRAFT,
        doc="Bytes of metadata between two snapshots.")
    metadata_log_max_snapshot_interval_ms: Long = setting(
        "metadata.log.max.snapshot.interval.ms", 1 * HOUR, at_least=0, no_effect=NO_KRAFT,
        doc="Time between two snapshots of the metadata.")
    metadata_max_idle_interval_ms: int = setting(
        "metadata.max.idle.interval.ms", 500, at_least=0, no_effect=NO_KRAFT,
        doc="How often an idle quorum writes a sign of life.")
    metadata_max_retention_bytes: Long = setting(
        "metadata.max.retention.bytes", 100 * MIB, no_effect=NO_KRAFT,
        doc="Size of metadata log and snapshots that is kept.")
    metadata_max_retention_ms: Long = setting(
        "metadata.max.retention.ms", 7 * DAY, no_effect=NO_KRAFT,
        doc="Age of metadata log and snapshots that is kept.")

    # Tiered storage
    remote_log_storage_system_enable: bool = setting(
        "remote.log.storage.system.enable", False, no_effect=NO_TIERING,
        doc="Move old segments to a remote store.")
    remote_log_storage_manager_class_name: str | None = setting(
        "remote.log.storage.manager.class.name", no_effect=NO_TIERING,
        doc="Class of the remote store.")
    remote_log_storage_manager_class_path: str | None = setting(
        "remote.log.storage.manager.class.path", no_effect=NO_TIERING,
        doc="Where that class is found.")
    remote_log_storage_manager_impl_prefix: str = setting(
        "remote.log.storage.manager.impl.prefix", "rsm.config.", no_effect=NO_TIERING,
        doc="Prefix of the keys that are handed to it.")
    remote_log_metadata_manager_class_name: str = setting(
        "remote.log.metadata.manager.class.name",
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        no_effect=NO_TIERING,
        doc="Class that remembers what lies in the remote store.")
    remote_log_metadata_manager_class_path: str | None = setting(
        "remote.log.metadata.manager.class.path", no_effect=NO_TIERING,
        doc="Where that class is found.")
    remote_log_metadata_manager_impl_prefix: str = setting(
        "remote.log.metadata.manager.impl.prefix", "rlmm.config.", no_effect=NO_TIERING,
        doc="Prefix of the keys that are handed to it.")
    remote_log_metadata_manager_listener_name: str | None = setting(
        "remote.log.metadata.manager.listener.name", no_effect=NO_TIERING,
        doc="Listener that it uses.")
    remote_log_metadata_custom_metadata_max_bytes: int = setting(
        "remote.log.metadata.custom.metadata.max.bytes", 128, at_least=0, no_effect=NO_TIERING,
        doc="Largest note kept with a remote segment.")
    remote_log_index_file_cache_total_size_bytes: Long = setting(
        "remote.log.index.file.cache.total.size.bytes", 1 * GIB, at_least=1, scope=Scope.CLUSTER,
        no_effect=NO_TIERING,
        doc="Local space for remote indexes.")
    remote_log_manager_thread_pool_size: int = setting(
        "remote.log.manager.thread.pool.size", 2, at_least=1, no_effect=NO_TIERING,
        doc="Threads for remote work.")
    remote_log_manager_copier_thread_pool_size: int = setting(
        "remote.log.manager.copier.thread.pool.size", 10, at_least=1, scope=Scope.CLUSTER,
        no_effect=NO_TIERING,
        doc="Threads that copy segments.")
    remote_log_manager_expiration_thread_pool_size: int = setting(
        "remote.log.manager.expiration.thread.pool.size", 10, at_least=1, scope=Scope.CLUSTER,
        no_effect=NO_TIERING,
        doc="Threads that delete expired remote segments.")
    remote_log_manager_follower_thread_pool_size: int = setting(
        "remote.log.manager.follower.thread.pool.size", 2, at_least=1, scope=Scope.CLUSTER,
        no_effect=NO_TIERING,
        doc="Threads for remote work on followers.")
    remote_log_manager_task_interval_ms: Long = setting(
        "remote.log.manager.task.interval.ms", 30 * SECOND, at_least=1, no_effect=NO_TIERING,
        doc="How often remote work is looked for.")
    remote_log_manager_copy_max_bytes_per_second: Long = setting(
        "remote.log.manager.copy.max.bytes.per.second", LONG_MAX, at_least=1, scope=Scope.CLUSTER,
        no_effect=NO_TIERING,
        doc="Most bytes per second copied to the remote store.")
    remote_log_manager_copy_quota_window_num: int = setting(
        "remote.log.manager.copy.quota.window.num", 11, at_least=1, no_effect=NO_TIERING,
        doc="Samples over which that rate is measured.")
    remote_log_manager_copy_quota_window_size_seconds: int = setting(
        "remote.log.manager.copy.quota.window.size.seconds", 1, at_least=1, no_effect=NO_TIERING,
        doc="Length of one such sample.")
    remote_log_manager_fetch_max_bytes_per_second: Long = setting(
        "remote.log.manager.fetch.max.bytes.per.second", LONG_MAX, at_least=1, scope=Scope.CLUSTER,
        no_effect=NO_TIERING,
        doc="Most bytes per second fetched from the remote store.")
    remote_log_manager_fetch_quota_window_num: int = setting(
        "remote.log.manager.fetch.quota.window.num", 11, at_least=1, no_effect=NO_TIERING,
        doc="Samples over which that rate is measured.")
    remote_log_manager_fetch_quota_window_size_seconds: int = setting(
        "remote.log.manager.fetch.quota.window.size.seconds", 1, at_least=1, no_effect=NO_TIERING,
        doc="Length of one such sample.")
    remote_log_reader_threads: int = setting(
        "remote.log.reader.threads", 10, at_least=1, scope=Scope.CLUSTER, no_effect=NO_TIERING,
        doc="Threads that read remote segments.")
    remote_log_reader_max_pending_tasks: int = setting(
        "remote.log.reader.max.pending.tasks", 100, at_least=1, no_effect=NO_TIERING,
        doc="Remote reads that may wait.")
    remote_fetch_max_wait_ms: int = setting(
        "remote.fetch.max.wait.ms", 500, at_least=1, scope=Scope.CLUSTER, no_effect=NO_TIERING,
        doc="How long a fetch waits for the remote store.")
    remote_list_offsets_request_timeout_ms: Long = setting(
        "remote.list.offsets.request.timeout.ms", 30 * SECOND, at_least=1, scope=Scope.CLUSTER,
        no_effect=NO_TIERING,
        doc="How long a search by time waits for the remote store.")
    follower_fetch_last_tiered_offset_enable: bool = setting(
        "follower.fetch.last.tiered.offset.enable", False, scope=Scope.CLUSTER,
        no_effect=NO_TIERING,
        doc="Let new followers start after what lies in the remote store.")
