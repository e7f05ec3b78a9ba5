"""Where a broker listens and what it tells clients, once the system has chosen free ports."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from moldau.config.broker_config import BrokerConfig
from moldau.model.cluster import Endpoint
from moldau.net.acceptor import Listener
from moldau.net.server import SocketSettings


def listeners_of(config: BrokerConfig) -> list[Listener]:
    return [
        Listener(place.listener, place.host, place.port, place.security_protocol)
        for place in config.bound_endpoints
    ]


def advertised_by(config: BrokerConfig, bound: Iterable[Listener]) -> tuple[Endpoint, ...]:
    """What clients are told; an empty host is this machine, port 0 the port that was chosen."""
    ports = {listener.name: listener.port for listener in bound}
    return tuple(
        Endpoint(
            place.listener,
            place.host or _this_machine(),
            place.port or ports[place.listener],
            place.security_protocol,
        )
        for place in config.advertised_endpoints
    )


def socket_settings_of(config: BrokerConfig) -> SocketSettings:
    return SocketSettings(
        request_bytes_max=config.socket_request_max_bytes,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        backlog=config.socket_listen_backlog_size,
        idle_ms_max=config.connections_max_idle_ms,
        connections_max=config.max_connections,
        connections_per_listener_max={
            place.listener: config.for_listener(place.listener).max_connections
            for place in config.bound_endpoints
        },
        connections_per_second_max=config.max_connection_creation_rate,
        connections_per_second_listener_max={
            place.listener: config.for_listener(place.listener).max_connection_creation_rate
            for place in config.bound_endpoints
        },
        connection_rate_samples=config.quota_window_num,
        connection_rate_sample_ms=config.quota_window_size_seconds * 1000,
        protected_listener=_protected_listener(config),
        connections_per_ip_max=config.max_connections_per_ip,
        connections_per_ip_overrides=_counts(config.max_connections_per_ip_overrides),
        requests_overlapping_max=config.queued_max_requests,
        request_bytes_held_max=config.queued_max_request_bytes,
        answer_bytes_held_max=config.queued_max_response_bytes,
        failed_login_delay_ms=config.connection_failed_authentication_delay_ms,
    )


def _protected_listener(config: BrokerConfig) -> str:
    """Where brokers come in is not held to the limits of all listeners, if clients have another."""
    return config.inter_broker_listener if len(config.bound_endpoints) > 1 else ""


def _counts(text: str) -> dict[str, int]:
    """`host:count,host:count`, by address as well as by name."""
    counts = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = pair.rpartition(":")
        counts[host.strip()] = int(count)
        try:
            for row in socket.getaddrinfo(host.strip(), None):
                counts.setdefault(str(row[4][0]), int(count))
        except OSError:
            continue  # a name nobody knows cannot connect either
    return counts


def _this_machine() -> str:
    """The machine's name if it leads back here, otherwise a name that does on this machine."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name
