"""The brokers that are registered in a ZooKeeper, for commands that were given one (--zookeeper).

Old tools wrote into ZooKeeper themselves; here it only says where the brokers are, which are then
asked.
"""

from __future__ import annotations

import json
import socket

REACH_SECONDS_MAX = 3.0
PORT = 2181
PLAIN = "PLAINTEXT"


def brokers_in(connect: str) -> list[str]:
    """HOST:PORT of each, the same ones as in their metadata; none if nobody answers there."""
    hosts = connect.partition("/")[0].split(",")
    if not any(map(_listens, hosts)):
        return []
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    client = KazooClient(connect, timeout=REACH_SECONDS_MAX)
    try:
        client.start(REACH_SECONDS_MAX)
        ids = client.get_children("/brokers/ids")
        rows = [json.loads(client.get(f"/brokers/ids/{each}")[0]) for each in sorted(ids, key=int)]
    except (KazooException, KazooTimeoutError, ValueError):
        return []
    finally:
        client.stop()
        client.close()
    return [address for row in rows if (address := _address(row)) is not None]


def _listens(host: str) -> bool:
    name, _, port = host.strip().rpartition(":")
    try:
        place = (name or host.strip(), int(port) if name else PORT)
        socket.create_connection(place, REACH_SECONDS_MAX).close()
    except (OSError, ValueError):
        return False
    return True


def _address(row: dict[str, object]) -> str | None:
    """Where plain clients go, if the broker has such a place, otherwise its first one."""
    endpoints = row.get("endpoints")
    places = [str(each) for each in endpoints] if isinstance(endpoints, list) else []
    plain = [each for each in places if each.startswith(f"{PLAIN}://")]
    chosen = (plain or places or [""])[0].partition("://")[2]
    return chosen or None
