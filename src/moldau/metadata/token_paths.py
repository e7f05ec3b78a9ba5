"""Where delegation tokens stand in the znode tree, and in which form, as in Kafka 3.9. Pure."""

from __future__ import annotations

import json
import re

from moldau.metadata import node_fields as checked
from moldau.metadata.paths import entity_name, name_of_entity
from moldau.security.naming.principal import Principal, parse_principal
from moldau.security.tokens.delegation_token import DelegationToken

FOLDER = "/delegation_token"
TOKENS = "/delegation_token/tokens"
CHANGES = "/delegation_token/token_changes"
CHANGE_PREFIX = f"{CHANGES}/token_change_"
PERSISTENT_PATHS = (FOLDER, CHANGES, TOKENS)
"""What has to be there before the first token, parents first."""
VERSION = 3
REQUESTER_SINCE = 3
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_token_id(text: str) -> bool:
    """Whether a node of this name can be a token; a name from a log-in never becomes a path."""
    return _ID.fullmatch(text) is not None


def token_path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    fields = {
        "version": VERSION,
        "owner": _sanitized(token.owner),
        "tokenRequester": _sanitized(token.requester),
        "renewers": [_sanitized(each) for each in token.renewers],
        "issueTimestamp": token.issued_at_ms,
        "maxTimestamp": token.max_at_ms,
        "expiryTimestamp": token.expires_at_ms,
        "tokenId": token.id,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_token(data: bytes) -> DelegationToken:
    fields = json.loads(data)
    version = checked.number(fields["version"])
    if not 0 < version <= VERSION:
        raise ValueError(f"delegation tokens have versions up to {VERSION}, not {version}")
    owner = _principal(fields["owner"])
    return DelegationToken(
        checked.text(fields["tokenId"]),
        owner,
        _principal(fields["tokenRequester"]) if version >= REQUESTER_SINCE else owner,
        tuple(_principal(each) for each in fields["renewers"]),
        checked.number(fields["issueTimestamp"]),
        checked.number(fields["maxTimestamp"]),
        checked.number(fields["expiryTimestamp"]),
    )


def _sanitized(principal: Principal) -> str:
    return entity_name(str(principal))


def _principal(text: object) -> Principal:
    return parse_principal(name_of_entity(checked.text(text)))
