"""What one listener asks of whoever comes in: how to speak, and who it is.

`broker/` chooses an entrance for each listener by its security protocol. The one for everybody
asks nothing and costs nothing.
"""

from __future__ import annotations

import socket
from typing import NamedTuple, Protocol

from moldau.net.transport import PlainTransport, Transport
from moldau.security.naming.principal import Principal


class LoginStep(NamedTuple):
    """What an authenticator makes of one frame."""

    answer: bytes | None = None
    """A whole frame, its size included; None if there is nothing to say."""
    principal: Principal | None = None
    """Who the client is, if that is certain now: then its requests are served."""
    refusal: str = ""
    """Why the client is turned away, for the log; then the answer leaves late and is the last."""
    is_renewal: bool = False
    """A client that was known already has logged in again."""
    is_request: bool = False
    """The frame is an ordinary request: it is to be served, after the rest of this step."""


class Authenticator(Protocol):
    """A state machine for one connection. It does no I/O."""

    @property
    def frame_bytes_max(self) -> int:
        """A client that is not known yet may not send more at once."""

    @property
    def stays(self) -> bool:
        """Whether it wants to see the frames after the log-in too: to renew it, or to end it."""

    def greet(self) -> LoginStep:
        """The transport is ready, and no frame was taken yet: who shows a certificate may be known
        already."""

    def take(self, frame: memoryview) -> LoginStep:
        """One frame, without its size. While the log-in is not complete every frame comes here;
        afterwards those of an authenticator that `stays`. Of those it answers what concerns it,
        and says of the others that they are requests."""


class Entrance(Protocol):
    def transport(self, client: socket.socket) -> Transport:
        """The socket does not block."""

    def authenticator(self, transport: Transport) -> Authenticator | None:
        """None if the client need not say who it is."""


class OpenEntrance:
    """Everybody may come in, and bytes are sent as they are."""

    def transport(self, client: socket.socket) -> Transport:
        return PlainTransport(client)

    def authenticator(self, transport: Transport) -> Authenticator | None:
        return None


OPEN_ENTRANCE = OpenEntrance()
