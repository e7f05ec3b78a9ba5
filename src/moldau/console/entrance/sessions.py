"""Who is signed in: sessions by the cookie's random word, and the brake on guessing passwords.

Bounded in number and age: the session that was used longest ago goes first, one that nobody uses
ends. Passwords are nowhere here; they are in the client's settings of a link, in memory.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from moldau.console.cluster_link import ClusterLink

SESSIONS_MAX = 500
LINKS_MAX = 64
IDLE_S = 30 * 60
LIFE_S = 12 * 3600
NOTICES_MAX = 5

FAILURES_MAX = 5
FAILURE_WINDOW_S = 60.0
ALL_FAILURES_MAX = 30
"""From all addresses together: many addresses are no way around the brake."""
GUESSERS_MAX = 1000


@dataclass(slots=True)
class Session:
    word: str
    token: str
    """What every form that changes something carries."""
    link: ClusterLink | None
    """None: not signed in."""
    begun_at: float
    used_at: float
    owns_link: bool = False
    """The link has this user's own log-in and ends with the session."""
    notices: list[str] = field(default_factory=list)
    """What the next page says above itself."""

    def tell(self, sentence: str) -> None:
        self.notices = [*self.notices, sentence][-NOTICES_MAX:]

    def accepts(self, token: str) -> bool:
        return hmac.compare_digest(self.token.encode(), token.encode())


class Sessions:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self.ended: list[ClusterLink] = []
        """Links whose session has ended, for somebody who can wait to close them."""

    def find(self, word: str) -> Session | None:
        now = self._clock()
        self._expire(now)
        session = self._sessions.get(word)
        if session is not None:
            session.used_at = now
            self._sessions.move_to_end(word)
        return session

    def begin(self, link: ClusterLink | None, *, owns_link: bool = False) -> Session:
        """A session with a new word: after a log-in nobody may know the one from before."""
        now = self._clock()
        self._expire(now)
        session = Session(_word(), _word(), link, now, now, owns_link)
        self._sessions[session.word] = session
        owners = [each.word for each in self._sessions.values() if each.owns_link]
        for oldest in owners[: max(0, len(owners) - LINKS_MAX)]:
            self.end(oldest)
        while len(self._sessions) > SESSIONS_MAX:
            # Visitors who have not signed in push out one another, and nobody who has.
            self.end(next(w for w, each in self._sessions.items() if not each.owns_link))
        return session

    def end(self, word: str) -> None:
        session = self._sessions.pop(word, None)
        if session is not None and session.link is not None and session.owns_link:
            self.ended.append(session.link)

    def end_all(self) -> None:
        for word in list(self._sessions):
            self.end(word)

    def _expire(self, now: float) -> None:
        # In the order of their last use: the first that is alive ends the search. One that is used
        # all the time ends by its age.
        for word, session in list(self._sessions.items()):
            if now - session.used_at <= IDLE_S:
                break
            self.end(word)
        old = [w for w, each in self._sessions.items() if now - each.begun_at > LIFE_S]
        for word in old:
            self.end(word)


def _word() -> str:
    return secrets.token_urlsafe(32)


class LoginBrake:
    """Refuses log-ins for a while after too many that failed, by address, user and altogether."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def wait_s(self, *names: str) -> float:
        """How long one of these has to wait; 0 if it may try."""
        now = self._clock()
        return max(self._wait(name, FAILURES_MAX, now) for name in names) or self._wait(
            "", ALL_FAILURES_MAX, now
        )

    def failed(self, *names: str) -> None:
        now = self._clock()
        for name in (*names, ""):
            times = self._failures.pop(name, [])
            most = ALL_FAILURES_MAX if not name else FAILURES_MAX
            self._failures[name] = [*times, now][-most:]
        while len(self._failures) > GUESSERS_MAX:
            self._failures.popitem(last=False)

    def succeeded(self, *names: str) -> None:
        """The last try was none of the failures it was counted among."""
        for name in (*names, ""):
            times = self._failures.get(name)
            if times:
                times.pop()

    def _wait(self, name: str, most: int, now: float) -> float:
        times = [at for at in self._failures.get(name, ()) if now - at < FAILURE_WINDOW_S]
        return FAILURE_WINDOW_S - (now - times[0]) if len(times) >= most else 0.0
