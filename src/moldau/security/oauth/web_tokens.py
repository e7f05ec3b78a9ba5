"""JSON web tokens taken apart (RFC 7515, 7519): nothing of what one says is believed here.

Stricter than JSON asks for: a key that stands twice, or a number that is none, makes a token
unreadable, so that nobody else can read it in another way than we do.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.security.sasl.oauthbearer import IllegalToken

TOKEN_LENGTH_MAX = 64 * 1024
_PARTS = 3
_PART = re.compile(r"[A-Za-z0-9_-]+")


class WebToken(NamedTuple):
    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes
    """What the signature is of."""
    signature: bytes

    def __repr__(self) -> str:
        return "WebToken([hidden])"


def read_web_token(token: str) -> WebToken:
    """Raises IllegalToken."""
    if len(token) > TOKEN_LENGTH_MAX:
        raise IllegalToken(f"the token is longer than {TOKEN_LENGTH_MAX} characters")
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise IllegalToken("the token does not have the three parts of a JSON web token")
    header, claims, signature = (_decoded(part) for part in parts)
    signed = token.rpartition(".")[0].encode("ascii")
    return WebToken(_document(header), _document(claims), signed, signature)


def seconds_of(claims: Mapping[str, Any], name: str) -> float | None:
    """A time among the claims; None if it is not there. Raises IllegalToken."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise IllegalToken(f"the claim {name} of the token is not a time in seconds")
    return float(value)


def web_part(content: bytes) -> str:
    """As a token spells bytes."""
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")


def _decoded(part: str) -> bytes:
    if not _PART.fullmatch(part) or len(part) % 4 == 1:
        raise IllegalToken("a part of the token is empty or not in Base64")
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _document(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(
            content.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number
        )
    except (ValueError, RecursionError):
        raise IllegalToken("a part of the token is not JSON") from None
    if not isinstance(found, dict):
        raise IllegalToken("a part of the token is not a JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _no_number(text: str) -> float:
    raise ValueError(text)
