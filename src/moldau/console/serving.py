"""Runs a console: binds its address, builds the parts, serves until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path

import uvicorn

from moldau.console.application import Application
from moldau.console.audit_list import AuditList
from moldau.console.cluster_link import ClusterLink
from moldau.console.console_settings import ConsoleSettings
from moldau.console.entrance.connections import BoundedConnection
from moldau.console.entrance.sessions import LoginBrake, Sessions
from moldau.console.entrance.signing_in import SigningIn
from moldau.console.machine.metrics_watch import MetricsWatch
from moldau.console.rendering import Rendering

log = logging.getLogger("moldau.console")

CONNECTIONS_MAX = 500
KEEP_ALIVE_S = 30
STOP_S = 3
HEADERS_MAX = 64 * 1024
BACKLOG = 128


def bind(settings: ConsoleSettings) -> socket.socket:
    """OSError if the address cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def serve(settings: ConsoleSettings, listener: socket.socket, tell: Callable[[str], None]) -> None:
    """Until SIGTERM or SIGINT. `settings.port` is the one that `listener` has."""
    asyncio.run(_serve(settings, listener, tell))


async def _serve(
    settings: ConsoleSettings, listener: socket.socket, tell: Callable[[str], None]
) -> None:
    application = build(settings)
    server = uvicorn.Server(
        uvicorn.Config(
            application.asgi(),
            http=BoundedConnection,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
            h11_max_incomplete_event_size=HEADERS_MAX,
            ssl_certfile=settings.certificate or None,
            ssl_keyfile=settings.key or None,
        )
    )
    tell(address_of(settings))
    application.begin()
    try:
        await server.serve(sockets=[listener])
    finally:
        await application.close()


def build(settings: ConsoleSettings) -> Application:
    sessions = Sessions(time.monotonic)
    audit = AuditList(Path(settings.audit_path))
    audit.load()
    shared = None
    if not settings.asks_for_login:
        client = {**settings.client, "bootstrap.servers": settings.bootstrap}
        shared = ClusterLink(client, settings.client.get("sasl.username", ""))
    signing_in = SigningIn(settings, sessions, LoginBrake(time.monotonic), audit)
    rendering = Rendering(settings.path_prefix)
    metrics = MetricsWatch(settings.metrics, settings.sample_seconds)
    return Application(settings, audit, sessions, shared, signing_in, rendering, metrics)


def address_of(settings: ConsoleSettings) -> str:
    scheme = "https" if settings.has_tls else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{settings.port}{settings.path_prefix}/"
