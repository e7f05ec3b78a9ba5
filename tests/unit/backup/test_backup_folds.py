"""What the coordinators' topics say: offsets count from their commit on, decisions are noticed."""

from __future__ import annotations

import json
import struct

from moldau.backup.coordinator_folds import GroupFold, State, TransactionFold, group_rows
from moldau.backup.moments import GroupRow
from moldau.records.batch import BatchHeader, read_header
from moldau.records.batch_codec import (
    ControlType,
    EndMarker,
    Record,
    decode_batch,
    encode_batch,
    encode_marker,
)
from moldau.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from moldau.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue

Batch = tuple[BatchHeader, list[Record]]


def opened(content: bytes) -> Batch:
    return read_header(content), decode_batch(content)


def commit(offset: int | None, producer: int = -1, topic: str = "t") -> Batch:
    key = struct.pack(">h", 1) + OffsetCommitKey(group="g", topic=topic, partition=0).encode(0)
    value = None
    if offset is not None:
        value = struct.pack(">h", 3) + OffsetCommitValue(offset=offset).encode(3)
    record = Record(timestamp=1, key=key, value=value)
    return opened(
        encode_batch([record], producer_id=producer, producer_epoch=0, transactional=producer >= 0)
    )


def marker(producer: int, kind: ControlType) -> Batch:
    end = EndMarker(kind, 0)
    return opened(encode_marker(end, producer_id=producer, producer_epoch=0, timestamp=1))


def state(producer: int, status: State, epoch: int = 0) -> Batch:
    key = struct.pack(">h", 0) + TransactionLogKey(transactional_id=f"id-{producer}").encode(0)
    value = TransactionLogValue(
        producer_id=producer, producer_epoch=epoch, transaction_status=status
    )
    record = Record(timestamp=1, key=key, value=struct.pack(">h", 0) + value.encode(0))
    return opened(encode_batch([record]))


def offsets(fold: GroupFold, *committing: int) -> dict[str, int]:
    settled = fold.settled(lambda producer, epoch: producer in committing)
    return {topic: value[0] for (_, topic, _), value in settled.items()}


def test_an_offset_in_a_transaction_counts_from_its_commit_on() -> None:
    fold = GroupFold()
    fold.take(*commit(5))
    fold.take(*commit(9, producer=7))
    assert offsets(fold) == {"t": 5}
    assert offsets(fold, 7) == {"t": 9}, "its transaction is decided, the marker on its way"
    # The next moment goes on from here.
    fold = GroupFold(json.loads(json.dumps(fold.kept())))
    fold.take(*marker(7, ControlType.COMMIT))
    assert offsets(fold) == {"t": 9}
    fold.take(*commit(20, producer=7))
    fold.take(*marker(7, ControlType.ABORT))
    assert offsets(fold, 7) == {"t": 9}


def test_an_offset_that_was_deleted_is_gone() -> None:
    fold = GroupFold()
    fold.take(*commit(5))
    fold.take(*commit(6, topic="u"))
    fold.take(*commit(None))
    assert offsets(fold) == {"u": 6}
    assert group_rows(fold.settled(lambda *_: False)) == {"g": (GroupRow("u", 0, 6, -1, ""),)}


def test_a_decision_is_noticed_and_a_marker_round_is_none() -> None:
    fold = TransactionFold()
    assert not fold.take(*state(1, State.ONGOING))
    assert not fold.settle()(1, 0)
    assert fold.take(*state(1, State.PREPARE_COMMIT))
    assert fold.settle()(1, 0)
    assert not fold.take(*state(1, State.COMPLETE_COMMIT))
    assert not fold.settle()(1, 0), "what is open now is the next one"
    assert fold.take(*state(1, State.ONGOING)), "one has ended and another begun meanwhile"
    assert fold.take(*state(1, State.PREPARE_ABORT))
    assert not fold.settle()(1, 0)


def test_a_decision_with_an_epoch_of_its_own_is_of_the_epoch_before() -> None:
    fold = TransactionFold()
    fold.take(*state(4, State.PREPARE_COMMIT, epoch=3))
    assert fold.settle()(4, 2)
    assert not fold.settle()(4, 1)
    again = TransactionFold(json.loads(json.dumps(fold.kept())))
    assert again.settle()(4, 2)
