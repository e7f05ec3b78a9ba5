"""Who logs in, and by which mechanism: made from the options of a log-in module.

The client library logs in by it, and brokers among one another. No secret is in what an object here
shows of itself, nor in an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from moldau.security.sasl.oauthbearer import OAuthBearerClient
from moldau.security.sasl.plain import PlainClient
from moldau.security.sasl.sasl_mechanism import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN, SaslClient
from moldau.security.sasl.scram_client import ScramClient
from moldau.security.sasl.unsecured_login import extensions, unsecured_token


class Login:
    """`start` begins one log-in at a host. It raises SaslFailure if it has nothing to show.

    One that `blocks` may ask a server of somebody else in each of its steps."""

    def __init__(
        self, mechanism: str, start: Callable[[str], SaslClient], *, blocks: bool = False
    ) -> None:
        self.mechanism = mechanism
        self.start = start
        self.blocks = blocks

    def __repr__(self) -> str:
        return f"Login({self.mechanism}, [hidden])"


class Sources(NamedTuple):
    """What a log-in needs besides options."""

    nonce: Callable[[], str]
    now_ms: Callable[[], int]


def login_by(mechanism: str, options: Mapping[str, str], sources: Sources) -> Login:
    """Raises ValueError with a sentence if the options do not do."""
    assert mechanism in MECHANISMS and mechanism != GSSAPI, mechanism
    if mechanism == OAUTHBEARER:
        return Login(mechanism, _by_token(options, sources))
    name, password = options.get("username"), options.get("password")
    if not name or not password:
        raise ValueError(f"{mechanism} needs a username and a password")
    if mechanism == PLAIN:
        return Login(mechanism, lambda host: PlainClient(name, password))
    is_token = options.get("tokenauth", "").lower() == "true"

    def start(host: str) -> ScramClient:
        return ScramClient(mechanism, name, password, sources.nonce(), is_token=is_token)

    return Login(mechanism, start)


def _by_token(options: Mapping[str, str], sources: Sources) -> Callable[[str], SaslClient]:
    def start(host: str) -> OAuthBearerClient:
        # A token of its own for each log-in: it cannot have expired meanwhile.
        return OAuthBearerClient(unsecured_token(options, sources.now_ms()), extensions(options))

    start("")
    return start
