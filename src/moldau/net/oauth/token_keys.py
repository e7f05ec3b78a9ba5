"""All keys that a broker checks tokens with: one source for each address, however many listeners
use it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import NamedTuple

from moldau.config.setting_definition import ConfigError
from moldau.net.oauth.allowed_places import Place
from moldau.net.oauth.key_source import KeyPace, KeySource
from moldau.net.oauth.option_tls import context_by
from moldau.net.oauth.web_fetch import FetchFault


class KeyPlace(NamedTuple):
    key: str
    """The setting that names it."""
    place: Place
    pace: KeyPace
    tls_options: tuple[tuple[str, str], ...]
    """Of the log-in module, for https."""


class TokenKeys:
    def __init__(self) -> None:
        self._sources: dict[KeyPlace, KeySource] = {}
        self._is_open = False

    def source(self, wanted: KeyPlace) -> KeySource:
        """Raises ConfigError. One that is asked for while the broker runs has its keys a moment
        later; until then no token is good."""
        found = self._sources.get(wanted)
        if found is None:
            options = dict(wanted.tls_options)
            _context(wanted, options)
            found = KeySource(wanted.place, wanted.pace, lambda: _context(wanted, options))
            self._sources[wanted] = found
            if self._is_open:
                found.start()
        return found

    def start_late(self) -> None:
        """The broker runs already."""
        self._is_open = True

    async def open(self) -> None:
        """Before clients are let in. Raises ConfigError."""
        self._is_open = True
        for wanted, source in self._sources.items():
            try:
                await source.open()
            except FetchFault as fault:
                limit = f"the keys that sign tokens cannot be fetched: {fault}"
                raise ConfigError(wanted.key, wanted.place.shown, limit) from None

    async def close(self) -> None:
        for source in self._sources.values():
            await source.close()


def _context(wanted: KeyPlace, options: Mapping[str, str]) -> ssl.SSLContext | None:
    return context_by(wanted.key, options) if wanted.place.scheme == "https" else None
