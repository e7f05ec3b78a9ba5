"""What a mechanism looks like to the connection: tokens in, tokens out, then a name."""

from __future__ import annotations

from typing import NamedTuple, Protocol

GSSAPI = "GSSAPI"
PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER, GSSAPI)


class LoggedIn(NamedTuple):
    """How a log-in ended well."""

    name: str
    is_token_authenticated: bool = False
    expires_at_ms: int | None = None
    """When what was shown at the log-in is no longer good."""


class SaslServer(Protocol):
    """The server's side of one log-in. Used once and thrown away."""

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """The answer to a token of the client; raises SaslFailure."""

    @property
    def logged_in(self) -> LoggedIn | None:
        """None until the last token has been judged."""


class SaslClient(Protocol):
    """The client's side of one log-in."""

    def first(self) -> bytes:
        """What the client sends before it has heard anything."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """The next token; None if nothing more is to be sent. Raises SaslFailure."""

    @property
    def is_complete(self) -> bool: ...
