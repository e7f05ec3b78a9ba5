"""Rules for changing users' SCRAM credentials, with Kafka's errors (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.security.sasl.scram_keys import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    TYPE_NUMBERS,
    ScramCredential,
    credential_of,
    credential_text,
)

NAME_LENGTH_MAX = 3_000
SALT_BYTES_MAX = 1_000


class Deletion(NamedTuple):
    user: str
    mechanism: int


class Upsertion(NamedTuple):
    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"Upsertion({self.user!r}, {self.mechanism}, {self.iterations}, [hidden])"


class CredentialChange(NamedTuple):
    """What changes for one user, once it has been found good."""

    user: str
    mechanism: str
    credential: ScramCredential | None
    """None removes it."""

    def apply(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The user's settings afterwards; raises ApiError."""
        after = dict(settings)
        if self.credential is not None:
            after[self.mechanism] = credential_text(self.credential)
        elif after.pop(self.mechanism, None) is None:
            sentence = "Attempt to delete a user credential that does not exist"
            raise ApiError(Error.RESOURCE_NOT_FOUND, sentence)
        return after


def judged(
    deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
) -> dict[str, CredentialChange | ApiError]:
    """By user, in the order of the request. One change for each user and request."""
    asked: list[Deletion | Upsertion] = [*deletions, *upsertions]
    named = Counter(change.user for change in asked)
    rows: dict[str, CredentialChange | ApiError] = {}
    for change in asked:
        if named[change.user] > 1:
            sentence = "A user credential cannot be altered twice in the same request"
            rows[change.user] = ApiError(Error.DUPLICATE_RESOURCE, sentence)
            continue
        try:
            rows[change.user] = _judge(change)
        except ApiError as refusal:
            rows[change.user] = refusal.kept()
    return rows


def _judge(change: Deletion | Upsertion) -> CredentialChange:
    if not change.user:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(change.user) > NAME_LENGTH_MAX:
        sentence = f"Username has {len(change.user)} characters, of {NAME_LENGTH_MAX}"
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, sentence)
    mechanism = TYPE_NUMBERS.get(change.mechanism)
    if mechanism is None:
        raise ApiError(Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, Deletion):
        return CredentialChange(change.user, mechanism, None)
    if change.iterations < ITERATIONS_MIN:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salt or len(change.salt) > SALT_BYTES_MAX:
        sentence = f"The salt must have 1 to {SALT_BYTES_MAX} bytes"
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, sentence)
    credential = credential_of(mechanism, change.salted_password, change.salt, change.iterations)
    return CredentialChange(change.user, mechanism, credential)
