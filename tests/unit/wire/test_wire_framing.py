from __future__ import annotations

from typing import BinaryIO

import pytest

from moldau.model.file_regions import FileRegion
from moldau.wire import request_framing
from moldau.wire.apis import APIS, api, request_class, response_class
from moldau.wire.messages import headers
from moldau.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
)
from moldau.wire.messages.metadata import MetadataResponse
from moldau.wire.messages.replication import ControlledShutdownRequest
from moldau.wire.primitives import DecodeError, EncodeError
from moldau.wire.request_framing import RequestHeader, read_request_header
from tests.support import seeds

FETCH, METADATA, API_VERSIONS = 1, 3, 18


class File:
    """Stands for an open segment; framing must never read it."""

    def fileno(self) -> int:
        raise AssertionError("framing does no I/O")


def frame_of(request: bytes) -> bytes:
    assert int.from_bytes(request[:4], "big") == len(request) - 4
    return request[4:]


@pytest.mark.parametrize("client_id", [None, "", "konzument-č"])
@pytest.mark.parametrize("row", APIS, ids=lambda row: row.name)
def test_a_request_is_read_back_with_its_header_in_every_version(row, client_id) -> None:  # type: ignore[no-untyped-def]
    for version in range(row.version_min, row.version_max + 1):
        request = request_class(row.key)()
        frame = frame_of(request_framing.encode_request(row.key, version, 77, client_id, request))
        header = read_request_header(memoryview(frame))
        assert header[:3] == (row.key, version, 77)
        has_client_id = (row.name, version) != ("ControlledShutdown", 0)
        assert header.client_id == (client_id if has_client_id else None)
        body = request_class(row.key).decode(frame, version, header.body_position)
        assert body.encode(version) == frame[header.body_position :]


def test_a_header_is_flexible_from_the_apis_first_flexible_version() -> None:
    for version, header_version in ((2, 1), (3, 2)):
        frame = frame_of(
            request_framing.encode_request(API_VERSIONS, version, 5, "me", ApiVersionsRequest())
        )
        parsed, position = headers.RequestHeader.decode_from(frame, header_version)
        assert (parsed.request_api_key, parsed.client_id) == (API_VERSIONS, "me")
        assert position == read_request_header(frame).body_position


def test_tagged_fields_of_a_header_are_skipped() -> None:
    start = bytes.fromhex("0003 000c 00000009 0002 6d65")
    assert read_request_header(start + b"\x01\x05\x02ab" + b"body") == RequestHeader(
        METADATA, 12, 9, "me", len(start) + 5
    )


def test_the_oldest_controlled_shutdown_has_no_client_id() -> None:
    request = ControlledShutdownRequest(broker_id=3)
    frame = frame_of(request_framing.encode_request(7, 0, 1, "ignored", request))
    assert frame == bytes.fromhex("0007 0000 00000001 00000003")
    assert read_request_header(frame) == RequestHeader(7, 0, 1, None, 8)


def test_an_unknown_api_is_left_to_the_caller() -> None:
    frame = bytes.fromhex("7abc 0001 00000009 ffff")
    assert read_request_header(frame) == RequestHeader(0x7ABC, 1, 9, None, 10)
    assert api(0x7ABC) is None


def test_a_version_of_the_future_is_read_as_flexible() -> None:
    frame = bytes.fromhex("0012 0063 00000009 0001 78 00") + b"whatever"
    assert read_request_header(frame) == RequestHeader(API_VERSIONS, 99, 9, "x", 12)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "0003",
        "0003 000c 00000009",
        "0003 000c 00000009 0005 6d65",
        "0003 000c 00000009 fffe",
        "0003 000c 00000009 0002 fffe 00",
        "0003 000c 00000009 ffff",
        "0003 000c 00000009 ffff 01",
        "0003 000c 00000009 ffff ffffffffff",
        "0007 0000 0000",
    ],
)
def test_a_header_that_is_cut_short_or_garbage_is_refused(frame: str) -> None:
    with pytest.raises(DecodeError):
        read_request_header(bytes.fromhex(frame))


def test_noise_is_a_header_or_refused() -> None:
    draw = seeds.chance(7)
    for _ in range(seeds.times(3000)):
        noise = draw.randbytes(draw.randrange(40))
        try:
            assert read_request_header(noise).body_position <= len(noise)
        except DecodeError:
            continue


