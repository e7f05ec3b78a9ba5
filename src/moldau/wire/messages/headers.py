"""The headers before every request and response.

`request_framing.py` reads and writes them by hand, because their version depends on the API; they
are declared here for whoever meets one elsewhere (an Envelope) and for the tests.
"""

from __future__ import annotations

from moldau.wire.schema import (
    Message,
    int16,
    int32,
    legacy_string,
)


class RequestHeader(Message, versions="0-2", flexible="2+"):
    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    client_id: str | None = legacy_string("1+", nullable="1+", default="")


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: int = int32()
