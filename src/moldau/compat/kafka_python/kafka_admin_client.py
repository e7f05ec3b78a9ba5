"""`KafkaAdminClient` as kafka-python has it, for topics, partitions, groups and settings.

Answers are dicts with the fields of the protocol's responses, as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moldau import Admin
from moldau.client.admin.admin_results import NewPartitions as Partitions
from moldau.client.admin.admin_results import NewTopic as Topic
from moldau.client.admin.admin_results import OffsetSpec, Results
from moldau.client.consumer.consumer_records import OffsetAndMetadata, OffsetAndTimestamp
from moldau.compat.kafka_python.kafka_configs import BOOTSTRAP_TIMEOUT_MS, checked, translated
from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.errors import KafkaError, KafkaTimeoutError
from moldau.model.names import TopicPartition

NONE = 0


class NewTopic:
    """A topic to create."""

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = replica_assignments or {}
        self.topic_configs = topic_configs or {}


class NewPartitions:
    """How many partitions a topic shall have."""

    def __init__(
        self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments


class KafkaAdminClient:
    """kafka-python's admin; settings are keywords, times are milliseconds.

    >>> admin = KafkaAdminClient(bootstrap_servers="localhost:9092")
    >>> admin.create_topics([NewTopic("orders", 3, 1)])
    """

    def __init__(self, **configs: Any) -> None:
        settings = translated(AdminConfig, configs, frozenset())
        self._admin: Admin = checked(Admin, settings)
        limit_ms = configs.get("bootstrap_timeout_ms") or BOOTSTRAP_TIMEOUT_MS
        try:
            self._admin.describe_cluster(timeout=limit_ms / 1000)
        except KafkaTimeoutError:
            self.close()
            raise KafkaTimeoutError(
                f"Unable to bootstrap from {configs.get('bootstrap_servers')}"
            ) from None

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def create_topics(
        self,
        new_topics: Iterable[NewTopic | str],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
    ) -> dict[str, Any]:
        """A row for each topic; raises the first error unless told not to."""
        made = self._admin.create_topics(
            [_topic(topic) for topic in new_topics],
            validate_only=validate_only,
            raise_errors=raise_errors,
            timeout=_seconds(timeout_ms),
        )
        rows = _rows(made, "name")
        for row in rows:
            created = made.get(row["name"])
            row["num_partitions"] = -1 if created is None else created.partitions
            row["replication_factor"] = -1 if created is None else created.replication_factor
        return {"topics": rows}

    def delete_topics(
        self,
        topics: Iterable[str],
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> dict[str, Any]:
        """A row for each topic; raises the first error unless told not to."""
        timeout = _seconds(timeout_ms)
        gone = self._admin.delete_topics(topics, raise_errors=raise_errors, timeout=timeout)
        return {"topics": _rows(gone, "name")}

    def list_topics(self) -> list[str]:
        """All names, internal ones too."""
        return list(self._admin.list_topics(include_internal=True))

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """A row for each topic, with its partitions and its error code."""
        names = self.list_topics() if topics is None else list(topics)
        found = self._admin.describe_topics(names, raise_errors=False)
        rows = _rows(found, "name")
        for row in rows:
            known = found.get(row["name"])
            row["is_internal"] = known is not None and known.is_internal
            row["partitions"] = [
                {
                    "error_code": NONE,
                    "partition_index": part.partition,
                    "leader_id": part.leader,
                    "leader_epoch": part.leader_epoch,
                    "replica_nodes": part.replicas,
                    "isr_nodes": part.isr,
                    "offline_replicas": part.offline_replicas,
                }
                for part in (known.partitions if known is not None else ())
            ]
        return rows

    def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions | int],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> dict[str, Any]:
        """Let topics have so many partitions in all."""
        totals = {
            name: Partitions(given.total_count, given.new_assignments)
            if isinstance(given, NewPartitions)
            else given
            for name, given in topic_partitions.items()
        }
        grown = self._admin.create_partitions(
            totals,
            validate_only=validate_only,
            raise_errors=raise_errors,
            timeout=_seconds(timeout_ms),
        )
        return {"results": _rows(grown, "name")}

    def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, int],
        timeout_ms: float | None = None,
        partition_leader_id: int | None = None,
    ) -> dict[TopicPartition, dict[str, int]]:
        """Delete what is before an offset (-1: everything); the new first offsets."""
        found = self._admin.delete_records(records_to_delete, timeout=_seconds(timeout_ms))
        return {
            tp: {"partition_index": tp.partition, "low_watermark": low, "error_code": NONE}
            for tp, low in found.items()
        }

    def list_partition_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, int],
        isolation_level: Any = 0,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by time: -1 is the end, -2 the beginning."""
        specs: dict[TopicPartition, OffsetSpec | int] = {
            tp: int(getattr(spec, "value", spec)) for tp, spec in topic_partition_specs.items()
        }
        is_committed = getattr(isolation_level, "value", isolation_level) in (1, "read_committed")
        found = self._admin.list_offsets(
            specs, read_committed=is_committed, timeout=_seconds(timeout_ms)
        )
        return {tp: OffsetAndTimestamp(*row) for tp, row in found.items()}

    def list_groups(
        self,
        broker_ids: Iterable[int] | None = None,
        states_filter: Iterable[str] | None = None,
        types_filter: Iterable[str] | None = None,
    ) -> list[dict[str, str]]:
        """A row for each group."""
        found = self._admin.list_groups(states=states_filter or (), types=types_filter or ())
        return [
            {
                "group_id": row.group_id,
                "protocol_type": row.protocol_type,
                "group_state": row.state,
                "group_type": row.type,
            }
            for row in found
        ]

    def list_group_offsets(
        self, group_specs: str | list[str] | Mapping[str, Iterable[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """What each group has committed."""
        names = [group_specs] if isinstance(group_specs, str) else group_specs
        found = self._admin.list_group_offsets(names)
        return {
            group: {tp: row for tp, row in offsets.items() if row is not None}
            for group, offsets in found.items()
        }

    def delete_groups(
        self, group_ids: Iterable[str], group_coordinator_id: int | None = None
    ) -> dict[str, str]:
        """ "OK" for each group, or the name of its error."""
        found = self._admin.delete_groups(group_ids, raise_errors=False).outcomes
        return {
            group: type(error).__name__ if isinstance(error, KafkaError) else "OK"
            for group, error in found.items()
        }

    def describe_cluster(self) -> dict[str, Any]:
        """The brokers, the controller and the cluster's id."""
        found = self._admin.describe_cluster()
        return {
            "cluster_id": found.cluster_id,
            "controller_id": -1 if found.controller is None else found.controller.id,
            "brokers": [
                {"broker_id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
                for node in found.nodes
            ],
        }

    def __enter__(self) -> KafkaAdminClient:
        return self

    def __exit__(self, *outcome: object) -> None:
        self.close()


def _topic(given: NewTopic | str) -> Topic:
    if isinstance(given, str):
        return Topic(given)
    return Topic(
        given.name,
        given.num_partitions,
        given.replication_factor,
        given.topic_configs,
        given.replica_assignments or None,
    )


def _rows(found: Results[Any, Any], key: str) -> list[dict[str, Any]]:
    return [
        {
            key: name,
            "error_code": int(outcome.code) if isinstance(outcome, KafkaError) else NONE,
            "error_message": outcome.message if isinstance(outcome, KafkaError) else None,
        }
        for name, outcome in found.outcomes.items()
    ]


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000
