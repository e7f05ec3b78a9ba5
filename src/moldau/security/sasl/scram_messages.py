"""The four messages of a SCRAM log-in as Kafka reads and writes them.

The patterns are RFC 5802's, without channel binding: a client's first message starts with `n,`.
What the client sent is kept as it came, for the signature is made over those very bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from moldau.security.sasl.sasl_failures import SaslFailure
from moldau.security.sasl.scram_keys import decode, encode

MESSAGE_LENGTH_MAX = 65_536
"""A longer one is not even matched."""
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED = rf"(?:m={_VALUE},)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>{_RESERVED}n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST = re.compile(
    rf"{_RESERVED}r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}})"
    rf"{_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unsigned>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class ClientFirst(NamedTuple):
    authorization_id: str
    name: str
    nonce: str
    extensions: dict[str, str]
    bare: str

    @property
    def is_token(self) -> bool:
        """The name is a delegation token's id."""
        return self.extensions.get("tokenauth", "").lower() == "true"


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int
    text: str


class ClientFinal(NamedTuple):
    nonce: str
    proof: bytes
    unsigned: str


def _match(pattern: re.Pattern[str], message: bytes, what: str) -> re.Match[str]:
    if len(message) <= MESSAGE_LENGTH_MAX:
        found = pattern.fullmatch(message.decode("latin-1"))
        if found is not None:
            return found
    raise SaslFailure(f"Invalid SCRAM {what} message format")


def escape_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _plain_name(text: str) -> str:
    return text.replace("=2C", ",").replace("=3D", "=")


def read_client_first(message: bytes) -> ClientFirst:
    found = _match(_CLIENT_FIRST, message, "client first")
    pairs = (part.partition("=") for part in found["extensions"].split(",") if part)
    return ClientFirst(
        _plain_name(found["authzid"] or ""),
        _plain_name(found["name"]),
        found["nonce"],
        {key: value for key, _, value in pairs},
        found["bare"],
    )


def read_server_first(message: bytes) -> ServerFirst:
    found = _match(_SERVER_FIRST, message, "server first")
    return ServerFirst(
        found["nonce"], decode(found["salt"]), int(found["iterations"]), found.group()
    )


def read_client_final(message: bytes) -> ClientFinal:
    found = _match(_CLIENT_FINAL, message, "client final")
    return ClientFinal(found["nonce"], decode(found["proof"]), found["unsigned"])


def read_server_final(message: bytes) -> bytes:
    """The server's signature."""
    found = _match(_SERVER_FINAL, message, "server final")
    if found["error"] is not None:
        raise SaslFailure(f"the server refused the log-in: {found['error']}")
    return decode(found["signature"])


def server_first_text(nonce: str, salt: bytes, iterations: int) -> str:
    return f"r={nonce},s={encode(salt)},i={iterations}"


def auth_message(bare: str, server_first: str, unsigned: str) -> bytes:
    return f"{bare},{server_first},{unsigned}".encode("latin-1")
