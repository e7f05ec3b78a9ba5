"""What a handler knows about the request besides its body.

Made by dispatch once for each kind of request of a connection, and anew when the client becomes
another one: a plain tuple, in which nothing is looked up or computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from moldau.model.names import Millis
from moldau.security.naming.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from moldau.handlers.quota_keeping import Usage
    from moldau.net.loop_time import LoopTime


class ClientConnection(Protocol):
    """What a handler may note about the client it answers."""

    client_software: tuple[str, str]
    client_port: int
    is_follower: bool
    is_closed: bool
    is_never_held: bool

    @property
    def loop_time(self) -> LoopTime | None:
        """None while nobody has a quota of it."""

    def pause(self, pause_ms: Millis) -> None:
        """Start nothing more of this client for a while."""


class RequestContext(NamedTuple):
    api_key: int
    api_version: int
    client_id: str | None
    listener: str
    """The listener the client came through: answers carry the addresses of that one."""
    principal: Principal = ANONYMOUS
    client_host: str = ""
    security_protocol: str = "PLAINTEXT"
    connection: ClientConnection | None = None
    """None for what this broker asks itself."""
    usage: Usage | None = None
    """Only where quotas are kept."""
