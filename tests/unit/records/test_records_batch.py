from __future__ import annotations

from moldau.records.batch import read_header, read_overhead, stamp, whole_headers
from moldau.records.batch_codec import Record, decode_batch, encode_batch


def test_stamping_gives_offset_and_epoch_and_leaves_the_checksum_right() -> None:
    batch = bytearray(encode_batch([Record(), Record()]))
    stamp(batch, 0, base_offset=1000, leader_epoch=7)
    assert [record.offset for record in decode_batch(batch)] == [1000, 1001]
    header = read_header(batch)
    assert header.leader_epoch == 7
    assert header.last_offset == 1001
    assert header.offset_end == 1002
    assert read_overhead(batch) == (1000, len(batch))


def test_whole_headers_stop_before_a_torn_batch() -> None:
    batch = encode_batch([Record()])
    log = batch * 3
    assert [position for position, _ in whole_headers(log[:-1])] == [0, len(batch)]
    assert len(list(whole_headers(log))) == 3


def test_a_batch_without_producer_has_no_sequences() -> None:
    header = read_header(encode_batch([Record(), Record()]))
    assert not header.has_producer
    assert header.last_sequence == -1


def test_sequences_run_over_from_the_highest_to_zero() -> None:
    header = read_header(
        encode_batch([Record()] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    )
    assert header.last_sequence == 0
