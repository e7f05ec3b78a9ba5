"""Connection quotas of addresses, on their way from the tree to whoever accepts connections.

A quota may name a host: its addresses are looked up beside the loop when its quota changes, as
Apache Kafka does, and the last ones found go on to hold while it cannot be looked up.
"""

from __future__ import annotations

import asyncio
import logging

from moldau.net.host_lookup import HostLookup, plain_address
from moldau.security.quotas.connection_rates import UNLIMITED, ConnectionRates
from moldau.security.quotas.quota_entities import CONNECTION_CREATION_RATE, IP
from moldau.security.quotas.quota_filters import Quotas

log = logging.getLogger("kafka.network.SocketServer")


class AddressQuotas:
    def __init__(self, lookup: HostLookup) -> None:
        self._lookup = lookup
        self._rates: ConnectionRates | None = None
        self._limits: dict[str | None, float] = {}
        """By address or name as it was written; None is the default."""
        self._found: dict[str, tuple[str, ...]] = {}
        """The addresses of names."""
        self._looking: asyncio.Task[None] | None = None

    def keep(self, rates: ConnectionRates) -> None:
        """From now on these are held to the quotas."""
        self._rates = rates
        self._apply()

    def follow(self, quotas: Quotas) -> None:
        limits = {
            entity[0][1]: values[CONNECTION_CREATION_RATE]
            for entity, values in quotas.items()
            if entity[0][0] == IP and CONNECTION_CREATION_RATE in values
        }
        if limits == self._limits:
            return
        self._tell(limits)
        self._limits = limits
        self._apply()
        names = [name for name in limits if name is not None and plain_address(name) is None]
        if names:
            self.stop()
            self._looking = asyncio.get_running_loop().create_task(self._look_up(names))

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _look_up(self, names: list[str]) -> None:
        found = await self._lookup.addresses(names)
        for name, addresses in found.items():
            if addresses:
                self._found[name] = addresses
            else:
                log.warning("The connection quota of %s holds for nobody: unknown host", name)
        self._found = {name: self._found[name] for name in names if name in self._found}
        self._apply()

    def _apply(self) -> None:
        if self._rates is None:
            return
        limits: dict[str, float] = {}
        for name, limit in self._limits.items():
            if name is not None:
                plain = plain_address(name)
                addresses = self._found.get(name, ()) if plain is None else (plain,)
                limits |= dict.fromkeys(addresses, limit)
        self._rates.limit_addresses(limits, self._limits.get(None, UNLIMITED))

    def _tell(self, limits: dict[str | None, float]) -> None:
        for name, limit in limits.items():
            if self._limits.get(name) == limit:
                continue
            if name is None:
                log.info("Updated default max IP connection rate to %d", limit)
            else:
                log.info("Updating max connection rate override for %s to %d", name, limit)
        for name in self._limits.keys() - limits.keys():
            if name is None:
                log.info("Updated default max IP connection rate to %d", UNLIMITED)
            else:
                log.info("Removing max connection rate override for %s", name)
