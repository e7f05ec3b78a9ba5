"""Producer snapshots, byte for byte as Apache Kafka writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.storage.log_state.producer_snapshots import (
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    snapshot_offsets,
    write_snapshot,
)
from moldau.storage.log_state.producer_state import BatchSpan, ProducerEntry
from moldau.storage.storage_faults import CorruptFile

WRITTEN_BY_KAFKA = bytes.fromhex(
    "0001df8e52ef000000010000000000000000000000000002000000000000"
    "000400000000000001a1e142d56b00000000ffffffffffffffff"
)
"""By a 4.3.1 broker: producer 0 after three transactions of one record."""


def facts(entry: ProducerEntry) -> tuple[object, ...]:
    return (
        entry.producer_id,
        entry.epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        entry.txn_first_offset,
        entry.batches,
    )


def test_a_snapshot_of_apache_kafka_is_read_and_written_back_the_same() -> None:
    (entry,) = decode_snapshot(WRITTEN_BY_KAFKA, "x")
    assert facts(entry)[:3] == (0, 0, 0)
    assert entry.batches == [BatchSpan(2, 4, 0, entry.last_timestamp)]
    assert entry.txn_first_offset == -1
    assert encode_snapshot([entry]) == WRITTEN_BY_KAFKA


def test_a_snapshot_keeps_the_last_batch_and_the_open_transaction(tmp_path: Path) -> None:
    spans = [BatchSpan(4, 10, 4, 777), BatchSpan(9, 20, 4, 778)]
    written = [ProducerEntry(7, 2, 3, 778, 6, spans), ProducerEntry(8, 0, -1, 5, -1, [])]
    write_snapshot(str(tmp_path), 21, written)
    first, second = read_snapshot(str(tmp_path), 21)
    assert facts(first) == (7, 2, 3, 778, 6, [spans[-1]])
    assert facts(second) == facts(written[1])


def test_a_damaged_snapshot_is_refused_wherever_the_damage_is() -> None:
    for position in range(len(WRITTEN_BY_KAFKA)):
        damaged = bytearray(WRITTEN_BY_KAFKA)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptFile):
            decode_snapshot(bytes(damaged), "x")
    for size in range(len(WRITTEN_BY_KAFKA)):
        with pytest.raises(CorruptFile):
            decode_snapshot(WRITTEN_BY_KAFKA[:size], "x")


def test_snapshots_are_found_by_name() -> None:
    names = ["00000000000000000100.snapshot", "00000000000000000020.snapshot", "x.snapshot"]
    names += ["00000000000000000100.log", "00000000000000000007.snapshot.deleted"]
    assert snapshot_offsets(names) == [20, 100]
