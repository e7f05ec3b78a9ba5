"""What every request has to pass, whatever it asks for: host names, sizes, headers of the answer.

A name in `Host` that is not ours means that somebody's page was pointed at this machine (DNS
rebinding). What changes something must come from a page of the console: the browser says so in
`Sec-Fetch-Site` and `Origin`, and the form carries the session's token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from moldau.console.console_settings import LOOPBACK, ConsoleSettings
from moldau.console.page import PageFault

FORM_BYTES_MAX = 2 * 1024 * 1024
FORM_FIELDS_MAX = 2000
FORM_S = 30.0
CSP = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
    " object-src 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SECURE_HEADERS = {"Strict-Transport-Security": "max-age=31536000"}


def host_name(header: str) -> str:
    """`[::1]:8090` → ::1, `Console.example:80` → console.example."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def allowed_names(settings: ConsoleSettings) -> frozenset[str]:
    own = (settings.host,) if settings.host not in ("0.0.0.0", "::") else ()
    return frozenset(name.lower() for name in (*LOOPBACK, *own, *settings.allowed_hosts))


def check_host(header: str, names: frozenset[str]) -> None:
    name = host_name(header)
    if name not in names:
        raise PageFault(
            421,
            f"This console is not called '{name[:100]}'. If it should be, start it with"
            " --allowed-host and that name.",
        )


def check_origin(headers: Mapping[str, str]) -> None:
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise PageFault(403, "A change must come from a page of this console.")
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host", ""):
        raise PageFault(403, "A change must come from a page of this console.")


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form; of one that is there twice, the last."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise PageFault(415, "A change is sent as a form (application/x-www-form-urlencoded).")
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_S):
            async for part in request.stream():
                body += part
                if len(body) > FORM_BYTES_MAX:
                    raise PageFault(413, f"A form may have {FORM_BYTES_MAX} bytes, not more.")
    except TimeoutError:
        raise PageFault(408, f"The form did not come within {FORM_S:.0f} s.") from None
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX, errors="strict"
        )
    except ValueError as fault:
        raise PageFault(400, f"The form cannot be read: {fault}.") from None
    return dict(pairs)
