"""Who may do what: access control lists and SCRAM credentials.

Resource types, pattern types, operations and permissions are Kafka's; a password is salted and
hashed here and never travels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from moldau.client.admin.admin_requests import AdminRequests, value_or_error
from moldau.client.admin.admin_results import Outcomes, of_each
from moldau.client.shared.client_errors import KafkaError
from moldau.security.acl.acl_model import Operation as AclOperation
from moldau.security.acl.acl_model import PatternType, Permission
from moldau.security.acl.acl_model import ResourceType as AclResourceType
from moldau.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from moldau.wire.messages.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)


class Acl(NamedTuple):
    """`Acl("User:alice", AclResourceType.TOPIC, "orders", AclOperation.READ)`"""

    principal: str
    resource_type: AclResourceType
    resource_name: str
    operation: AclOperation
    permission: Permission = Permission.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


class AclFilter(NamedTuple):
    """What is left out matches anything."""

    principal: str | None = None
    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


class ScramMechanism(IntEnum):
    """How a password is kept."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredential(NamedTuple):
    mechanism: ScramMechanism
    iterations: int


class SecurityAdmin(AdminRequests):
    async def describe_acls(
        self,
        matching: AclFilter = AclFilter(),  # noqa: B008 (immutable)
        *,
        timeout_ms: int | None = None,
    ) -> list[Acl]:
        """The access control lists that match, all by default.

        admin.describe_acls(AclFilter(principal="User:alice"))
        """
        request = DescribeAclsRequest(**_filter_fields(matching))
        response = await self._from_any(request, timeout_ms)
        return sorted(
            _acl(row, resource) for resource in response.resources for row in resource.acls
        )

    async def create_acls(
        self, acls: Iterable[Acl], *, timeout_ms: int | None = None
    ) -> Outcomes[Acl, None]:
        """Allow or deny.

        admin.create_acls(
            [Acl("User:alice", AclResourceType.TOPIC, "orders", AclOperation.READ)]
        ).check()
        """
        wanted = list(dict.fromkeys(acls))
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in wanted
            ]
        )
        response = await self._from_controller(
            request, timeout_ms, lambda r: (row.error_code for row in r.results)
        )
        return {
            acl: value_or_error(row, None)
            for acl, row in zip(wanted, response.results, strict=True)
        }

    async def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout_ms: int | None = None
    ) -> Outcomes[AclFilter, list[Acl]]:
        """Delete what matches; the values are what was deleted.

        admin.delete_acls([AclFilter(principal="User:alice")]).check()
        """
        wanted = list(dict.fromkeys(filters))
        request = DeleteAclsRequest(
            filters=[DeleteAclsFilter(**_filter_fields(each)) for each in wanted]
        )
        response = await self._from_controller(
            request, timeout_ms, lambda r: (row.error_code for row in r.filter_results)
        )
        return {
            each: value_or_error(row, sorted(_acl(acl, acl) for acl in row.matching_acls))
            for each, row in zip(wanted, response.filter_results, strict=True)
        }

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> Outcomes[str, list[ScramCredential]]:
        """The mechanisms by which users can log in, of these users or of all."""
        asked = None if users is None else list(users)
        names = None if asked is None else [UserName(name=user) for user in asked]
        request = DescribeUserScramCredentialsRequest(users=names)

        async def ask() -> Outcomes[str, list[ScramCredential]]:
            response = await self._from_any(request, timeout_ms)
            return {
                row.user: value_or_error(
                    row,
                    [
                        ScramCredential(ScramMechanism(each.mechanism), each.iterations)
                        for each in row.credential_infos
                    ],
                )
                for row in response.results
            }

        return await (ask() if asked is None else of_each(asked, ask()))

    async def upsert_user_scram_credential(
        self,
        user: str,
        password: str,
        *,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
        iterations: int = 4096,
        salt: bytes | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Set a user's password for one mechanism.

        admin.upsert_user_scram_credential("alice", "secret")
        """
        import hashlib
        import secrets

        from moldau.security.sasl.scram_keys import RANDOM_BYTES, random_text

        if salt is None:
            # In the form of Kafka's: what a broker makes up for unknown users looks like it.
            salt = random_text(secrets.token_bytes(RANDOM_BYTES)).encode("ascii")
        digest = "sha256" if mechanism is ScramMechanism.SCRAM_SHA_256 else "sha512"
        row = ScramCredentialUpsertion(
            name=user,
            mechanism=mechanism,
            iterations=iterations,
            salt=salt,
            salted_password=hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations),
        )
        await self._alter_scram(AlterUserScramCredentialsRequest(upsertions=[row]), timeout_ms)

    async def delete_user_scram_credential(
        self,
        user: str,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        row = ScramCredentialDeletion(name=user, mechanism=mechanism)
        await self._alter_scram(AlterUserScramCredentialsRequest(deletions=[row]), timeout_ms)

    async def _alter_scram(
        self, request: AlterUserScramCredentialsRequest, timeout_ms: int | None
    ) -> None:
        response = await self._from_controller(
            request, timeout_ms, lambda r: (row.error_code for row in r.results)
        )
        rows: Sequence[Any] = response.results
        for row in rows:
            outcome = value_or_error(row, None)
            if isinstance(outcome, KafkaError):
                raise outcome


def _filter_fields(given: AclFilter) -> dict[str, Any]:
    """As DescribeAcls and DeleteAcls name them."""
    return {
        "resource_type_filter": given.resource_type,
        "resource_name_filter": given.resource_name,
        "pattern_type_filter": given.pattern_type,
        "principal_filter": given.principal,
        "host_filter": given.host,
        "operation": given.operation,
        "permission_type": given.permission,
    }


def _acl(row: Any, resource: Any) -> Acl:
    return Acl(
        row.principal,
        AclResourceType(resource.resource_type),
        resource.resource_name,
        AclOperation(row.operation),
        Permission(row.permission_type),
        row.host,
        PatternType(resource.pattern_type),
    )
