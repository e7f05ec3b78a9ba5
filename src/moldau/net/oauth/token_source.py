"""A client's own token: asked for when it is needed, kept until another one is due.

Blocks; used from threads beside the loop, of which one asks and the others wait for what it gets.
There is no thread in the background: every log-in, and every renewal of one, looks whether the
token is still young enough. If no other can be had, the old one does as long as it lasts.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from moldau.model.log_line_limit import LogLimit
from moldau.net.oauth.web_fetch import FetchFault
from moldau.security.oauth.token_requests import HeldToken
from moldau.security.sasl.sasl_failures import SaslFailure

log = logging.getLogger("org.apache.kafka.common.security.oauthbearer")
log.addFilter(LogLimit())

TURN_SECONDS = 60.0
"""For somebody else's question, which has a time-out itself."""


class TokenPace(NamedTuple):
    window: float
    """Share of a token's life after which another one is due."""
    jitter: float
    period_ms_min: int
    buffer_ms: int
    backoff_ms: int
    backoff_ms_max: int


class TokenSource:
    def __init__(
        self,
        ask: Callable[[], HeldToken],
        pace: TokenPace,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`ask` raises FetchFault."""
        self._ask = ask
        self._pace = pace
        self._now_ms = now_ms
        self._sleep = sleep
        self._turn = threading.Lock()
        self._held: HeldToken | None = None
        self._due_at_ms = 0

    def token(self) -> str:
        """Raises SaslFailure."""
        if not self._turn.acquire(timeout=TURN_SECONDS):
            raise SaslFailure("no token: another question for one is still unanswered")
        try:
            return self._fresh().text
        except FetchFault as fault:
            raise SaslFailure(f"no token: {fault}") from None
        finally:
            self._turn.release()

    def _fresh(self) -> HeldToken:
        held, now_ms = self._held, self._now_ms()
        if held is not None and now_ms < self._due_at_ms:
            return held
        try:
            fresh = self._patiently()
        except FetchFault as fault:
            if held is None or held.expires_at_ms <= self._now_ms():
                raise
            log.warning("The token is kept that is there, for there is no other: %s", fault)
            self._due_at_ms = self._now_ms() + self._pace.backoff_ms_max
            return held
        self._held = fresh
        share = random.uniform(0, self._pace.jitter)
        self._due_at_ms = due_at_ms(fresh, self._now_ms(), self._pace, share)
        return fresh

    def _patiently(self) -> HeldToken:
        pause_ms = max(1, self._pace.backoff_ms)
        waited_ms = 0
        while True:
            try:
                return self._ask()
            except FetchFault as fault:
                waited_ms += pause_ms
                if fault.is_final or waited_ms > self._pace.backoff_ms_max:
                    raise
                self._sleep(pause_ms / 1000)
                pause_ms *= 2


def due_at_ms(held: HeldToken, now_ms: int, pace: TokenPace, share: float) -> int:
    """When another token is to be asked for, as in Kafka: late in its life, not within the buffer
    before its end, not again too soon; for a short life the first of these alone."""
    life_ms = held.expires_at_ms - now_ms
    due_ms = now_ms + int(life_ms * min(1.0, pace.window + share))
    if life_ms <= pace.period_ms_min + pace.buffer_ms:
        return due_ms
    return max(min(due_ms, held.expires_at_ms - pace.buffer_ms), now_ms + pace.period_ms_min)
