"""Where partitions are and who leads them: elections, reassignments, log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moldau.client.admin.admin_requests import AdminRequests, by_topic, check_top, value_or_error
from moldau.client.admin.admin_results import (
    ElectionType,
    LogDirDescription,
    Outcomes,
    PartitionReassignment,
    ReplicaInfo,
    TopicPartitionReplica,
    of_each,
)
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from moldau.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)


class PartitionsAdmin(AdminRequests):
    async def elect_leaders(
        self,
        election: ElectionType = ElectionType.PREFERRED,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Elect leaders of these partitions, or of all for which it would change something.

            admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("orders", 0)])

        ElectionNotNeededError means that the right replica leads already."""
        asked = None if partitions is None else [TopicPartition(*tp) for tp in partitions]
        wanted = None
        if asked is not None:
            wanted = [
                TopicPartitions(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(asked).items()
            ]
        request = ElectLeadersRequest(
            election_type=election, topic_partitions=wanted, timeout_ms=self._limit_ms(timeout_ms)
        )

        async def ask() -> Outcomes[TopicPartition, None]:
            response = await self._from_controller(request, timeout_ms)
            return {
                TopicPartition(topic.topic, row.partition_id): value_or_error(row, None)
                for topic in response.replica_election_results
                for row in topic.partition_result
                # Asked for all, Kafka lists also those for which there was nothing to do.
                if asked is not None or row.error_code != Error.ELECTION_NOT_NEEDED
            }

        return await (ask() if asked is None else of_each(asked, ask()))

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Start to move partitions to these brokers; None cancels a move.

        admin.alter_partition_reassignments({TopicPartition("orders", 0): [2, 3]}).check()
        """
        wanted = {TopicPartition(*tp): replicas for tp, replicas in targets.items()}
        rows = []
        for topic, indexes in by_topic(wanted).items():
            parts = []
            for index in indexes:
                replicas = wanted[TopicPartition(topic, index)]
                parts.append(
                    ReassignablePartition(
                        partition_index=index,
                        replicas=None if replicas is None else list(replicas),
                    )
                )
            rows.append(ReassignableTopic(name=topic, partitions=parts))
        request = AlterPartitionReassignmentsRequest(
            topics=rows,
            timeout_ms=self._limit_ms(timeout_ms),
            allow_replication_factor_change=allow_replication_factor_change,
        )

        async def ask() -> Outcomes[TopicPartition, None]:
            response = await self._from_controller(request, timeout_ms)
            return {
                TopicPartition(topic.name, row.partition_index): value_or_error(row, None)
                for topic in response.responses
                for row in topic.partitions
            }

        return await of_each(wanted, ask())

    async def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The moves that are under way, of all partitions or of these."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(
            topics=topics, timeout_ms=self._limit_ms(timeout_ms)
        )
        response = await self._from_controller(request, timeout_ms)
        return {
            TopicPartition(topic.name, row.partition_index): PartitionReassignment(
                row.replicas, row.adding_replicas, row.removing_replicas
            )
            for topic in response.topics
            for row in topic.partitions
        }

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[int, dict[str, LogDirDescription]]:
        """Log directories by broker and path, with the size of every replica, or of some.

        for path, directory in admin.describe_log_dirs([0]).check()[0].items(): ...
        """
        topics = None
        if partitions is not None:
            topics = [
                DescribableLogDirTopic(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ]
        request = DescribeLogDirsRequest(topics=topics)

        async def ask(node_id: int) -> dict[str, LogDirDescription]:
            response = check_top(await self.network.call(node_id, request))
            return {row.log_dir: _log_dir(row) for row in response.results}

        return await self._from_all(ask, timeout_ms, broker_ids)

    async def alter_replica_log_dirs(
        self,
        targets: Mapping[TopicPartitionReplica, str],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartitionReplica, None]:
        """Move replicas into other log directories of their broker.

        admin.alter_replica_log_dirs({TopicPartitionReplica("orders", 0, 1): "/disk2"}).check()
        """
        wanted: dict[int, dict[str, list[TopicPartition]]] = {}
        for replica, path in targets.items():
            tp = TopicPartition(replica.topic, replica.partition)
            wanted.setdefault(replica.broker_id, {}).setdefault(path, []).append(tp)

        async def ask(node_id: int) -> dict[TopicPartitionReplica, KafkaError | None]:
            request = AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path,
                        topics=[
                            AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                            for topic, indexes in by_topic(parts).items()
                        ],
                    )
                    for path, parts in wanted[node_id].items()
                ]
            )
            response = await self.network.call(node_id, request)
            return {
                TopicPartitionReplica(topic.topic_name, row.partition_index, node_id): error_for(
                    row.error_code
                )
                if row.error_code
                else None
                for topic in response.results
                for row in topic.partitions
            }

        answers = await self._from_all(ask, timeout_ms, list(wanted))
        results: Outcomes[TopicPartitionReplica, None] = {}
        for replica in targets:
            answer = answers[replica.broker_id]
            results[replica] = answer if isinstance(answer, KafkaError) else answer.get(replica)
        return results


def _log_dir(row: DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, part.partition_index): ReplicaInfo(
            part.partition_size, part.offset_lag, part.is_future_key
        )
        for topic in row.topics
        for part in topic.partitions
    }
    error = error_for(row.error_code) if row.error_code else None
    return LogDirDescription(
        row.log_dir, replicas, row.total_bytes, row.usable_bytes, error, row.is_cordoned
    )
