"""Producer ids that an adoption must not give out again, wherever a stopped broker left them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.names import TopicPartition
from moldau.records.batch_codec import Record, encode_batch
from moldau.storage.adoption.found_producers import TRANSACTIONS_TOPIC, next_producer_id
from moldau.storage.adoption.kraft_metadata import read_kraft_metadata
from moldau.storage.log_files import LOG_SUFFIX
from moldau.wire.primitives import uvarint
from tests.support.logs import LogBench, SmallSettings, batch

NONE = 0


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path, SmallSettings(segment_bytes=400))


def found(bench: LogBench, topic: str = "t") -> int:
    bench.log.cool()
    return next_producer_id({TopicPartition(topic, 0): str(bench.directory)})


def write(bench: LogBench, *producer_ids: int) -> None:
    for producer_id in producer_ids:
        bench.append(batch(1, producer_id=producer_id, epoch=0, sequence=0))


def test_batches_that_no_snapshot_knows_of_count(bench: LogBench) -> None:
    write(bench, 3_000, 7, 41)
    assert bench.files(".snapshot") == []
    assert found(bench) == 3_001


def test_snapshots_and_what_was_written_after_them_count(bench: LogBench) -> None:
    write(bench, *range(100, 120))
    assert len(bench.files(".snapshot")) > 1
    write(bench, 500)
    assert found(bench) == 501


def test_a_log_without_producers_knows_of_none(bench: LogBench) -> None:
    assert found(bench) == NONE
    bench.append(batch(3))
    assert found(bench) == NONE


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_torn_or_spoilt_end_does_not_count(bench: LogBench, is_cut: bool) -> None:
    write(bench, 5)
    whole = bench.file(0, LOG_SUFFIX).stat().st_size
    write(bench, 900)
    bench.log.cool()
    content = bytearray(bench.file(0, LOG_SUFFIX).read_bytes())
    if is_cut:
        del content[whole + 70 :]
    else:
        content[-1] ^= 1
    bench.file(0, LOG_SUFFIX).write_bytes(content)
    assert found(bench) == 6


def test_ids_of_transactional_ids_count_though_nothing_was_written_with_them(
    bench: LogBench,
) -> None:
    value = b"\0\0" + (7_777).to_bytes(8) + bytes(20)
    records = [Record(0, 1, b"\0\0\0\1x", value), Record(1, 1, b"\0\0\0\1y", None)]
    bench.append(bytes(encode_batch(records)))
    assert found(bench) == NONE
    assert found(bench, TRANSACTIONS_TOPIC) == 7_778


def test_the_blocks_that_a_kraft_controller_gave_out_count(tmp_path: Path) -> None:
    frame = uvarint(1) + uvarint(15) + uvarint(0)
    block = frame + (1).to_bytes(4) + (5).to_bytes(8) + (88_000).to_bytes(8) + uvarint(0)
    content = encode_batch([Record(0, 1, None, block)])
    (tmp_path / "00000000000000000000.log").write_bytes(content)
    assert read_kraft_metadata(str(tmp_path)).producer_id_next == 88_000
