"""One partition of a mirror: what an answer means, as facts in and steps out."""

from __future__ import annotations

from moldau.mirroring.copying import Work, parts_of
from moldau.mirroring.partition_mirror import (
    Append,
    Fetched,
    LookAgain,
    LookUpOffsets,
    PartitionMirror,
)
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.records.batch_codec import Record, encode_batch


def batch(base: int, count: int, epoch: int = 0) -> bytes:
    records = [Record(timestamp=1, value=b"v", offset=base + n) for n in range(count)]
    return encode_batch(records, base_offset=base, leader_epoch=epoch)


def partition(start: int = 0, end: int = 0, last_epoch: int = -1) -> PartitionMirror:
    found = PartitionMirror(TopicPartition("orders", 0), b"i" * 16)
    found.stands_at(start, end, last_epoch, 0)
    return found


def row(records: bytes = b"", *, error: int = 0, end: int = 100, diverging: int = -1) -> Fetched:
    return Fetched(error, end, 0, records, diverging)


def test_what_comes_is_appended_where_the_target_ends() -> None:
    mirror = partition(0, 10, 0)
    step = mirror.fetched(row(batch(10, 5, 3) + batch(20, 1, 4)), mirror.generation)
    assert isinstance(step, Append)
    assert (step.offset, step.leader_epoch) == (10, 4)
    assert (mirror.position, mirror.last_epoch, mirror.records) == (21, 4, 6)
    # It is there when the target has said so.
    assert mirror.lag == 90
    mirror.appended(21, 0)
    assert mirror.lag == 79


def test_a_torn_batch_and_what_is_there_already_are_left_out() -> None:
    mirror = partition(0, 10, 0)
    whole = batch(10, 5)
    step = mirror.fetched(row(batch(5, 5) + whole + batch(15, 5)[:-1]), mirror.generation)
    assert isinstance(step, Append)
    assert bytes(step.records) == whole
    assert mirror.position == 15


def test_an_answer_to_an_old_question_is_dropped() -> None:
    mirror = partition(0, 10, 0)
    asked = mirror.generation
    mirror.is_unknown()
    mirror.stands_at(0, 12, 0, 0)
    assert mirror.fetched(row(batch(10, 5)), asked) is None
    assert mirror.position == 12


def test_other_records_at_the_source_stop_it() -> None:
    mirror = partition(0, 10, 0)
    assert mirror.fetched(row(diverging=7), mirror.generation) is None
    assert "from offset 7 on" in mirror.stopped
    assert mirror.fetched(row(batch(10, 5)), mirror.generation) is None


def test_what_passes_is_asked_again() -> None:
    mirror = partition(0, 10, 0)
    error = Error.NOT_LEADER_OR_FOLLOWER
    assert mirror.fetched(row(error=error), mirror.generation) == LookAgain(error)
    assert not mirror.stopped


def out_of_range(mirror: PartitionMirror, start: int, end: int) -> None:
    step = mirror.fetched(row(error=Error.OFFSET_OUT_OF_RANGE), mirror.generation)
    assert isinstance(step, LookUpOffsets)
    mirror.looked_up(start, end, mirror.generation)


def test_an_empty_mirror_begins_where_the_source_begins() -> None:
    mirror = partition()
    out_of_range(mirror, 40, 50)
    assert (mirror.position, mirror.stopped) == (40, "")


def test_records_that_were_deleted_before_they_came_stop_it() -> None:
    mirror = partition(0, 10, 0)
    out_of_range(mirror, 40, 50)
    assert "deleted the records from offset 10 to 39" in mirror.stopped


def test_a_source_that_ends_before_the_target_stops_it() -> None:
    mirror = partition(0, 10, 0)
    out_of_range(mirror, 0, 9)
    assert "ends at offset 9, and the target at 10" in mirror.stopped


def test_a_source_that_has_forgotten_an_epoch_is_believed_the_third_time() -> None:
    mirror = partition(0, 10, 7)
    out_of_range(mirror, 0, 50)
    out_of_range(mirror, 0, 50)
    assert not mirror.stopped
    out_of_range(mirror, 0, 50)
    assert "does not know leader epoch 7" in mirror.stopped


def test_what_the_source_deletes_goes_also_while_nothing_comes() -> None:
    mirror = partition(0, 10, 0)
    deleted = Fetched(0, 10, 4, b"")
    step = mirror.fetched(deleted, mirror.generation)
    assert isinstance(step, Append)
    assert (step.offset, step.log_start, len(step.records)) == (10, 4, 0)
    assert not mirror.is_level
    mirror.appended(10, 4)
    assert mirror.is_level
    assert mirror.fetched(deleted, mirror.generation) is None
    # A crash has taken it back.
    mirror.log_start = 0
    assert isinstance(mirror.fetched(deleted, mirror.generation), Append)


def test_messages_of_old_formats_stop_it() -> None:
    mirror = partition(0, 10, 0)
    old = bytearray(batch(10, 5))
    old[16] = 1
    assert mirror.fetched(row(bytes(old)), mirror.generation) is None
    assert "older than Kafka 0.11" in mirror.stopped


def test_batches_are_sent_about_a_mebibyte_at_a_time() -> None:
    sizes = [0, 600_000, 600_000, 400_000, 3_000_000, 0]
    work = [Work(partition(), Append(0, 0, memoryview(bytes(size)), 0)) for size in sizes]
    parts = [[len(each.step.records) for each in part] for part in parts_of(work)]
    assert parts == [[0, 600_000], [600_000, 400_000], [3_000_000], [0]]
