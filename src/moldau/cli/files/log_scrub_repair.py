"""What `moldau log-scrub --repair` does with damage in the directories of a stopped broker.

Indexes, snapshots and leader epochs are made anew from the log. Damaged batches come from another
replica in sync, which is asked over the network as a consumer would ask; the whole segment is
written beside the old one and takes its place in one step.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from moldau.cli.command_clients import address_of
from moldau.model.cluster import Endpoint
from moldau.model.errors import Error
from moldau.model.names import BrokerId, TopicPartition
from moldau.net.peers import Peers, PeerSecurity, PeerUnreachable
from moldau.replication.segment_repair import mend
from moldau.storage.directories.log_directory import CLEAN_SHUTDOWN_FILE, LogDirectory
from moldau.storage.log_files import EPOCHS_FILE, SNAPSHOT_SUFFIX
from moldau.storage.log_state.checkpoint_files import CLEANER_FILE, read_offsets, write_offsets
from moldau.storage.recovery.directory_leftovers import tidy
from moldau.storage.scrubbing.scrub_producers import base_offsets
from moldau.storage.scrubbing.scrub_repair import (
    CannotRepair,
    EpochsAreWrong,
    begin_mending,
    in_groups,
    plan_repair,
)
from moldau.storage.scrubbing.scrub_swap import (
    rewrite_epochs,
    rewrite_snapshot,
    swap_mended_offline,
    to_compact_again,
)
from moldau.storage.scrubbing.segment_scrubbing import (
    ClosedSegment,
    Damage,
    partitions_in,
    scrub_partition,
)
from moldau.storage.storage_faults import CorruptFile, StorageFault
from moldau.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.schema import Message

CLIENT_ID = "log-scrub"
TIMEOUT_MS = 30_000
INDEX_INTERVAL_BYTES = 4096
"""Kafka's default: which batches are indexed is a matter of speed, not of truth."""
TOPIC_RESOURCE = 2
POLICY = "cleanup.policy"
T = TypeVar("T")


def lock_stopped(path: str) -> LogDirectory:
    """Nobody else may use the directory while it is repaired, nor have left it in disorder."""
    directory = LogDirectory(path)
    if not os.path.isdir(directory.path):
        raise StorageFault("cannot repair", path, reason="there is no such directory")
    directory.prepare()
    if not os.path.exists(directory.file(CLEAN_SHUTDOWN_FILE)):
        directory.unlock()
        reason = "its broker did not stop in order; start it, stop it, and try again"
        raise StorageFault("cannot repair", path, reason=reason)
    for _, partition_directory in partitions_in(directory.path):
        # What an earlier repair may have left half done is finished or undone.
        tidy(partition_directory)
    return directory


class Outcome(NamedTuple):
    sentence: str
    is_repaired: bool


def repair(
    damages: Sequence[Damage],
    directories: dict[str, LogDirectory],
    bootstrap: str,
    security: PeerSecurity,
) -> list[tuple[TopicPartition, Outcome]]:
    """Partition by partition. `directories` are locked, by path; without a `bootstrap` nothing can
    be fetched."""
    return asyncio.run(_repair_all(damages, directories, bootstrap, security))


async def _repair_all(
    damages: Sequence[Damage],
    directories: dict[str, LogDirectory],
    bootstrap: str,
    security: PeerSecurity,
) -> list[tuple[TopicPartition, Outcome]]:
    others = _Others(bootstrap, security)
    outcomes = []
    by_directory: dict[str, list[Damage]] = {}
    for damage in damages:
        by_directory.setdefault(os.path.dirname(damage.path), []).append(damage)
    try:
        for directory, found in by_directory.items():
            partition = found[0].partition
            log_directory = directories[os.path.dirname(directory)]
            try:
                outcome = await _repair(partition, directory, found, log_directory, others)
            except (CannotRepair, StorageFault, OSError) as reason:
                outcome = Outcome(f"{partition} is not repaired: {reason}.", False)
            outcomes.append((partition, outcome))
    finally:
        await others.peers.close()
    return outcomes


async def _repair(
    partition: TopicPartition,
    directory: str,
    damages: Sequence[Damage],
    log_directory: LogDirectory,
    others: _Others,
) -> Outcome:
    try:
        return await _repair_files(partition, directory, damages, log_directory, others)
    except EpochsAreWrong:
        # Where batch and epoch file disagree only another replica can tell which is right.
        rewrite_epochs(directory)
    rest = [
        damage
        for scrubbed in scrub_partition(
            partition, directory, with_last=True, has_read=lambda count: None
        )
        for damage in scrubbed.damages
    ]
    return await _repair_files(partition, directory, rest, log_directory, others)


