"""Requests and responses as they travel: size, header, body.

Frames that are read come without their four bytes of size; what is encoded here carries them.
A header's version follows from the API and its version: flexible ones end in tagged fields. Two
exceptions keep old peers talking: a response to ApiVersions has always the oldest header, since
the client does not yet know what the broker speaks (KIP-511), and ControlledShutdown v0 has no
client id.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from moldau.model.file_regions import FileRegion
from moldau.wire.apis import APIS, response_class
from moldau.wire.primitives import (
    Buffer,
    DecodeError,
    EncodeError,
    skip_tagged_fields,
    truncated,
)
from moldau.wire.schema import VERSION_MAX, Message

Chunk = bytes | FileRegion

API_VERSIONS = 18
CONTROLLED_SHUTDOWN = 7

_NEVER = VERSION_MAX + 1
_FLEXIBLE_FROM = {
    row.key: _NEVER if row.flexible_from is None else row.flexible_from for row in APIS
}
_REQUEST_START = struct.Struct(">hhih")
_REQUEST_START_V0 = struct.Struct(">hhi")
_SIZE = struct.Struct(">i")
_SIZE_AND_ID = struct.Struct(">ii")
_SIZE_AND_ID_FLEXIBLE = struct.Struct(">iix")


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def read_request_header(frame: Buffer) -> RequestHeader:
    """Whose API key is unknown is read as if inflexible: the caller refuses it by its key."""
    size = len(frame)
    if size < _REQUEST_START.size:
        return _read_oldest_header(frame)
    key, version, correlation_id, length = _REQUEST_START.unpack_from(frame, 0)
    position = _REQUEST_START.size
    client_id = None
    if key == CONTROLLED_SHUTDOWN and version == 0:
        return _read_oldest_header(frame)
    if length >= 0:
        end = position + length
        if end > size:
            raise truncated(end, size)
        try:
            client_id = str(frame[position:end], "utf-8")
        except UnicodeDecodeError:
            raise DecodeError("the client id is not UTF-8") from None
        position = end
    elif length != -1:
        raise DecodeError(f"the client id has length {length}")
    if version >= _FLEXIBLE_FROM.get(key, _NEVER):
        if position < size and frame[position] == 0:
            position += 1
        else:
            position = skip_tagged_fields(frame, position)
    return RequestHeader(key, version, correlation_id, client_id, position)


def _read_oldest_header(frame: Buffer) -> RequestHeader:
    position = _REQUEST_START_V0.size
    if len(frame) < position:
        raise truncated(position, len(frame))
    key, version, correlation_id = _REQUEST_START_V0.unpack_from(frame, 0)
    if key != CONTROLLED_SHUTDOWN or version != 0:
        raise truncated(_REQUEST_START.size, len(frame))
    return RequestHeader(key, version, correlation_id, None, position)


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, request: Message
) -> bytes:
    pieces: list[Any] = [b""]
    if api_key == CONTROLLED_SHUTDOWN and version == 0:
        pieces.append(_REQUEST_START_V0.pack(api_key, version, correlation_id))
    else:
        name = b"" if client_id is None else client_id.encode()
        length = -1 if client_id is None else len(name)
        pieces.append(_REQUEST_START.pack(api_key, version, correlation_id, length))
        pieces.append(name)
        if version >= _FLEXIBLE_FROM.get(api_key, _NEVER):
            pieces.append(b"\0")
    request.encode_to(pieces, version)
    try:
        pieces[0] = _SIZE.pack(sum(map(len, pieces)))
        return b"".join(pieces)
    except TypeError as fault:
        raise EncodeError(f"{type(request).__name__} holds bytes of a file") from fault


def encode_response(
    api_key: int, version: int, correlation_id: int, response: Message
) -> list[Chunk]:
    """The whole frame. File regions stay regions; everything between two of them is one chunk."""
    flexible = version >= _FLEXIBLE_FROM[api_key] and api_key != API_VERSIONS
    start = _SIZE_AND_ID_FLEXIBLE if flexible else _SIZE_AND_ID
    pieces: list[Any] = [b""]
    response.encode_to(pieces, version)
    regions = []
    if response.__carries_records__:
        regions = [index for index, piece in enumerate(pieces) if type(piece) is FileRegion]
    # A region is a named tuple of three: its length is not its size.
    size = start.size - _SIZE.size + sum(map(len, pieces))
    size += sum([pieces[index].size_bytes - len(pieces[index]) for index in regions])
    pieces[0] = start.pack(size, correlation_id)
    return _joined(pieces, regions) if regions else [b"".join(pieces)]


def _joined(pieces: list[Any], regions: list[int]) -> list[Chunk]:
    chunks: list[Chunk] = []
    position = 0
    for index in regions:
        if position < index:
            chunks.append(b"".join(pieces[position:index]))
        chunks.append(pieces[index])
        position = index + 1
    if position < len(pieces):
        chunks.append(b"".join(pieces[position:]))
    return chunks


def read_correlation_id(frame: Buffer) -> int:
    """Which request a response answers: what a client needs before it knows how to decode it."""
    if len(frame) < _SIZE.size:
        raise truncated(_SIZE.size, len(frame))
    correlation_id: int = _SIZE.unpack_from(frame, 0)[0]
    return correlation_id


def decode_response(api_key: int, version: int, frame: Buffer) -> Message:
    position = _SIZE.size
    if len(frame) < position:
        raise truncated(position, len(frame))
    if version >= _FLEXIBLE_FROM[api_key] and api_key != API_VERSIONS:
        position = skip_tagged_fields(frame, position)
    return response_class(api_key).decode(frame, version, position)
