"""A coordinator's journal on a real log: positions, commits, refusals, and reading it all back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.coordinators import log_journal
from moldau.coordinators.log_journal import LogJournal
from moldau.engine.machine import JournalFault
from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.records.batch_codec import Record, encode_batch
from moldau.replication.replica import Replica
from moldau.wire.messages.group_records import GroupMetadataKey
from tests.support.logs import full_disk
from tests.support.services import NODE_ID, Node, play, turns

ALONE = PartitionImage(NODE_ID, 3, (NODE_ID,), (NODE_ID,))
WITH_FOLLOWER = PartitionImage(NODE_ID, 3, (NODE_ID, 2), (NODE_ID, 2))


class Listener:
    def __init__(self) -> None:
        self.committed_to: list[int] = []
        self.faults: list[JournalFault] = []

    def committed(self, position: int) -> None:
        self.committed_to.append(position)

    def failed(self, fault: JournalFault) -> None:
        self.faults.append(fault)


def encode(facts: Sequence[object], wall_ms: int) -> list[bytes]:
    """One batch per fact."""
    return [encode_batch([Record(value=str(f).encode(), timestamp=wall_ms)]) for f in facts]


def replica_of(node: Node, image: PartitionImage = ALONE) -> Replica:
    node.place("__facts", image)
    return node.replicas.find("__facts", 0)


def listening(node: Node, replica: Replica) -> tuple[LogJournal, Listener]:
    journal, listener = LogJournal(replica, encode, node.clock), Listener()
    journal.listen(listener)
    return journal, listener


def test_with_one_replica_facts_are_committed_when_they_are_appended(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        journal, listener = listening(node, replica_of(node))
        assert journal.position == -1
        assert journal.append(["a", "b"]) == 1
        assert journal.append(["c"]) == 2
        assert listener.committed_to[-1] == 2
        assert journal.position == 2

    play(scenario, tmp_path)


def test_with_a_follower_the_high_watermark_decides(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = replica_of(node, WITH_FOLLOWER)
        journal, listener = listening(node, replica)
        assert journal.append(["a", "b"]) == 1
        await turns()
        assert listener.committed_to == []
        replica.follower_fetched(2, 1, node.clock.monotonic_ms())
        await turns()
        assert listener.committed_to == [0]
        assert journal.append(["c"]) == 2
        replica.follower_fetched(2, 3, node.clock.monotonic_ms())
        await turns()
        assert listener.committed_to == [0, 2]
        assert not replica.parked, "nothing is left to watch for"

    play(scenario, tmp_path)


def test_a_journal_that_is_closed_tells_nothing_more(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = replica_of(node, WITH_FOLLOWER)
        journal, listener = listening(node, replica)
        journal.append(["a"])
        journal.close()
        replica.follower_fetched(2, 1, node.clock.monotonic_ms())
        await turns()
        assert listener.committed_to == []
        assert not replica.parked

    play(scenario, tmp_path)


def test_too_few_in_sync_replicas_are_told_as_an_absent_coordinator(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = replica_of(node, replace(WITH_FOLLOWER, isr=(NODE_ID,)))
        replica.partition.require_in_sync(2)
        journal, listener = listening(node, replica)
        with pytest.raises(JournalFault) as refused:
            journal.append(["a"])
        assert refused.value.error is Error.COORDINATOR_NOT_AVAILABLE
        assert listener.faults == []
        assert journal.position == -1

    play(scenario, tmp_path)


def test_a_journal_of_an_earlier_leader_epoch_writes_nothing(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = replica_of(node)
        journal, _ = listening(node, replica)
        node.place("__facts", replace(ALONE, leader_epoch=4))
        with pytest.raises(JournalFault) as refused:
            journal.append(["a"])
        assert refused.value.error is Error.NOT_COORDINATOR
        assert replica.log.offset_end == 0

    play(scenario, tmp_path)


def test_a_partition_that_is_led_elsewhere_has_no_journal_here(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = replica_of(node, PartitionImage(2, 3, (NODE_ID, 2), (NODE_ID, 2)))
        with pytest.raises(ApiError) as refused:
            LogJournal(replica, encode, node.clock)
        assert refused.value.error is Error.NOT_LEADER_OR_FOLLOWER

    play(scenario, tmp_path)


def test_facts_that_no_record_can_hold_are_refused_and_the_journal_goes_on(tmp_path: Path) -> None:
    def encode_short(facts: Sequence[object], wall_ms: int) -> list[bytes]:
        keys = [GroupMetadataKey(group=str(fact)).encode(0) for fact in facts]
        return encode(keys, wall_ms)

    async def scenario(node: Node) -> None:
        replica, listener = replica_of(node), Listener()
        journal = LogJournal(replica, encode_short, node.clock)
        journal.listen(listener)
        with pytest.raises(JournalFault) as refused:
            journal.append(["a", "b" * 40_000])
        assert refused.value.error is Error.UNKNOWN_SERVER_ERROR
        assert replica.log.offset_end == 0
        assert not listener.faults
        assert journal.append(["a"]) == 0

    play(scenario, tmp_path)


def test_facts_that_are_too_large_are_refused_whole(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = replica_of(node)
        journal, listener = listening(node, replica)
        with pytest.raises(JournalFault) as refused:
            journal.append(["small", "x" * replica.settings.max_message_bytes])
        assert refused.value.error is Error.MESSAGE_TOO_LARGE
        assert (replica.log.offset_end, listener.faults) == (0, [])

    play(scenario, tmp_path)


def test_a_write_that_fails_half_way_makes_the_journal_fail(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = replica_of(node)
        journal, listener = listening(node, replica)
        journal.append(["before"])
        with full_disk(replica.log.size_bytes + 200), pytest.raises(JournalFault) as refused:
            journal.append(["x" * 50, "y" * 500])
        assert refused.value.error is Error.NOT_COORDINATOR
        assert [fault.error for fault in listener.faults] == [Error.NOT_COORDINATOR]
        assert replica.log.offset_end == 2, "the first batch is there"

    play(scenario, tmp_path)


def test_a_write_that_fails_at_once_changes_nothing(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = replica_of(node)
        journal, listener = listening(node, replica)
        journal.append(["before"])
        with full_disk(replica.log.size_bytes), pytest.raises(JournalFault):
            journal.append(["x"])
        assert listener.faults == []
        assert journal.append(["after"]) == 1

    play(scenario, tmp_path)


def test_everything_is_read_back_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_journal, "SLICE_BYTES", 300)

    async def scenario(node: Node) -> None:
        replica = replica_of(node)
        journal, _ = listening(node, replica)
        for number in range(20):
            journal.append([f"fact {number}"])
            if number == 10:
                replica.log.roll()
        again = LogJournal(replica, encode, node.clock)
        found = [
            (header.base_offset, record.value)
            for header, records in again.batches()
            for record in records
        ]
        assert found == [(number, f"fact {number}".encode()) for number in range(20)]

    play(scenario, tmp_path)


def test_a_torn_batch_is_told(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = replica_of(node)
        journal, _ = listening(node, replica)
        journal.append(["a fact"])
        path = Path(replica.log.directory) / f"{0:020d}.log"
        content = bytearray(path.read_bytes())
        content[-1] ^= 0xFF
        path.write_bytes(content)
        with pytest.raises(ApiError) as refused:
            list(journal.batches())
        assert refused.value.error is Error.CORRUPT_MESSAGE

    play(scenario, tmp_path)


def test_replayed_facts_count_as_committed_only_below_the_high_watermark(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        replica = replica_of(node, WITH_FOLLOWER)
        journal, _ = listening(node, replica)
        journal.append(["a", "b"])
        journal.close()
        again, listener = listening(node, replica)
        assert again.position == 1
        assert listener.committed_to == []
        replica.follower_fetched(2, 2, node.clock.monotonic_ms())
        await turns()
        assert listener.committed_to == [1]

    play(scenario, tmp_path)
