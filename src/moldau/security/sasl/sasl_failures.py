"""Why a log-in failed: what the client is told, and what only the log may say."""

from __future__ import annotations


class SaslFailure(Exception):
    """A log-in that is refused. `told` goes to the client; the reason may say more, never a secret.

    An empty `told` lets the connection's machine choose the one sentence that all failures of a
    mechanism share, so that nobody learns whether a user exists."""

    def __init__(self, reason: str, *, told: str = "") -> None:
        super().__init__(reason)
        self.told = told


def refused(sentence: str) -> SaslFailure:
    """A failure whose reason the client may know."""
    return SaslFailure(sentence, told=sentence)


class SaslInterrupted(SaslFailure):
    """A log-in that another try may mend: the connection ends and the client is told nothing, for
    with an answer it would give up."""
