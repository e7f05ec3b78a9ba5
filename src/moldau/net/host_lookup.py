"""Looks up the addresses of names beside the loop: few at a time, and nobody waits for long."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from functools import partial

from moldau.net.beside_loop import beside_loop
from moldau.net.transport import host_of

LOOKUPS_MAX = 16
SECONDS_MAX = 5.0
FAULTS = (OSError, UnicodeError)


class HostLookup:
    def __init__(self) -> None:
        self._under_way = 0

    async def addresses(self, hosts: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """By name; none for one that nobody knows, or knew in time."""
        names = list(dict.fromkeys(hosts))
        found = {name: (address,) for name in names if (address := plain_address(name))}
        asked = [name for name in names if name not in found]
        rows = await asyncio.gather(*map(self._look_up, asked))
        return found | dict(zip(asked, rows, strict=True))

    async def _look_up(self, name: str) -> tuple[str, ...]:
        if self._under_way >= LOOKUPS_MAX:
            return ()
        self._under_way += 1
        # A thread cannot be stopped: who has waited long enough leaves it behind, and it counts.
        looking = asyncio.create_task(self._count(name))
        try:
            return await asyncio.wait_for(asyncio.shield(looking), SECONDS_MAX)
        except TimeoutError:
            return ()

    async def _count(self, name: str) -> tuple[str, ...]:
        try:
            return await beside_loop("host-lookup", partial(_addresses_of, name), FAULTS)
        except FAULTS:
            return ()
        finally:
            self._under_way -= 1


def plain_address(text: str) -> str | None:
    """As a connection's own address is written; None for what is none."""
    try:
        return host_of((str(ipaddress.ip_address(text)),))
    except ValueError:
        return None


def _addresses_of(name: str) -> tuple[str, ...]:
    rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(host_of(row[4]) for row in rows))
