"""Unsigned OAUTHBEARER tokens, made from the options of a client's log-in module, as in Kafka.

For development only: a broker that accepts them believes whatever they say.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

PREFIX = "unsecuredLogin"
EXTENSION = PREFIX + "Extension_"
LIFETIME_SECONDS = 3600.0
_TEXT, _NUMBER, _LIST = (f"{PREFIX}{kind}Claim_" for kind in ("String", "Number", "List"))
_NAME_CLAIM, _SCOPE_CLAIM = PREFIX + "PrincipalClaimName", PREFIX + "ScopeClaimName"
_LIFETIME = PREFIX + "LifetimeSeconds"


def unsecured_token(options: Mapping[str, str], now_ms: int) -> str:
    """A token that begins now; raises ValueError with a sentence that quotes no value."""
    claims: dict[str, Any] = {}
    lifetime = LIFETIME_SECONDS
    for key, value in options.items():
        if key.startswith(_TEXT):
            claims[key.removeprefix(_TEXT)] = value
        elif key.startswith(_NUMBER):
            claims[key.removeprefix(_NUMBER)] = _number(key, value)
        elif key.startswith(_LIST):
            claims[key.removeprefix(_LIST)] = value[1:].split(value[:1]) if value else []
        elif key == _LIFETIME:
            lifetime = _number(key, value)
        elif key not in (_NAME_CLAIM, _SCOPE_CLAIM) and not key.startswith(EXTENSION):
            raise ValueError(f"an OAUTHBEARER log-in has no option {key}")
    name_claim = options.get(_NAME_CLAIM, "sub")
    if not isinstance(claims.get(name_claim), str) or not claims[name_claim]:
        raise ValueError(f"the option {_TEXT}{name_claim} must name the user")
    begins = now_ms / 1000
    claims.setdefault("iat", begins)
    claims.setdefault("exp", begins + lifetime)
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def extensions(options: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(EXTENSION): value
        for key, value in options.items()
        if key.startswith(EXTENSION)
    }


def _number(key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"the option {key} must be a number") from None


def _part(document: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")
