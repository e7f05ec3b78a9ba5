"""The group coordinator of a broker: a machine on each partition of `__consumer_offsets` it leads.

Built by the broker, asked by handlers. It opens the logs, gives the machines their settings, tells
them of deleted topics and of time that has passed, and writes the log lines of what they decided.

What the machines need is imported with the first partition that this broker leads: a broker without
groups does not load any of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from moldau.config.broker_config import BrokerConfig
from moldau.coordinators.coordinator import Coordinator, PlanJob
from moldau.coordinators.local_markers import OFFSETS_TOPIC, TransactionEnd
from moldau.engine.shards import Codec, ShardMachine
from moldau.engine.timers import Timers
from moldau.metrics.group_cells import GroupCells
from moldau.model.clock import Clock
from moldau.model.cluster import ClusterImage
from moldau.model.names import BrokerId, Millis
from moldau.replication.replicas import Replicas


class GroupCoordinator(Coordinator):
    key_type = 0

    def __init__(
        self,
        node_id: BrokerId,
        *,
        config: Callable[[], BrokerConfig],
        replicas: Replicas,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self.cells = GroupCells()
        super().__init__(
            OFFSETS_TOPIC, node_id, config=config, replicas=replicas, clock=clock, timers=timers
        )

    def _stored_within_ms(self) -> Millis:
        return self._config().offsets_commit_timeout_ms

    def end_transaction(self, partition: int, end: TransactionEnd) -> asyncio.Future[None]:
        """Make the offsets of a transaction valid, or drop them."""
        from moldau.groups.group_commands import EndTransaction

        command = EndTransaction(
            end.producer_id, end.producer_epoch, end.coordinator_epoch, end.committed
        )
        return self.submit_to(partition, command)

    # What happens by itself

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        super().follow(old, new)
        if new.topics is not old.topics:
            self._forget_topics(old, new)

    def _forget_topics(self, old: ClusterImage, new: ClusterImage) -> None:
        gone = [topic for topic in old.topics.values() if topic.id not in new.topic_names]
        if gone and self.partitions():
            from moldau.groups.group_commands import DeletedTopic, ForgetTopics

            topics = tuple(DeletedTopic(topic.name, topic.id) for topic in gone)
            self.tell_all(ForgetTopics(topics))

    def plan_jobs(self, plan: PlanJob) -> None:
        interval_ms = self._config().offsets_retention_check_interval_ms
        plan("delete-expired-group-metadata", interval_ms, self.expire_offsets)

    def expire_offsets(self) -> None:
        if self.partitions():
            from moldau.groups.group_commands import ExpireOffsets

            self.tell_all(ExpireOffsets())

    # What the shards need

    def _machine(self, partition: int, leader_epoch: int) -> ShardMachine:
        from moldau.groups.group_machine import GroupMachine
        from moldau.groups.group_settings import GroupSettings

        config = self._config()
        return GroupMachine(
            GroupSettings(
                session_timeout_min_ms=config.group_min_session_timeout_ms,
                session_timeout_max_ms=config.group_max_session_timeout_ms,
                initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
                members_max=config.group_max_size,
                offset_metadata_max_bytes=config.offset_metadata_max_bytes,
                offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            )
        )

    def _state_bytes_max(self) -> int:
        return self._config().group_state_max_bytes

    def _new_record_codec(self) -> Codec:
        from moldau.groups.group_record_codec import GroupCodec

        return GroupCodec(self._config().offsets_topic_compression_codec)

    def _loaded_command(self) -> object:
        from moldau.groups.group_commands import Loaded

        return Loaded()

    def _write_log_lines(self, partition: int, facts: Sequence[object]) -> None:
        from moldau.groups.group_counts import count
        from moldau.groups.group_log_lines import log_line

        for fact in facts:
            count(fact, self.cells)
            line = log_line(fact, self._node_id, partition)
            if line is not None:
                logging.getLogger(line.logger).info("%s", line.text)
