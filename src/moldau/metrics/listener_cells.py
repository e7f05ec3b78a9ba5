"""What came through a listener, counted when connections come, log in and go.

Bytes are counted by the kernel, for each connection, and asked of it: those of connections that are
gone are kept here, those of the others are read when somebody wants to know.
"""

from __future__ import annotations


class ListenerCells:
    __slots__ = (
        "blocked_ns",
        "bytes_in",
        "bytes_out",
        "closed",
        "expired",
        "failed_logins",
        "failed_renewals",
        "logins",
        "opened",
        "renewals",
    )

    def __init__(self) -> None:
        self.opened = 0
        self.blocked_ns = 0
        """For how long nobody was let in because a limit was reached."""
        self.closed = 0
        self.logins = 0
        self.failed_logins = 0
        self.renewals = 0
        """Log-ins of clients that were known already."""
        self.failed_renewals = 0
        self.expired = 0
        """Connections that ended because their client did not log in again in time."""
        self.bytes_in = 0
        """Of connections that are gone; so for the next."""
        self.bytes_out = 0

    def leave(self, moved: tuple[int, int] | None) -> None:
        """A connection is about to be closed; so many bytes came and went."""
        self.closed += 1
        if moved is not None:
            self.bytes_in += moved[0]
            self.bytes_out += moved[1]
