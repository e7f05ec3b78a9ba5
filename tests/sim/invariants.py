"""What must hold after every step, whatever happens to the brokers.

The truth about a partition is what some replica has called committed: it may grow and never
change. Replicas are compared with it as far as they call their own log committed, and a new leader
has to have all of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from moldau.model.names import TopicId, TopicPartition
from moldau.records.batch import BatchHeader, read_header, whole_headers
from moldau.records.batch_codec import ControlType, decode_batch, decode_marker
from moldau.replication.replica import Replica
from moldau.storage.log.partition_log import PartitionLog
from tests.sim.cluster import Host
from tests.sim.world import SimLoop, World

READ_BYTES = 1 << 20


def place_of(place: TopicPartition, topic_id: TopicId) -> TopicPartition:
    """Of the topic, and not of another that had the name before."""
    return TopicPartition(f"{place.topic}#{topic_id.hex()[:8]}", place.partition)


def _place(replica: Replica) -> TopicPartition:
    place = replica.partition.topic_partition
    return place_of(place, replica.log.topic_id) if place.topic.startswith("c") else place


class Batch(NamedTuple):
    offset: int
    offset_end: int
    content: bytes


class Seen:
    """What was last seen of one replica of one process."""

    __slots__ = ("epoch", "high_watermark", "is_leader", "led_until_us", "matched", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.epoch = -1
        self.is_leader = False
        self.led_until_us = -1
        """When it ceased to lead."""
        self.high_watermark = 0
        self.matched = 0
        """Batches of the truth that the replica was found to have."""


class Truth:
    """A partition's committed batches, and what they say about their producers."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.epochs: list[int] = []
        self.by_offset: dict[int, Batch] = {}
        self._next: dict[tuple[int, int], int] = {}

    @property
    def offset_end(self) -> int:
        return self.batches[-1].offset_end if self.batches else 0

    def offset_end_before(self, epoch: int) -> int:
        """What was committed before that leader epoch: its leader has to have it all."""
        for batch, committed_in in zip(reversed(self.batches), reversed(self.epochs), strict=True):
            if committed_in < epoch:
                return batch.offset_end
        return 0

    def grow(self, batch: Batch, header: BatchHeader, epoch: int) -> str | None:
        """Committed in that leader epoch; what is wrong with it, if anything."""
        self.epochs.append(epoch)
        expected_offset = self.offset_end
        self.batches.append(batch)
        self.by_offset[batch.offset] = batch
        if batch.offset != expected_offset:
            return f"offset {batch.offset} follows {expected_offset}"
        if header.has_producer and not header.is_control:
            key = header.producer_id, header.producer_epoch
            expected = self._next.get(key, 0)
            if header.base_sequence != expected:
                return f"producer {key} writes {header.base_sequence} where {expected} is due"
            self._next[key] = header.last_sequence + 1
        return None


