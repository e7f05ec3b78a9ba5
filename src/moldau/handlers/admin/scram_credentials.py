"""DescribeUserScramCredentials, AlterUserScramCredentials: who can log in by SCRAM (KIP-554).

An answer never holds more of a credential than its mechanism and iterations.
"""

from __future__ import annotations

from collections import Counter

from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.security.sasl.scram_changes import CredentialChange, Deletion, Upsertion, judged
from moldau.security.sasl.scram_keys import TYPE_NUMBERS
from moldau.wire.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, ctx: RequestContext, on: Services
) -> DescribeUserScramCredentialsResponse:
    known = on.user_credentials().users
    named = Counter(row.name for row in request.users or ())
    results = []
    for name in named or sorted(known):
        if named[name] > 1:
            sentence = f"Cannot describe SCRAM credentials for the same user twice: {name}"
            results.append(_refused(name, Error.DUPLICATE_RESOURCE, sentence))
        elif name not in known:
            sentence = f"Attempt to describe a user credential that does not exist: {name}"
            results.append(_refused(name, Error.RESOURCE_NOT_FOUND, sentence))
        else:
            infos = [
                CredentialInfo(mechanism=number, iterations=known[name][mechanism].iterations)
                for number, mechanism in TYPE_NUMBERS.items()
                if mechanism in known[name]
            ]
            row = DescribeUserScramCredentialsResult(user=name, credential_infos=infos)
            results.append(row)
    return DescribeUserScramCredentialsResponse(results=results)


def _refused(name: str, error: Error, sentence: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=error, error_message=sentence)


async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, ctx: RequestContext, on: Services
) -> AlterUserScramCredentialsResponse:
    rows = judged(
        [Deletion(row.name, row.mechanism) for row in request.deletions],
        [
            Upsertion(
                row.name,
                row.mechanism,
                row.iterations,
                bytes(row.salt),
                bytes(row.salted_password),
            )
            for row in request.upsertions
        ],
    )
    good = [row for row in rows.values() if isinstance(row, CredentialChange)]
    outcomes = dict(
        zip((row.user for row in good), await on.user_credentials().alter(good), strict=True)
    )
    results = []
    for user, row in rows.items():
        refusal = row if isinstance(row, ApiError) else outcomes[user]
        result = AlterUserScramCredentialsResult(user=user)
        if refusal is not None:
            result.error_code = refusal.error
            result.error_message = str(refusal)
        results.append(result)
    return AlterUserScramCredentialsResponse(results=results)
