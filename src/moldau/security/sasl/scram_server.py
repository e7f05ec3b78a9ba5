"""The broker's side of a SCRAM log-in: two tokens, three HMACs and a hash, no slow step.

An unknown user is led through the same steps with a made-up salt and fails at the proof like
somebody with a wrong password: neither answers nor time tell whether a name exists. The made-up
salt looks like those of Kafka's and Moldau's tools, and is made for known users as well.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import NamedTuple

from moldau.security.sasl.sasl_failures import SaslFailure, refused
from moldau.security.sasl.sasl_mechanism import LoggedIn
from moldau.security.sasl.scram_keys import (
    ITERATIONS_MIN,
    ScramCredential,
    digest,
    encode,
    mac,
    random_text,
    xor,
)
from moldau.security.sasl.scram_messages import (
    ClientFirst,
    auth_message,
    read_client_final,
    read_client_first,
    server_first_text,
)

OTHER_AUTHORIZATION_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class ScramAccount(NamedTuple):
    """What a name logs in to."""

    credential: ScramCredential
    owner: str
    """The user; of a delegation token its owner."""
    expires_at_ms: int | None = None

    def is_usable(self, now_ms: int) -> bool:
        if self.expires_at_ms is not None and self.expires_at_ms <= now_ms:
            return False
        return self.credential.iterations >= ITERATIONS_MIN


ScramLookup = Callable[[str, bool], ScramAccount | None]
"""By name; the flag says that the name is a delegation token's id."""


class ScramServer:
    def __init__(
        self, mechanism: str, lookup: ScramLookup, server_nonce: str, decoy_secret: bytes
    ) -> None:
        self._mechanism = mechanism
        self._lookup = lookup
        self._server_nonce = server_nonce
        self._decoy_secret = decoy_secret
        self._first: ClientFirst | None = None
        self._account: ScramAccount | None = None
        self._credential: ScramCredential | None = None
        self._server_first = ""
        self._nonce = ""
        self._logged_in: LoggedIn | None = None

    @property
    def logged_in(self) -> LoggedIn | None:
        return self._logged_in

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        if self._logged_in is not None:
            raise SaslFailure("a token came after the end of the log-in")
        if self._first is None:
            return self._challenge(read_client_first(token), now_ms)
        return self._verify(self._first, token)

    def _challenge(self, first: ClientFirst, now_ms: int) -> bytes:
        if first.authorization_id and first.authorization_id != first.name:
            raise refused(OTHER_AUTHORIZATION_ID)
        self._first = first
        account, decoy = self._lookup(first.name, first.is_token), self._decoy(first)
        if account is not None and account.is_usable(now_ms):
            self._account = account
        credential = self._credential = self._account.credential if self._account else decoy
        self._nonce = first.nonce + self._server_nonce
        self._server_first = server_first_text(self._nonce, credential.salt, credential.iterations)
        return self._server_first.encode("ascii")

    def _decoy(self, first: ClientFirst) -> ScramCredential:
        """The same salt for the same name each time, as a real user's would be."""
        name = f"{self._mechanism} {first.is_token} {first.name}"
        seed = hmac.digest(self._decoy_secret, name.encode(), "sha256")
        key = digest(self._mechanism, seed)
        return ScramCredential(random_text(seed).encode("ascii"), key, key, ITERATIONS_MIN)

    def _verify(self, first: ClientFirst, token: bytes) -> bytes:
        final = read_client_final(token)
        credential, account = self._credential, self._account
        assert credential is not None
        if not hmac.compare_digest(final.nonce.encode("ascii"), self._nonce.encode("ascii")):
            raise SaslFailure("Invalid client nonce in the final client message")
        message = auth_message(first.bare, self._server_first, final.unsigned)
        signature = mac(self._mechanism, credential.stored_key, message)
        is_right = len(final.proof) == len(signature)
        shown = xor(signature, final.proof) if is_right else signature
        stored = digest(self._mechanism, shown)
        is_right &= hmac.compare_digest(stored, credential.stored_key)
        answer = f"v={encode(mac(self._mechanism, credential.server_key, message))}"
        if account is None:
            raise SaslFailure(f"no usable {self._mechanism} credential of this user")
        if not is_right:
            raise SaslFailure("Invalid client credentials")
        self._logged_in = LoggedIn(account.owner, first.is_token, account.expires_at_ms)
        return answer.encode("ascii")