class Invariants:
    def __init__(self, world: World, hosts: list[Host]) -> None:
        self._world = world
        self._hosts = {host.name: host for host in hosts}
        self.truths: dict[TopicPartition, Truth] = {}
        self.leaders: dict[tuple[TopicPartition, int], str] = {}
        self._owners: dict[tuple[str, int, int], str] = {}
        self._seen: dict[tuple[SimLoop, TopicPartition], Seen] = {}
        self.allows_loss = False
        self.losses = 0
        """Unclean elections give up committed records by intent: then they are only counted."""
        self.fates: dict[bytes, bool] = {}
        """By value: whether its transaction was to be committed."""
        world.after_step = self.check

    def truth(self, place: TopicPartition) -> Truth:
        truth = self.truths.get(place)
        if truth is None:
            truth = self.truths[place] = Truth()
        return truth

    def check(self, loop: SimLoop) -> None:
        host = self._hosts.get(loop.name)
        if host is None or host.loop is not loop or host.replicas is None:
            return
        for replica in host.replicas:
            partition = replica.partition
            key = loop, partition.topic_partition
            seen = self._seen.get(key)
            if seen is None or seen.replica is not replica:
                # A replica that was moved away and came back begins anew.
                seen = self._seen[key] = Seen(replica)
            if (
                seen.epoch != partition.leader_epoch
                or seen.is_leader != partition.is_leader
                or seen.high_watermark != partition.high_watermark
            ):
                self._compare(host, replica, seen)
        coordinators = host.broker._coordinators if host.broker is not None else None
        if coordinators is None:
            return
        for shards in (coordinators.groups, coordinators.transactions):
            for number, shard in shards._shards.items():
                if shard.engine is not None:
                    owner = self._owners.setdefault(
                        (shards.topic, number, shard.leader_epoch), host.name
                    )
                    if owner != host.name:
                        self._fail(
                            f"{shards.topic}-{number} is coordinated by {owner} and {host.name} in "
                            f"leader epoch {shard.leader_epoch}"
                        )

    def _fail(self, text: str) -> None:
        self._world.fail(text)

    def _compare(self, host: Host, replica: Replica, seen: Seen) -> None:
        partition = replica.partition
        place = _place(replica)
        name = f"{host.name} {place}"
        begins = partition.is_leader and (
            not seen.is_leader or seen.epoch != partition.leader_epoch
        )
        if partition.leader_epoch < seen.epoch:
            self._fail(f"{name} went from leader epoch {seen.epoch} to {partition.leader_epoch}")
        if partition.high_watermark < seen.high_watermark and not self.allows_loss:
            self._fail(
                f"{name} took its high watermark back from {seen.high_watermark} to "
                f"{partition.high_watermark}"
            )
        if begins:
            self._begin(host, replica, seen)
        if seen.is_leader and not partition.is_leader:
            seen.led_until_us = self._world.now_us
        seen.epoch, seen.is_leader = partition.leader_epoch, partition.is_leader
        seen.high_watermark = partition.high_watermark
        self._match(name, replica, seen, partition.high_watermark)

    def _begin(self, host: Host, replica: Replica, seen: Seen) -> None:
        partition = replica.partition
        place, epoch = _place(replica), partition.leader_epoch
        self._world.note(
            f"{host.name} leads {place} epoch={epoch} isr={sorted(partition.isr)} "
            f"end={replica.log.offset_end} hw={partition.high_watermark}"
        )
        leader = self.leaders.setdefault((place, epoch), host.name)
        if leader != host.name:
            self._fail(f"{place} has two leaders in epoch {epoch}: {leader} and {host.name}")
        truth = self.truth(place)
        committed = truth.offset_end_before(epoch)
        if replica.log.offset_end < committed:
            self._lost(
                f"{host.name} leads {place} in epoch {epoch} with records up to "
                f"{replica.log.offset_end}, but those up to {committed} are committed"
            )
        seen.matched = 0
        self._match(f"{host.name} {place}", replica, seen, committed)

    def _lost(self, text: str) -> None:
        if self.allows_loss:
            self.losses += 1
            self._world.note(f"loss: {text}")
        else:
            self._fail(text)

    def _match(self, name: str, replica: Replica, seen: Seen, limit: int) -> None:
        """The replica's log is the truth, up to the limit."""
        if self.losses:
            return
        truth = self.truth(_place(replica))
        offset = truth.batches[seen.matched - 1].offset_end if seen.matched else 0
        while offset < limit:
            batches = self._read(replica, offset, limit)
            if not batches:
                return
            for batch, header in batches:
                if seen.matched < len(truth.batches):
                    if truth.batches[seen.matched] != batch:
                        self._lost(
                            f"{name} has another batch at {batch.offset} than is committed at "
                            f"{truth.batches[seen.matched].offset}"
                        )
                        return
                else:
                    wrong = truth.grow(batch, header, replica.partition.leader_epoch)
                    if wrong is not None:
                        self._fail(f"{name}: {wrong}")
                seen.matched += 1
                offset = batch.offset_end

    def _read(self, replica: Replica, offset: int, limit: int) -> list[tuple[Batch, BatchHeader]]:
        log = replica.log
        limit = min(limit, log.offset_end)
        if offset >= limit or log.fault is not None:
            return []
        if isinstance(log, PartitionLog):
            region, _ = log.read(offset, READ_BYTES, limit, True)
            if region is None:
                return []
            content = os.pread(region.file.fileno(), region.size_bytes, region.position)
        else:
            # At rest: what is committed now may have been written before it was.
            files = sorted(Path(log.directory).glob("*.log"))
            content = b"".join(file.read_bytes() for file in files)
        found = []
        for position, header in whole_headers(content):
            if header.base_offset >= offset and header.offset_end <= limit:
                piece = content[position : position + header.size_bytes]
                found.append((Batch(header.base_offset, header.offset_end, piece), header))
        return found

    def is_newest(self, place: TopicPartition, node_id: int) -> bool:
        """Whether no later leader is known. One that was stopped or cut off may go on for a moment
        with what it knew: it can commit nothing, but it answers."""
        return self.newest_leader(place) == f"b{node_id}" and not self.losses

    def had_old_leader(self, place: TopicPartition, since_us: int) -> bool:
        """Whether somebody went on to lead though another did already, at some time since then."""
        newest = max((epoch for known, epoch in self.leaders if known == place), default=-1)
        for (loop, known), seen in self._seen.items():
            if known != place or (seen.is_leader and seen.epoch == newest):
                continue
            led_until_us = seen.led_until_us
            if seen.is_leader:
                led_until_us = loop.ended_us if loop.is_ended else self._world.now_us
            if led_until_us >= since_us:
                return True
        return False

    def newest_leader(self, place: TopicPartition) -> str | None:
        epochs = [epoch for known, epoch in self.leaders if known == place]
        return self.leaders[place, max(epochs)] if epochs else None

    def acknowledged(self, place: TopicPartition, offset: int, value: bytes) -> None:
        batch = self.truth(place).by_offset.get(offset)
        if batch is None or value not in batch.content:
            self._fail(f"{place} offset {offset} was acknowledged, but is not committed")

    def read(self, place: TopicPartition, batch: Batch) -> None:
        """A consumer was given it."""
        if not self.losses and self.truth(place).by_offset.get(batch.offset) != batch:
            self._fail(f"{place} offset {batch.offset} was read, but is not committed")

    def transactions(self, place: TopicPartition) -> str | None:
        """What is wrong with the partition's transactions, now that all have ended."""
        open_values: dict[int, list[bytes]] = {}
        for batch in self.truth(place).batches:
            header = read_header(batch.content)
            if not header.is_transactional:
                continue
            (record, *_) = decode_batch(batch.content)
            if not header.is_control:
                open_values.setdefault(header.producer_id, []).append(record.value or b"")
                continue
            marker = decode_marker(record)
            is_kept = marker is not None and marker.kind is ControlType.COMMIT
            for value in open_values.pop(header.producer_id, []):
                if self.fates.get(value) is not is_kept:
                    return f"{value!r} in {place} was {'kept' if is_kept else 'dropped'}"
        return f"{open_values} in {place} were never ended" if open_values else None
