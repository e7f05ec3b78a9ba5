"""What Jolokia's clients ask for, by the path of a GET or the JSON of a POST, as plain data."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import unquote

from moldau.metrics.mbeans.object_names import ObjectName

REQUESTS_MAX = 100
"""In one POST."""
ATTRIBUTES_MAX = 200
"""In one request: each is looked for in every MBean that a pattern means."""
CHANGES = frozenset({"write", "exec", "notification"})
READS = frozenset({"read", "search", "list", "version"})


class JolokiaRequest(NamedTuple):
    kind: str
    mbean: str = ""
    attributes: tuple[str, ...] = ()
    """All of them if it is empty."""
    is_single: bool = False
    """One attribute by name: then the value alone is the answer."""
    path: tuple[str, ...] = ()
    is_canonical: bool = True
    """Whether names are told with their keys sorted (`canonicalNaming`)."""

    def named(self, name: ObjectName) -> str:
        return str(name) if self.is_canonical else name.as_made

    def told(self) -> dict[str, Any]:
        """As the answer repeats it."""
        told: dict[str, Any] = {"type": self.kind}
        if self.mbean:
            told["mbean"] = self.mbean
        if self.attributes:
            told["attribute"] = self.attributes[0] if self.is_single else list(self.attributes)
        if self.path:
            told["path"] = "/".join(self.path)
        return told


class RequestFault(ValueError):
    """What is asked for cannot be understood."""


def from_path(path: str, query: str = "") -> JolokiaRequest:
    """Of a GET, `path` is what follows /jolokia. Raises RequestFault."""
    is_canonical = "canonicalNaming=false" not in query.split("&")
    return _from_parts(path)._replace(is_canonical=is_canonical)


def _from_parts(path: str) -> JolokiaRequest:
    parts = [unquote(part) for part in _parts(path.strip("/"))]
    if not parts or not parts[0]:
        return JolokiaRequest("version")
    kind, rest = parts[0], parts[1:]
    if kind == "list":
        return JolokiaRequest(kind, path=tuple(rest))
    if kind == "version":
        return JolokiaRequest(kind)
    if not rest:
        raise RequestFault(f"{kind} needs the name of an MBean")
    names = tuple(filter(None, rest[1].split(","))) if len(rest) > 1 else ()
    if len(names) > ATTRIBUTES_MAX:
        raise RequestFault(f"{len(names)} attributes are more than {ATTRIBUTES_MAX}")
    return JolokiaRequest(kind, rest[0], names, len(names) == 1)


def _parts(text: str) -> list[str]:
    """Between slashes; a slash that belongs to a name is written `!/`, and `!` is `!!`."""
    parts: list[list[str]] = [[]]
    is_escaped = False
    for each in text:
        if is_escaped:
            parts[-1].append(each)
            is_escaped = False
        elif each == "!":
            is_escaped = True
        elif each == "/":
            parts.append([])
        else:
            parts[-1].append(each)
    return ["".join(part) for part in parts]


def from_body(body: bytes) -> tuple[list[JolokiaRequest | RequestFault], bool]:
    """Of a POST, and whether the answer is a list. Raises RequestFault."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestFault("the body is not JSON") from None
    is_bulk = isinstance(given, list)
    rows = given if is_bulk else [given]
    if len(rows) > REQUESTS_MAX:
        raise RequestFault(f"{len(rows)} requests at once are more than {REQUESTS_MAX}")
    return [_from_row(row) for row in rows], is_bulk


def _from_row(row: Any) -> JolokiaRequest | RequestFault:
    if not isinstance(row, dict):
        return RequestFault("a request is an object with a type")
    kind, mbean, attribute = (row.get(key, "") for key in ("type", "mbean", "attribute"))
    path = row.get("path") or ""
    is_single = isinstance(attribute, str)
    names = [attribute] if is_single and attribute else attribute or []
    texts = (kind, mbean, path, *names) if isinstance(names, list) else (None,)
    if not all(isinstance(text, str) for text in texts):
        return RequestFault("type, mbean, attribute and path are texts")
    if len(names) > ATTRIBUTES_MAX:
        return RequestFault(f"{len(names)} attributes are more than {ATTRIBUTES_MAX}")
    kind = kind.lower()
    if kind in ("read", "search") and not mbean:
        return RequestFault(f"{kind} needs the name of an MBean")
    parts = tuple(_parts(path)) if path else ()
    config = row.get("config")
    is_canonical = not isinstance(config, dict) or config.get("canonicalNaming", True) is not False
    is_single = bool(names) and is_single
    return JolokiaRequest(kind, mbean, tuple(names), is_single, parts, is_canonical)
