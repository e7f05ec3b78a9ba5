"""An identity provider within the test's own process: keys over plain HTTP, and tokens.

What it does is real HTTP and real signatures; it knows no users. What clients sent is kept."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from moldau.security.oauth.web_tokens import web_part

ISSUER, AUDIENCE = "https://issuer.example", "kafka"
_HASHES: dict[str, Any] = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}
_CURVES = {
    "256": (ec.SECP256R1, "P-256"),
    "384": (ec.SECP384R1, "P-384"),
    "512": (ec.SECP521R1, "P-521"),
}


def number(value: int) -> str:
    return web_part(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class SigningKey:
    """Of one algorithm, with an id."""

    def __init__(self, key_id: str | None, algorithm: str = "RS256", bits: int = 2048) -> None:
        self.key_id, self.algorithm = key_id, algorithm
        kind, strength = algorithm[:2], algorithm[2:]
        self._private: Any
        if kind in ("RS", "PS"):
            self._private = rsa.generate_private_key(65537, bits)
        elif kind == "ES":
            self._private = ec.generate_private_key(_CURVES[strength][0]())
        else:
            self._private = ed25519.Ed25519PrivateKey.generate()

    def public(self, **more: Any) -> dict[str, Any]:
        """As it is published."""
        found: dict[str, Any]
        if isinstance(self._private, rsa.RSAPrivateKey):
            numbers = self._private.public_key().public_numbers()
            found = {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
        elif isinstance(self._private, ec.EllipticCurvePrivateKey):
            point = self._private.public_key().public_numbers()
            size = (self._private.key_size + 7) // 8
            found = {"kty": "EC", "crv": _CURVES[self.algorithm[2:]][1]}
            found["x"] = web_part(point.x.to_bytes(size, "big"))
            found["y"] = web_part(point.y.to_bytes(size, "big"))
        else:
            raw = self._private.public_key().public_bytes_raw()
            found = {"kty": "OKP", "crv": "Ed25519", "x": web_part(raw)}
        if self.key_id is not None:
            found["kid"] = self.key_id
        return {**found, "use": "sig", **more}

    def sign(self, signed: bytes) -> bytes:
        kind, strength = self.algorithm[:2], self.algorithm[2:]
        if isinstance(self._private, ed25519.Ed25519PrivateKey):
            return self._private.sign(signed)
        how = _HASHES[strength]()
        if isinstance(self._private, ec.EllipticCurvePrivateKey):
            size = (self._private.key_size + 7) // 8
            halves = decode_dss_signature(self._private.sign(signed, ec.ECDSA(how)))
            return b"".join(half.to_bytes(size, "big") for half in halves)
        scheme: Any = padding.PKCS1v15()
        if kind == "PS":
            scheme = padding.PSS(padding.MGF1(_HASHES[strength]()), how.digest_size)
        signature: bytes = self._private.sign(signed, scheme, how)
        return signature

    def token(self, claims: Mapping[str, Any], **header: Any) -> str:
        told = {"alg": self.algorithm, "kid": self.key_id, **header}
        shown = {key: value for key, value in told.items() if value is not None}
        signed = ".".join(web_part(json.dumps(part).encode()) for part in (shown, dict(claims)))
        return f"{signed}.{web_part(self.sign(signed.encode()))}"


def claims_for(name: str, now_ms: int | None = None, **more: Any) -> dict[str, Any]:
    """Of a token that is good for an hour; None takes a claim away."""
    now = (now_ms if now_ms is not None else time.time_ns() // 1_000_000) // 1000
    told = {
        "sub": name,
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": now - 100,
        "exp": now + 3600,
        **more,
    }
    return {claim: value for claim, value in told.items() if value is not None}


@dataclass
class IdentityProvider:
    """`secrets` are its clients; the client's id becomes the name in the token."""

    keys: list[SigningKey] = field(default_factory=lambda: [SigningKey("first")])
    secrets: dict[str, str] = field(default_factory=dict)
    lifetime_seconds: int = 3600
    url: str = ""
    key_questions: int = 0
    token_questions: list[Mapping[str, list[str]]] = field(default_factory=list)
    status: int = 200
    """Another one is answered to every question."""
    more_claims: dict[str, Any] = field(default_factory=dict)

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/keys"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def token(self, name: str, **claims: Any) -> str:
        return self.keys[0].token(claims_for(name, **{**self.more_claims, **claims}))

    def answer(self, path: str, body: bytes, authorization: str) -> tuple[int, bytes]:
        if self.status != 200:
            return self.status, b'{"error":"temporarily_unavailable"}'
        if path == "/keys":
            self.key_questions += 1
            return 200, json.dumps({"keys": [key.public() for key in self.keys]}).encode()
        asked = parse_qs(body.decode())
        self.token_questions.append(asked)
        shown = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        name, _, secret = shown.partition(":")
        if path != "/token" or self.secrets.get(name) != secret:
            return 401, b'{"error":"invalid_client","error_description":"nobody"}'
        now = time.time_ns() // 1_000_000_000
        token = self.token(name, exp=now + self.lifetime_seconds)
        return 200, json.dumps({"access_token": token, "token_type": "Bearer"}).encode()


@contextmanager
def identity_provider(
    tls: ssl.SSLContext | None = None, **given: Any
) -> Iterator[IdentityProvider]:
    provider = IdentityProvider(**given)

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = provider.answer(self.path, body, self.headers.get("Authorization", ""))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", provider.jwks_url)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = _serve

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if tls is not None:
        scheme = "https"
        # Hands are shaken by the thread that serves a client, not by the one that accepts all.
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    provider.url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
