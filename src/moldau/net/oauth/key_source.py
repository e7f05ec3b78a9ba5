"""The keys of an identity provider, kept fresh: fetched before clients come, then again and again.

What is fetched last holds; if nothing can be had, the keys stay as they are and there is another
try after a pause that doubles. The address is asked in a thread, one question at a time.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import NamedTuple

from moldau.model.log_line_limit import LogLimit
from moldau.net.beside_loop import beside_loop
from moldau.net.oauth.allowed_places import Place
from moldau.net.oauth.web_fetch import FetchFault, fetch
from moldau.security.oauth.json_web_keys import KeySet, KeySetFault, read_key_set
from moldau.security.oauth.missing_keys import MissingKeys

log = logging.getLogger("org.apache.kafka.common.security.oauthbearer")
log.addFilter(LogLimit())

THREAD = "moldau-jwks"
FILE_SECONDS = 5.0
"""A file is looked at this often: it costs nothing, and Kafka sees changes at once."""
SECONDS_MIN = 0.01


class KeyPace(NamedTuple):
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


class KeySource:
    def __init__(
        self, place: Place, pace: KeyPace, context: Callable[[], ssl.SSLContext | None]
    ) -> None:
        self._place = place
        self._pace = pace
        self._context = context
        self._missing = MissingKeys()
        self._early: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self.keys = KeySet()

    async def open(self) -> None:
        """Raises FetchFault."""
        self._take(await self._ask())
        self.start()

    def start(self) -> None:
        """Without having asked before."""
        if self._task is None:
            self._early = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._refresh(), name=THREAD)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def missed(self, key_id: str, now_ms: int) -> None:
        """A token names a key that is not here: it may be new."""
        if self._early is not None and self._missing.is_worth_asking(key_id, now_ms):
            self._early.set()

    async def _refresh(self) -> None:
        pause_ms = self._pace.backoff_ms
        is_known = bool(self.keys.keys)
        while True:
            assert self._early is not None
            if is_known:
                await self._wait()
            self._early.clear()
            try:
                keys = await self._ask()
            except FetchFault as fault:
                log.warning("The keys that sign tokens stay as they were: %s", fault)
                await asyncio.sleep(max(SECONDS_MIN, pause_ms / 1000))
                pause_ms = min(2 * pause_ms, self._pace.backoff_max_ms)
                is_known = False
                continue
            pause_ms = self._pace.backoff_ms
            is_known = True
            if keys.digest != self.keys.digest:
                self._take(keys)

    async def _wait(self) -> None:
        """Until it is time, or somebody asks for a key that is not known."""
        assert self._early is not None
        seconds = self._pace.refresh_ms / 1000
        if self._place.scheme == "file":
            seconds = min(seconds, FILE_SECONDS)
        try:
            async with asyncio.timeout(max(SECONDS_MIN, seconds)):
                await self._early.wait()
        except TimeoutError:
            # It is time.
            pass

    def _take(self, keys: KeySet) -> None:
        self.keys = keys
        level = logging.INFO if keys.keys else logging.WARNING
        log.log(level, "%s has %d keys that sign tokens", self._place.shown, len(keys.keys))

    async def _ask(self) -> KeySet:
        return await beside_loop(THREAD, self._fetched, FetchFault)

    def _fetched(self) -> KeySet:
        try:
            return read_key_set(fetch(self._place, context=self._context()))
        except KeySetFault as fault:
            raise FetchFault(f"{self._place.shown} publishes no keys: {fault}") from None