async def _repair_files(
    partition: TopicPartition,
    directory: str,
    damages: Sequence[Damage],
    log_directory: LogDirectory,
    others: _Others,
) -> Outcome:
    cleaned_end = _cleaned_ends(log_directory).get(partition, 0)
    bases = base_offsets(directory)
    segments = [
        ClosedSegment(partition, directory, base, following, cleaned_end > 0)
        for base, following in zip(bases, [*bases[1:], None], strict=True)
    ]
    has_gaps = cleaned_end > 0 or await others.is_compacted(partition.topic)
    plans = plan_repair(segments, damages, may_have_gaps=has_gaps, cleaned_end=cleaned_end)
    node_id = log_directory.read_meta().node_id
    sources = await others.sources(partition, node_id) if any(p.cuts for p in plans) else []
    asked: set[BrokerId] = set()
    for group in in_groups(plans):
        begin = partial(
            begin_mending,
            group,
            may_have_gaps=has_gaps,
            index_interval_bytes=INDEX_INTERVAL_BYTES,
            has_read=lambda count: None,
        )
        source, mendings = await mend(partition, begin, sources, others.peers, _at_once)
        swap_mended_offline(directory, [mending.segment.base_offset for mending in mendings])
        if source is not None:
            asked.add(source)
        if group[0].is_whole:
            ends = _cleaned_ends(log_directory)
            ends[partition] = to_compact_again(group[0].segment.base_offset, cleaned_end)
            write_offsets(log_directory.file(CLEANER_FILE), ends)
    for damage in damages:
        if damage.path.endswith(SNAPSHOT_SUFFIX):
            rewrite_snapshot(str(partition), directory, damage.offset)
    if any(damage.path.endswith(EPOCHS_FILE) for damage in damages):
        rewrite_epochs(directory)
    brokers = " and ".join(f"broker {broker}" for broker in sorted(asked))
    whence = f"from {brokers}" if asked else "from its log"
    return Outcome(f"{partition} is repaired {whence}.", True)


def _cleaned_ends(log_directory: LogDirectory) -> dict[TopicPartition, int]:
    try:
        return read_offsets(log_directory.file(CLEANER_FILE))
    except CorruptFile as corrupt:
        raise CannotRepair(str(corrupt)) from corrupt


async def _at_once(work: Callable[[], T]) -> T:
    return work()


class _Others:
    """The other brokers of the cluster. Those to ask first have negative numbers until they have
    said who is who."""

    def __init__(self, bootstrap: str, security: PeerSecurity) -> None:
        addresses = [address_of(each) for each in bootstrap.split(",") if each.strip()]
        self._endpoints = {
            -1 - number: Endpoint("", host, port) for number, (host, port) in enumerate(addresses)
        }
        self._first = list(self._endpoints)
        self.peers = Peers(
            asyncio.get_running_loop(),
            self._endpoints.get,
            client_id=CLIENT_ID,
            security=security,
        )

    async def sources(self, partition: TopicPartition, own_id: BrokerId | None) -> list[BrokerId]:
        """Replicas in sync besides our own, the leader first."""
        if not self._first:
            raise CannotRepair(
                "its records have to come from another replica; say where with --bootstrap-server"
            )
        wanted = MetadataRequestTopic(name=partition.topic)
        answer = await self._ask(MetadataRequest(topics=[wanted], allow_auto_topic_creation=False))
        for broker in answer.brokers:
            self._endpoints[broker.node_id] = Endpoint("", broker.host, broker.port)
        topic = answer.topics[0]
        if topic.error_code:
            raise CannotRepair(f"the cluster answers {Error(topic.error_code).name} for its topic")
        for row in topic.partitions:
            if row.partition_index == partition.partition:
                others = [broker for broker in row.isr_nodes if broker != own_id]
                return sorted(others, key=lambda broker: broker != row.leader_id)
        raise CannotRepair("the cluster has no such partition")

    async def is_compacted(self, topic: str) -> bool:
        """False if there is nobody to ask."""
        if not self._first:
            return False
        resource = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[POLICY]
        )
        answer = await self._ask(DescribeConfigsRequest(resources=[resource]))
        return any(
            "compact" in (row.value or "")
            for result in answer.results
            for row in result.configs
            if row.name == POLICY
        )

    async def _ask(self, request: Message) -> Any:
        reasons = []
        for broker in self._first:
            try:
                return await self.peers.call(broker, request, timeout_ms=TIMEOUT_MS)
            except PeerUnreachable as fault:
                reasons.append(str(fault))
        raise CannotRepair("; ".join(reasons))
