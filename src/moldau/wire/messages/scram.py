"""SCRAM credentials of users (KIP-554).

The client salts and hashes; a password never travels.
"""

from __future__ import annotations

from moldau.wire.schema import (
    Message,
    Struct,
    array,
    blob,
    int8,
    int16,
    int32,
    string,
)


class UserName(Struct):
    name: str = string()


class DescribeUserScramCredentialsRequest(Message, versions="0", flexible="0+"):
    users: list[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default="")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)


class ScramCredentialDeletion(Struct):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = blob()
    salted_password: bytes = blob()


class AlterUserScramCredentialsRequest(Message, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class AlterUserScramCredentialsResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
