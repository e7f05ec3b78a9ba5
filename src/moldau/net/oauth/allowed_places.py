"""Which addresses and files log-ins by token may use: what Kafka's two JVM properties list.

Settings of clients are often filled in by somebody else than whoever runs the process (CVE-2025-
27817): so an address counts only if it stands, letter by letter, in a list that those settings
cannot reach. For a client the list comes from the environment, for a broker also from its file.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import urlsplit

from moldau.config.java_options import ALLOWED_FILES, ALLOWED_URLS, OPTIONS
from moldau.config.setting_definition import ConfigError

SCHEMES = ("https", "http", "file")
PORTS = {"https": 443, "http": 80}


class Place(NamedTuple):
    """Where something is fetched from."""

    url: str
    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""
    """With the query; of a file its path on disk."""

    @property
    def shown(self) -> str:
        """Without the query, which may hold a key."""
        return self.url.partition("?")[0]


def place_of(key: str, url: str, allowed: Collection[str]) -> Place:
    """Raises ConfigError."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as fault:
        raise ConfigError(key, url, f"it is no address: {fault}") from None
    if parts.scheme not in SCHEMES:
        raise ConfigError(key, url, f"must begin with one of {', '.join(SCHEMES)}")
    if any(sign <= " " or sign > "~" for sign in url):
        raise ConfigError(key, url, "an address is written in ASCII, without spaces")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(key, url, "must not hold a user name or a password")
    _check_allowed(key, url, allowed, ALLOWED_URLS)
    if parts.scheme == "file":
        if parts.hostname or not parts.path:
            raise ConfigError(key, url, "must name a file on this machine: file:///path")
        return Place(url, "file", path=parts.path)
    if not parts.hostname:
        raise ConfigError(key, url, "must name a host")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(url, parts.scheme, parts.hostname, port or PORTS[parts.scheme], path)


def file_of(key: str, path: str, allowed: Collection[str]) -> Place:
    """Raises ConfigError."""
    _check_allowed(key, path, allowed, ALLOWED_FILES)
    return Place(path, "file", path=path)


def _check_allowed(key: str, value: str, allowed: Collection[str], listed_in: str) -> None:
    if value not in allowed:
        limit = (
            f"it may not be used before {listed_in} lists it: in the environment by "
            f"{OPTIONS}=-D{listed_in}=..., for a broker also in its settings file"
        )
        raise ConfigError(key, value, limit)
