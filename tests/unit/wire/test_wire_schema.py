from __future__ import annotations

import pytest

from moldau.wire.messages.groups import HeartbeatRequest
from moldau.wire.primitives import DecodeError, EncodeError
from moldau.wire.schema import (
    Message,
    Struct,
    VersionRange,
    array,
    blob,
    boolean,
    float64,
    int8,
    int16,
    int32,
    raw_records,
    string,
    struct,
    uint16,
    uuid,
)


class Leader(Struct):
    leader_id: int = int32(default=-1)


class Part(Struct):
    index: int = int32()
    leader_epoch: int = int32("1+", default=-1)
    replicas: list[int] = array(int32)
    leader: Leader | None = struct(Leader, "2+", tag=3)
    directory: bytes = uuid("2+", tag=1)


class Topic(Struct):
    name: str = string()
    alias: str | None = string("1+", nullable="1+")
    parts: list[Part] = array(Part)


class Example(Message, versions="0-3", flexible="2+"):
    topics: list[Topic] | None = array(Topic, nullable="1+")
    is_last: bool = boolean()
    port: int = uint16("1+")
    ratio: float = float64("1+")
    token: bytes | None = blob("1+", nullable="2+", default=b"")
    records: bytes | memoryview | None = raw_records("3+", nullable="3+")
    leader: Leader | None = struct(Leader, "3+", nullable="3+")


FULL = Example(
    topics=[Topic(name="é", alias=None, parts=[Part(index=7, leader_epoch=2, replicas=[1, 2])])],
    is_last=True,
    port=65535,
    ratio=0.5,
    token=b"t",
    records=b"batch",
    leader=Leader(leader_id=9),
)


def test_every_field_has_a_default_and_no_two_messages_share_a_list() -> None:
    first, second = Example(), Example()
    assert (first.is_last, first.port, first.token, first.records) == (False, 0, b"", None)
    assert first.topics == []
    assert first.topics is not second.topics


