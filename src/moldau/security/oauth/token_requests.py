"""What a client says to a token server (RFC 6749, 7523), and what the server's answer says."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote_plus, urlencode

from moldau.security.oauth.web_tokens import read_web_token, seconds_of
from moldau.security.sasl.oauthbearer import IllegalToken

CLIENT_CREDENTIALS = "client_credentials"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
TOKEN_KEYS = ("access_token", "id_token")
_HEADERS = {
    "Accept": "application/json",
    "Cache-Control": "no-cache",
    "Content-Type": "application/x-www-form-urlencoded",
}


class TokenRequest(NamedTuple):
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return "TokenRequest([hidden])"


class HeldToken(NamedTuple):
    """A token of one's own, and when it ends."""

    text: str
    expires_at_ms: int

    def __repr__(self) -> str:
        return f"HeldToken([hidden], {self.expires_at_ms})"


def by_secret(client_id: str, secret: str, scope: str, *, is_encoded: bool) -> TokenRequest:
    """`is_encoded`: as the standard asks for and not every server understands."""
    if is_encoded:
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    shown = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    headers = {**_HEADERS, "Authorization": f"Basic {shown}"}
    return TokenRequest(headers, _form(grant_type=CLIENT_CREDENTIALS, scope=scope))


def by_client_assertion(client_id: str, assertion: str, scope: str) -> TokenRequest:
    """An assertion in the place of the client's secret."""
    body = _form(
        client_assertion_type=ASSERTION_TYPE,
        client_assertion=assertion,
        grant_type=CLIENT_CREDENTIALS,
        client_id=client_id,
        scope=scope,
    )
    return TokenRequest(_HEADERS, body)


def by_assertion(assertion: str, scope: str) -> TokenRequest:
    """An assertion for somebody whom it names."""
    body = _form(grant_type=JWT_BEARER, assertion=assertion, scope=scope)
    return TokenRequest(_HEADERS, body)


def _form(**values: str) -> bytes:
    return urlencode({key: value for key, value in values.items() if value}).encode()


def token_of_answer(answer: bytes) -> str:
    """Raises ValueError with a sentence that quotes nothing."""
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        raise ValueError("its answer is not JSON") from None
    for key in TOKEN_KEYS:
        token = found.get(key) if isinstance(found, dict) else None
        if isinstance(token, str) and token.strip():
            return token.strip()
    raise ValueError("its answer has no access_token")


def held_token(text: str, name_claim: str) -> HeldToken:
    """What the holder has to know of a token; its signature is for the broker to check. Raises
    ValueError."""
    try:
        claims = read_web_token(text.strip()).claims
        expiry = seconds_of(claims, "exp")
    except IllegalToken as fault:
        raise ValueError(str(fault)) from None
    name = claims.get(name_claim)
    if expiry is None or not isinstance(name, str) or not name.strip():
        missing = "expiry (exp)" if expiry is None else f"text in its claim {name_claim}"
        raise ValueError(f"the token has no {missing}")
    return HeldToken(text.strip(), int(expiry * 1000))
