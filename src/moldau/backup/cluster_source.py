"""A cluster as a backup sees it, over Kafka's protocol: topics, ends, batches as they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from moldau.backup.backup_faults import BackupFault
from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.admin_results import ConfigResource, ConfigSource, OffsetSpec
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.config.topic_config import MIRROR_SOURCE
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

NAMED_TOPICS_MAX = 12
"""The last version of Fetch that names its topics."""
FETCH_BYTES = 4 * 1024 * 1024
FETCH_WAIT_MS = 500
PATIENCE_S = 120.0
"""How long a partition may give errors that pass before the backup gives up."""
GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


class SourceTopic(NamedTuple):
    name: str
    topic_id: str
    partitions: int
    is_internal: bool


class ClusterSource:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.admin = AdminCore({**settings, "enable.metrics.push": "false"})
        self.cluster_id = ""
        self.compacted = {GROUPS_TOPIC, TRANSACTIONS_TOPIC}
        """Topics of which records may go also from the end, as far as settings were read."""

    async def __aenter__(self) -> Self:
        described = await self.admin.describe_cluster()
        self.cluster_id = described.cluster_id or ""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.admin.close()

    async def topics(self) -> dict[str, SourceTopic]:
        cluster = self.admin.cluster
        await self.admin._try(None, cluster.refresh_all)
        found = {}
        for name, topic in cluster.topics.items():
            known = cluster.topic(name)
            if known is None:
                continue
            topic_id = "" if topic.topic_id == NO_TOPIC_ID else topic.topic_id.hex()
            is_internal = name in (GROUPS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state")
            found[name] = SourceTopic(name, topic_id, len(known.partitions), is_internal)
        return dict(sorted(found.items()))

    async def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """High watermarks, asked for in one request to each leader."""
        return await self._offsets(places, OffsetSpec.LATEST)

    async def starts(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._offsets(places, OffsetSpec.EARLIEST)

    async def _offsets(
        self, places: Iterable[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        outcomes = await self.admin.list_offsets(dict.fromkeys(places, spec))
        found = {}
        for place, outcome in outcomes.items():
            if isinstance(outcome, KafkaError):
                raise BackupFault(f"the offsets of {place} are not known: {outcome.message}")
            found[place] = outcome.offset
        return found

    async def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """What was set for each topic itself."""
        resources = [ConfigResource.topic(name) for name in topics]
        found = {}
        for resource, entries in (await self.admin.describe_configs(resources)).items():
            if isinstance(entries, KafkaError):
                reason = f"the settings of topic {resource.name} cannot be read: {entries.message}"
                raise BackupFault(reason)
            policy = entries.get("cleanup.policy")
            if policy is not None and "compact" in (policy.value or ""):
                self.compacted.add(resource.name)
            found[resource.name] = {
                entry.name: entry.value
                for entry in entries.values()
                if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
                and entry.value is not None
                # What comes back from a backup repeats nobody.
                and entry.name != MIRROR_SOURCE
            }
        return found

    async def fetch(
        self, place: TopicPartition, offset: int, offset_end: int, max_bytes: int = FETCH_BYTES
    ) -> bytes:
        """Batches from an offset on, as they are stored; empty if there are none before
        `offset_end`. Raises BackupFault, and
        KafkaError for an offset out of range."""
        deadline = time.monotonic() + PATIENCE_S
        failures = 0
        while True:
            try:
                records, is_all = await self._fetch_once(
                    place, offset, offset_end, min(max_bytes, FETCH_BYTES)
                )
                if records or is_all:
                    return records
                reason = "there is no answer with records"
            except KafkaError as error:
                if error.code is Error.OFFSET_OUT_OF_RANGE:
                    raise
                if not error.retriable:
                    raise BackupFault(f"{place} cannot be read: {error.message}") from error
                reason = error.message
                await self._look_again(place.topic)
            if time.monotonic() >= deadline:
                raise BackupFault(f"{place} cannot be read since {PATIENCE_S:.0f} s: {reason}")
            failures += 1
            await self.admin.network.pause(failures)

    async def _look_again(self, topic: str) -> None:
        try:
            await self.admin.cluster.refresh([topic], allow_auto_create=False)
        except KafkaError as error:
            if not error.retriable:
                raise BackupFault(f"topic {topic} is not known: {error.message}") from error

    async def _fetch_once(
        self, place: TopicPartition, offset: int, offset_end: int, max_bytes: int
    ) -> tuple[bytes, bool]:
        leader = self.admin.cluster.leader(*place)
        if leader is None:
            await self._look_again(place.topic)
            leader = self.admin.cluster.leader(*place)
            if leader is None:
                raise self.admin._no_leader(place)
        wanted = FetchPartition(
            partition=place.partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=0,
            topics=[FetchTopic(topic=place.topic, partitions=[wanted])],
        )
        answer = await self.admin.network.call(leader[0], request, version_max=NAMED_TOPICS_MAX)
        if answer.error_code:
            raise error_for(answer.error_code)
        row = answer.responses[0].partitions[0]
        if row.error_code:
            raise error_for(row.error_code)
        assert not isinstance(row.records, tuple | list)
        records = bytes(row.records or b"")
        # A throttled answer is empty too; then there is more to come.
        is_all = row.high_watermark >= offset_end and not answer.throttle_time_ms
        return records, is_all


async def gather_some(works: Iterable[Any], at_once: int) -> list[Any]:
    """As many at a time; the first fault ends the others and is raised."""
    places = asyncio.Semaphore(at_once)

    async def one(work: Any) -> Any:
        async with places:
            return await work()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(work)) for work in works]
    return [task.result() for task in tasks]
