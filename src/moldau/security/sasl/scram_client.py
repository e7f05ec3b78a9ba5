"""The client's side of a SCRAM log-in. The server is checked too: it must know the stored keys."""

from __future__ import annotations

import hmac

from moldau.security.sasl.sasl_failures import SaslFailure
from moldau.security.sasl.scram_keys import (
    ITERATIONS_MIN,
    client_key,
    digest,
    encode,
    mac,
    salted_password,
    server_key,
    xor,
)
from moldau.security.sasl.scram_messages import (
    auth_message,
    escape_name,
    read_server_final,
    read_server_first,
)

ITERATIONS_TAKEN_MAX = 1_000_000
"""A server that asks for more would keep the client busy for nothing."""


class ScramClient:
    def __init__(
        self,
        mechanism: str,
        name: str,
        password: str,
        nonce: str,
        *,
        is_token: bool = False,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        extension = ",tokenauth=true" if is_token else ""
        self._bare = f"n={escape_name(name)},r={nonce}{extension}"
        self._signature = b""
        self._step = 0

    @property
    def is_complete(self) -> bool:
        return self._step == 2

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        if self._step == 0:
            self._step = 1
            return self._final(challenge)
        if self._step != 1:
            raise SaslFailure("a challenge came after the end of the log-in")
        if not hmac.compare_digest(read_server_final(challenge), self._signature):
            raise SaslFailure("Invalid server signature in server final message")
        self._step = 2
        return None

    def _final(self, challenge: bytes) -> bytes:
        told = read_server_first(challenge)
        if not told.nonce.startswith(self._nonce) or len(told.nonce) == len(self._nonce):
            raise SaslFailure("Invalid server nonce: does not start with client nonce")
        if not ITERATIONS_MIN <= told.iterations <= ITERATIONS_TAKEN_MAX:
            limits = f"{ITERATIONS_MIN} to {ITERATIONS_TAKEN_MAX}"
            sentence = f"{told.iterations} iterations for {self._mechanism}: must be {limits}"
            raise SaslFailure(sentence)
        salted = salted_password(self._mechanism, self._password, told.salt, told.iterations)
        key = client_key(self._mechanism, salted)
        unsigned = f"c=biws,r={told.nonce}"
        bare = self._bare.encode().decode("latin-1")
        message = auth_message(bare, told.text, unsigned)
        proof = xor(key, mac(self._mechanism, digest(self._mechanism, key), message))
        self._signature = mac(self._mechanism, server_key(self._mechanism, salted), message)
        return f"{unsigned},p={encode(proof)}".encode("ascii")
