"""Which names the metrics may be asked by.

A page of the web can point a name of its own at 127.0.0.1 and then read, through somebody's
browser, what only this machine should reach (DNS rebinding). The browser still says that name in
`Host`, so a name that is not this broker's is refused. An address is nobody's trick: a browser that
shows it as the page's origin has loaded the page from there.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

HOST = b"host:"


class KnownHosts:
    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower().rstrip(".") for name in names if name)

    def fault(self, head: bytes) -> str | None:
        """What is wrong with the request's Host, if anything. Only old clients send none."""
        hosts = [
            line[len(HOST) :].strip().decode("latin-1")
            for line in head.split(b"\r\n")[1:]
            if line.lower().startswith(HOST)
        ]
        if len(hosts) > 1:
            return "more than one Host was sent"
        if not hosts or self._is_known(_without_port(hosts[0]).lower().rstrip(".")):
            return None
        return "Host is no name of this broker; metrics.http.hosts can name it"

    def _is_known(self, host: str) -> bool:
        return (
            host == "localhost"
            or host.endswith(".localhost")
            or host in self._names
            or _is_address(host)
        )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
