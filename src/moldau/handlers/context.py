"""What a handler knows about the request besides its body.

Made once per request by dispatch, so it is a plain tuple: nothing here is looked up or computed.
"""

from __future__ import annotations

from typing import NamedTuple

ANONYMOUS = "User:ANONYMOUS"


class RequestContext(NamedTuple):
    api_key: int
    api_version: int
    client_id: str | None
    listener: str
    """The listener the client came through: answers carry the addresses of that one."""
    principal: str = ANONYMOUS
    client_host: str = ""
    security_protocol: str = "PLAINTEXT"
