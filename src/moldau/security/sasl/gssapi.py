"""GSSAPI (RFC 4752): a Kerberos ticket instead of a password, both sides.

After the tickets the two agree on a layer for what follows, which in Kafka is always none. Java's
clients do not ask the broker to prove itself: then there is no answer to the ticket, and the offer
of layers comes at once. Everybody else gets the proof first and says nothing in between.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from moldau.security.naming.kerberos_names import NoRuleApplies
from moldau.security.sasl.sasl_failures import SaslFailure
from moldau.security.sasl.sasl_mechanism import LoggedIn

NO_LAYER = 1
LAYERS_BYTES = 4
OFFER = bytes((NO_LAYER, 0, 0, 0))
"""The layers, and how much may be sent in one piece, which means nothing without one."""


class KerberosContext(Protocol):
    """What both sides come to share; every method raises SaslFailure."""

    def step(self, token: bytes | None) -> bytes | None:
        """The next token for the other side, if there is one."""

    @property
    def is_complete(self) -> bool: ...

    def peer(self) -> str:
        """Who the other side is: `name/host@REALM`."""

    def wrap(self, content: bytes) -> bytes: ...

    def unwrap(self, token: bytes) -> bytes: ...


class _Step(Enum):
    TICKETS = auto()
    OFFER = auto()
    CHOICE = auto()
    END = auto()
    OVER = auto()


class GssapiServer:
    def __init__(self, context: KerberosContext, user_of: Callable[[str], str]) -> None:
        """`user_of` raises NoRuleApplies."""
        self._context = context
        self._user_of = user_of
        self._step = _Step.TICKETS
        self._logged_in: LoggedIn | None = None

    @property
    def logged_in(self) -> LoggedIn | None:
        return self._logged_in

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        step, self._step = self._step, _Step.OVER
        if step is _Step.TICKETS:
            return self._accept(token)
        if step is _Step.OFFER:
            if token:
                raise SaslFailure("a token came where the client has nothing more to say")
            return self._offer()
        if step is _Step.CHOICE:
            return self._choose(self._context.unwrap(token))
        raise SaslFailure("a token came after the end of the log-in")

    def _accept(self, token: bytes) -> bytes:
        answer = self._context.step(token)
        if self._context.is_complete:
            if not answer:
                return self._offer()
            self._step = _Step.OFFER
            return answer
        if not answer:
            raise SaslFailure("the exchange of tickets does not go on")
        self._step = _Step.TICKETS
        return answer

    def _offer(self) -> bytes:
        self._step = _Step.CHOICE
        return self._context.wrap(OFFER)

    def _choose(self, choice: bytes) -> bytes:
        # A name may follow; who it is that logs in the ticket says.
        if len(choice) < LAYERS_BYTES or choice[0] != NO_LAYER:
            raise SaslFailure("the client chose a layer that was not offered")
        peer = self._context.peer()
        try:
            self._logged_in = LoggedIn(self._user_of(peer))
        except NoRuleApplies as fault:
            raise SaslFailure(str(fault)) from None
        return b""


class GssapiClient:
    def __init__(self, context: KerberosContext) -> None:
        self._context = context
        self._step = _Step.TICKETS

    @property
    def is_complete(self) -> bool:
        return self._step is _Step.OVER

    def first(self) -> bytes:
        return self._ticket(None)

    def evaluate(self, challenge: bytes) -> bytes | None:
        if self._step is _Step.TICKETS:
            return self._ticket(challenge)
        if self._step is _Step.OFFER:
            offer = self._context.unwrap(challenge)
            if len(offer) != LAYERS_BYTES or not offer[0] & NO_LAYER:
                raise SaslFailure("the broker insists on a layer around everything, as Kafka never")
            self._step = _Step.END
            return self._context.wrap(OFFER)
        if self._step is not _Step.END or challenge:
            raise SaslFailure("a challenge came after the end of the log-in")
        self._step = _Step.OVER
        return None

    def _ticket(self, challenge: bytes | None) -> bytes:
        token = self._context.step(challenge)
        if self._context.is_complete:
            self._step = _Step.OFFER
        elif not token:
            raise SaslFailure("the exchange of tickets does not go on")
        return token or b""
