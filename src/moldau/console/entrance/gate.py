"""The outermost layer: whom the console answers at all, the path prefix, and the headers."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moldau.console.console_settings import ConsoleSettings
from moldau.console.entrance.guards import HEADERS, SECURE_HEADERS, allowed_names, check_host
from moldau.console.page import PageFault


class Gate:
    def __init__(self, app: ASGIApp, settings: ConsoleSettings) -> None:
        self._app = app
        self._prefix = settings.path_prefix
        self._names = allowed_names(settings)
        self._headers = {**HEADERS, **(SECURE_HEADERS if settings.has_tls else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                is_asset = scope["path"].startswith("/assets/")
                headers.setdefault(
                    "Cache-Control", "public, max-age=86400" if is_asset else "no-store"
                )
            await send(message)

        try:
            check_host(Headers(scope=scope).get("host", ""), self._names)
        except PageFault as fault:
            await PlainTextResponse(fault.sentence, fault.status)(scope, receive, send_with_headers)
            return
        # Some proxies take the prefix off, others leave it on.
        path = scope["path"]
        if self._prefix and (path + "/").startswith(self._prefix + "/"):
            path = path[len(self._prefix) :] or "/"
        await self._app({**scope, "path": path, "raw_path": None}, receive, send_with_headers)
