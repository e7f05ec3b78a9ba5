"""How data become a page: the templates, the words for sizes and times, and the JSON beside it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from enum import Enum
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.responses import Response

from moldau.client.shared.client_errors import KafkaError

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_text(count: float | None) -> str:
    """1536 → 1.5 KiB."""
    if count is None:
        return "–"
    size, unit = float(count), 0
    while abs(size) >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {UNITS[unit]}"


def count_text(count: float | None) -> str:
    """1234567 → 1 234 567, with thin spaces."""
    return "–" if count is None else f"{count:,.0f}".replace(",", "\u202f")


def rate_text(rate: float | None) -> str:
    if rate is None:
        return "–"
    return f"{rate:.1f}" if 0 < abs(rate) < 10 else count_text(rate)


def duration_text(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds == 0:
        return "0 s"
    for limit, unit, name in (
        (1, 0.001, "ms"),
        (120, 1, "s"),
        (7200, 60, "min"),
        (172_800, 3600, "h"),
    ):
        if abs(seconds) < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} days"


def time_text(ms: float | None) -> str:
    """In the universal zone; the browser's own zone is put beside it by console.js."""
    from datetime import UTC, datetime

    if ms is None or ms < 0:
        return "–"
    return (
        datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")[:19] + " UTC"
    )


def host_text(host: str) -> str:
    """Brokers put a slash before addresses, as Java prints them."""
    return host.removeprefix("/")


def path_word(name: object) -> str:
    """A name as one word of an address. It is quoted twice, because servers and proxies take the
    first quoting off before they look for slashes and endings; `asked.path` has it unquoted."""
    inner = quote(str(name), safe="")
    if not inner.strip(".") or inner.endswith(".json"):
        inner = inner.replace(".", "%2E")
    return quote(inner, safe="")


def plain(value: Any) -> Any:
    """What JSON can say: named tuples as objects, bytes as text or base64, unknown things never."""
    if value is None or (
        isinstance(value, str | bool | int | float) and not isinstance(value, Enum)
    ):
        return value
    if isinstance(value, KafkaError):
        return {"error": type(value).__name__, "message": value.message}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bytes):
        return _bytes_word(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: plain(each) for key, each in value._asdict().items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [row.name for row in dataclasses.fields(value)]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _bytes_word(value: bytes) -> str:
    from base64 import b64encode

    try:
        return value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()


def json_response(data: Mapping[str, Any], status: int = 200) -> Response:
    text = json.dumps(plain(data), ensure_ascii=False, separators=(",", ":"))
    # Names that are no text have halves of characters in them, which JSON can tell by numbers.
    content = text.encode(errors="backslashreplace")
    return Response(content, status, media_type="application/json")


class Rendering:
    def __init__(self, path_prefix: str) -> None:
        self._prefix = path_prefix
        self._templates = Environment(
            loader=PackageLoader("moldau.console"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            bytes=bytes_text,
            count=count_text,
            rate=rate_text,
            duration=duration_text,
            time=time_text,
            word=path_word,
            host=host_text,
        )
        self._templates.globals.update(url=self.url, asset=self.asset)

    def url(self, path: str, **query: object) -> str:
        """An address of the console: its own prefix, and a query without what is empty."""
        told = {key: value for key, value in query.items() if value not in (None, "")}
        return self._prefix + path + ("?" + urlencode(told) if told else "")

    def asset(self, name: str) -> str:
        return f"{self._prefix}/assets/{name}?v={_stamp()}"

    def html(self, template: str, data: Mapping[str, Any], status: int = 200) -> Response:
        text = self._templates.get_template(template).render(data)
        content = text.encode(errors="replace")
        return Response(content, status, media_type="text/html; charset=utf-8")


def _stamp() -> str:
    """Changes with every release, so that browsers may keep the files for long."""
    from moldau import __version__

    return __version__


def attachment(name: str) -> dict[str, str]:
    """The header by which a browser keeps an answer as a file; nothing in `name` can end it."""
    plain_name = re.sub(r"[^A-Za-z0-9._\-]", "_", name)
    return {"Content-Disposition": f'attachment; filename="{plain_name}"'}


def assets_path() -> str:
    return str(files("moldau.console") / "assets")