def test_a_response_to_api_versions_has_always_the_oldest_header() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, max_version=13)])
    for version in range(5):
        (frame,) = request_framing.encode_response(API_VERSIONS, version, 6, response)
        assert isinstance(frame, bytes)
        assert frame[4:8] == b"\x00\x00\x00\x06"
        assert frame[8:] == response.encode(version)


@pytest.mark.parametrize("row", APIS, ids=lambda row: row.name)
def test_a_response_is_read_back_in_every_version(row) -> None:  # type: ignore[no-untyped-def]
    for version in range(row.version_min, row.version_max + 1):
        response = response_class(row.key)()
        (chunk,) = request_framing.encode_response(row.key, version, 2**31 - 1, response)
        assert isinstance(chunk, bytes)
        frame = frame_of(chunk)
        assert request_framing.read_correlation_id(frame) == 2**31 - 1
        decoded = request_framing.decode_response(row.key, version, frame)
        assert decoded.encode(version) == response.encode(version)


def test_tagged_fields_of_a_response_header_are_skipped() -> None:
    body = MetadataResponse(cluster_id="c").encode(12)
    frame = b"\x00\x00\x00\x01" + b"\x01\x00\x03abc" + body
    assert request_framing.decode_response(METADATA, 12, frame) == MetadataResponse(cluster_id="c")


@pytest.mark.parametrize("frame", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x01"])
def test_a_response_that_ends_in_its_header_is_refused(frame: bytes) -> None:
    with pytest.raises(DecodeError):
        request_framing.decode_response(METADATA, 12, frame)


def fetch_response(*records: object) -> FetchResponse:
    partitions = [
        FetchablePartitionResponse(partition_index=index, records=piece)  # type: ignore[arg-type]
        for index, piece in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)])


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_file_regions_stay_regions_between_joined_bytes(version: int) -> None:
    region, other = FileRegion(File(), 10, 5000), FileRegion(File(), 0, 7)
    chunks = request_framing.encode_response(
        FETCH, version, 1, fetch_response(region, b"abc", None, other)
    )
    kinds = [type(chunk) for chunk in chunks]
    assert kinds in ([bytes, FileRegion, bytes, FileRegion], [bytes, FileRegion] * 2 + [bytes])
    assert [chunk for chunk in chunks if isinstance(chunk, FileRegion)] == [region, other]

    plain = request_framing.encode_response(
        FETCH, version, 1, fetch_response(bytes(5000), b"abc", None, bytes(7))
    )
    filled = b"".join(
        bytes(chunk.size_bytes) if isinstance(chunk, FileRegion) else chunk for chunk in chunks
    )
    assert [filled] == plain


def test_records_may_come_in_several_pieces() -> None:
    region = FileRegion(File(), 0, 4)
    chunks = request_framing.encode_response(
        FETCH, 12, 1, fetch_response([b"ab", region, memoryview(b"c")])
    )
    whole = b"".join(b"REGI" if isinstance(chunk, FileRegion) else chunk for chunk in chunks)
    response = request_framing.decode_response(FETCH, 12, frame_of(whole))
    assert isinstance(response, FetchResponse)
    records = response.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"abREGIc"


def test_an_empty_region_sends_nothing() -> None:
    empty = FileRegion(File(), 0, 0)
    chunks = request_framing.encode_response(FETCH, 12, 1, fetch_response(empty))
    assert chunks == request_framing.encode_response(FETCH, 12, 1, fetch_response(b""))


def test_bytes_of_a_file_cannot_be_joined_into_a_request_or_a_byte_string() -> None:
    response = fetch_response(FileRegion(File(), 0, 4))
    with pytest.raises(EncodeError):
        response.encode(12)
    with pytest.raises(EncodeError):
        request_framing.encode_request(FETCH, 12, 1, None, response)


def test_a_real_file_region_is_measured_not_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        opened: BinaryIO = file
        chunks = request_framing.encode_response(
            FETCH, 12, 1, fetch_response(FileRegion(opened, 2, 6))
        )
        assert file.tell() == 0
    first = chunks[0]
    assert isinstance(first, bytes)
    sizes = [c.size_bytes if isinstance(c, FileRegion) else len(c) for c in chunks]
    assert int.from_bytes(first[:4], "big") == sum(sizes) - 4