def test_a_constructor_takes_only_keywords_it_knows() -> None:
    with pytest.raises(TypeError):
        Example(topic=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Example([])  # type: ignore[call-arg]


def test_messages_are_equal_when_all_their_fields_are() -> None:
    assert Part(index=1) == Part(index=1)
    assert Part(index=1) != Part(index=2)
    assert Part() != Topic()
    assert repr(Leader(leader_id=4)) == "Leader(leader_id=4)"


def test_the_oldest_version_holds_only_its_fields_and_the_rest_get_their_defaults() -> None:
    data = FULL.encode(0)
    assert data.hex() == (
        "00000001" "0002c3a9" "00000001" "00000007" "00000002" "00000001" "00000002" "01"
    )  # fmt: skip
    decoded = Example.decode(data, 0)
    assert decoded.topics is not None
    assert decoded.topics[0].parts[0].leader_epoch == -1
    assert (decoded.port, decoded.leader) == (0, None)


def test_a_flexible_version_uses_compact_lengths_and_ends_structs_with_tags() -> None:
    data = FULL.encode(3)
    assert data.hex() == (
        "02" "03c3a9" "00" "02" "00000007" "00000002" "03" "00000001" "00000002" "00" "00"
        "01" "ffff" "3fe0000000000000" "0274" "066261746368" "01" "00000009" "00" "00"
    )  # fmt: skip
    assert Example.decode(data, 3) == FULL


def test_tagged_fields_are_left_out_at_their_default_and_ordered_by_tag() -> None:
    part = Part(leader=Leader(), directory=bytes(16))
    message = Example(topics=[Topic(parts=[part])])
    assert Example.decode(message.encode(2), 2).topics[0].parts[0].leader is None  # type: ignore[index]
    part.leader, part.directory = Leader(leader_id=5), b"d" * 16
    tail = "0110" + b"d".hex() * 16 + "0305" + "0000000500"
    assert "02" + tail in message.encode(2).hex()
    assert Example.decode(message.encode(2), 2) == message


def test_unknown_tagged_fields_are_skipped() -> None:
    known = Example(topics=None).encode(2)
    assert known[-1] == 0
    data = known[:-1] + b"\x01\x63\x03abc"
    assert Example.decode_from(data, 2) == (Example(topics=None), len(data))


def test_a_tagged_field_whose_size_is_a_lie_is_refused() -> None:
    message = Example(topics=[Topic(parts=[Part(leader=Leader(leader_id=5))])])
    data = message.encode(2).replace(b"\x01\x03\x05", b"\x01\x03\x04")
    with pytest.raises(DecodeError, match="leader"):
        Example.decode(data, 2)


@pytest.mark.parametrize("length", [32_767, 32_768])
def test_text_is_as_long_in_new_versions_as_it_may_be_in_old_ones(length: int) -> None:
    data = HeartbeatRequest(group_id="g" * length).encode(4)
    if length == 32_767:
        assert len(HeartbeatRequest.decode(data, 4).group_id) == length
    else:
        with pytest.raises(DecodeError, match="group_id has 32768 bytes"):
            HeartbeatRequest.decode(data, 4)


def test_null_is_refused_where_a_version_does_not_allow_it() -> None:
    with pytest.raises(DecodeError, match="topics"):
        Example.decode(b"\xff\xff\xff\xff\x00", 0)
    with pytest.raises(EncodeError):
        Example(topics=None).encode(0)
    assert Example.decode(Example(topics=None).encode(1), 1).topics is None


def test_a_length_below_minus_one_is_refused_even_where_null_is_allowed() -> None:
    with pytest.raises(DecodeError, match="topics"):
        Example.decode(b"\xff\xff\xff\xfe" + bytes(20), 1)


def test_text_that_is_not_utf8_is_refused() -> None:
    data = FULL.encode(3).replace("é".encode(), b"\xff\xfe")
    with pytest.raises(DecodeError, match="UTF-8"):
        Example.decode(data, 3)


def test_every_strict_prefix_is_refused() -> None:
    for version in range(4):
        data = FULL.encode(version)
        for length in range(len(data)):
            with pytest.raises(DecodeError):
                Example.decode(data[:length], version)


def test_decoding_starts_at_a_position_and_tells_where_it_ended() -> None:
    data = b"head" + FULL.encode(3) + b"tail"
    message, position = Example.decode_from(memoryview(bytearray(data)), 3, 4)
    assert message == FULL
    assert data[position:] == b"tail"


def test_records_are_views_of_the_frame_and_other_bytes_are_copies() -> None:
    frame = bytearray(FULL.encode(3))
    message = Example.decode(memoryview(frame), 3)
    frame[frame.index(b"batch")] = ord("c")
    assert isinstance(message.records, memoryview)
    assert (bytes(message.records), message.token) == (b"catch", b"t")


def test_a_version_that_was_never_declared_is_refused() -> None:
    with pytest.raises(DecodeError):
        Example.decode(b"", 4)
    with pytest.raises(EncodeError):
        FULL.encode(4)


@pytest.mark.parametrize(
    "message",
    [
        Example(port=-1),
        Example(topics=[Topic(name="x" * 40_000)]),
        Example(topics=[Topic(name="\ud800")]),
        Example(topics=[Topic(parts=[Part(index="1")])]),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_its_field_is_an_encode_error(message: Example) -> None:
    with pytest.raises(EncodeError, match="Example v1"):
        message.encode(1)


def test_version_ranges_are_written_as_kafka_writes_them() -> None:
    def versions(text: str) -> list[int]:
        return [version for version in range(6) if version in VersionRange(text)]

    assert versions("2+") == [2, 3, 4, 5]
    assert versions("1-3") == [1, 2, 3]
    assert versions("4") == [4]
    assert versions("") == []


def test_long_lengths_and_counts_use_several_bytes() -> None:
    class Wide(Message, versions="0-1", flexible="1+"):
        code: int = int16()
        names: list[str] = array(string)
        flags: list[int] = array(int8)
        ids: list[bytes] = array(uuid)

    wide = Wide(
        code=-2,
        names=["n" * length for length in (0, 126, 127, 128, 20_000)] * 40,
        flags=[-1, 0, 127] * 100,
        ids=[bytes([i]) * 16 for i in range(200)],
    )
    for version in (0, 1):
        assert Wide.decode(wide.encode(version), version) == wide
