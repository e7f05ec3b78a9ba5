"""Listener settings read into endpoints: where to listen and what to tell clients.

The broker binds `bound`, then replaces what only the machine knows in `advertised`: an empty
host by the machine's name, port 0 by the port the kernel gave.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.config.setting_definition import ConfigError
from moldau.model.cluster import Endpoint

PLAINTEXT = "PLAINTEXT"
SECURITY_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LISTENER = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*?)\]?:(-?[0-9]+)")
EVERYWHERE = ("0.0.0.0", "::", "")


class Listening(NamedTuple):
    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker: str


def listening(values: Mapping[str, Any], given: Mapping[str, str]) -> Listening:
    """`values` are the typed attributes, `given` the texts that someone really wrote."""
    protocols = protocol_map(values["listener_security_protocol_map"])
    # A file written for a KRaft cluster names its controller listeners; nothing listens there.
    kraft = {name.upper() for name in values["controller_listener_names"]}
    bound = endpoints("listeners", _listener_texts(values, given), protocols, skip=kraft)
    if not bound:
        raise ConfigError("listeners", ",".join(values["listeners"]), "must name a listener")
    _check_ports(bound, values["listeners"])
    texts = _advertised_texts(values, given)
    if texts is None:
        advertised = tuple(e if e.host not in EVERYWHERE else _with_host(e, "") for e in bound)
    else:
        advertised = endpoints("advertised.listeners", texts, protocols, skip=kraft)
        _check_advertised(advertised, bound, ",".join(texts))
    inter_broker = _inter_broker(values, given, advertised)
    return Listening(bound, advertised, inter_broker)


def protocol_map(text: str) -> dict[str, str]:
    protocols = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = (word.strip() for word in pair.partition(":"))
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise ConfigError(
                "listener.security.protocol.map",
                text,
                f"{pair} is not NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}",
            )
        if name.upper() in protocols:
            raise ConfigError("listener.security.protocol.map", text, f"names {name} twice")
        protocols[name.upper()] = protocol.upper()
    return protocols


def endpoints(
    key: str, texts: tuple[str, ...], protocols: Mapping[str, str], skip: set[str]
) -> tuple[Endpoint, ...]:
    found: dict[str, Endpoint] = {}
    for text in texts:
        match = _LISTENER.fullmatch(text)
        if match is None:
            raise ConfigError(key, text, "must look like NAME://host:port")
        name, host, port = match[1].upper(), match[2], int(match[3])
        if name in skip:
            continue
        if name not in protocols:
            limit = f"listener.security.protocol.map gives no security protocol for {name}"
            raise ConfigError(key, text, limit)
        if not 0 <= port <= 65535:
            raise ConfigError(key, text, "port must be 0 to 65535")
        if name in found:
            raise ConfigError(key, ",".join(texts), f"names listener {name} twice")
        found[name] = Endpoint(name, host, port, protocols[name])
    return tuple(found.values())


def _listener_texts(values: Mapping[str, Any], given: Mapping[str, str]) -> tuple[str, ...]:
    texts: tuple[str, ...] = values["listeners"]
    if "listeners" not in given and ("port" in given or "host.name" in given):
        texts = (f"PLAINTEXT://{values['host_name']}:{values['port']}",)
    return texts


def _advertised_texts(
    values: Mapping[str, Any], given: Mapping[str, str]
) -> tuple[str, ...] | None:
    texts: tuple[str, ...] | None = values["advertised_listeners"]
    if texts is None and ("advertised.host.name" in given or "advertised.port" in given):
        host = values["advertised_host_name"] or values["host_name"]
        port = values["advertised_port"]
        texts = (f"PLAINTEXT://{host}:{values['port'] if port is None else port}",)
    return texts


def _check_ports(bound: tuple[Endpoint, ...], texts: tuple[str, ...]) -> None:
    taken: dict[int, list[Endpoint]] = {}
    for endpoint in bound:
        taken.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in taken.items():
        # One port may serve IPv4 on one listener and IPv6 on another (KIP-1047).
        families = [":" in endpoint.host for endpoint in sharing]
        if port != 0 and len(sharing) > 1 and families.count(True) != families.count(False):
            raise ConfigError("listeners", ",".join(texts), f"uses port {port} twice")


def _check_advertised(
    advertised: tuple[Endpoint, ...], bound: tuple[Endpoint, ...], text: str
) -> None:
    names = {endpoint.listener for endpoint in bound}
    for endpoint in advertised:
        if endpoint.listener not in names:
            limit = f"listener {endpoint.listener} is not in listeners ({', '.join(sorted(names))})"
            raise ConfigError("advertised.listeners", text, limit)
        if endpoint.host in ("0.0.0.0", "::"):
            limit = f"{endpoint.host} is not an address clients can connect to"
            raise ConfigError("advertised.listeners", text, limit)


def _inter_broker(
    values: Mapping[str, Any], given: Mapping[str, str], advertised: tuple[Endpoint, ...]
) -> str:
    name: str | None = values["inter_broker_listener_name"]
    protocol = values["security_inter_broker_protocol"]
    names = [endpoint.listener for endpoint in advertised]
    if name is None:
        if protocol in names:
            return str(protocol)
        speaking = [e.listener for e in advertised if e.security_protocol == protocol]
        if speaking:
            return speaking[0]
        limit = f"no advertised listener speaks it ({', '.join(names)})"
        raise ConfigError("security.inter.broker.protocol", protocol, limit)
    if "security.inter.broker.protocol" in given:
        limit = "set this or security.inter.broker.protocol, not both"
        raise ConfigError("inter.broker.listener.name", name, limit)
    if name.upper() not in names:
        limit = f"must be an advertised listener ({', '.join(names)})"
        raise ConfigError("inter.broker.listener.name", name, limit)
    return name.upper()


def _with_host(endpoint: Endpoint, host: str) -> Endpoint:
    return Endpoint(endpoint.listener, host, endpoint.port, endpoint.security_protocol)
