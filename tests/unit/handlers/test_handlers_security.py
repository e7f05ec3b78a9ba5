"""Requests about access control lists and SCRAM credentials."""

from __future__ import annotations

from pathlib import Path

from moldau.cluster.tree.access_control_lists import AccessLists
from moldau.model.errors import Error
from moldau.security.sasl.scram_keys import salted_password
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
from tests.support.services import Node, play

TOPIC, LITERAL, READ, ALLOW, ANY = 2, 3, 3, 3, 1


def creation(name: str = "t", principal: str = "User:alice", operation: int = READ) -> AclCreation:
    return AclCreation(
        resource_type=TOPIC,
        resource_name=name,
        resource_pattern_type=LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=ALLOW,
    )


def everything() -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


async def with_lists(node: Node) -> None:
    lists = AccessLists(
        node.tree,
        clock=node.clock,
        timers=node.timers,
        changed=lambda acls: None,
        is_alone=True,
    )
    await lists.load()
    node.on.access_lists = lists


def test_without_an_authorizer_there_are_no_lists(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        create = await node.call(CreateAclsRequest(creations=[creation()]), 3)
        assert create.results[0].error_code == Error.SECURITY_DISABLED
        assert create.results[0].error_message == "No Authorizer is configured."
        delete = await node.call(DeleteAclsRequest(filters=[DeleteAclsFilter()]), 3)
        assert delete.filter_results[0].error_code == Error.SECURITY_DISABLED

    play(scenario, tmp_path)


def test_lists_are_created_described_and_deleted(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await with_lists(node)
        rows = [creation(), creation(principal="alice"), creation(operation=99), creation("u")]
        create = await node.call(CreateAclsRequest(creations=rows), 3)
        assert [row.error_code for row in create.results] == [0, 42, 42, 0]
        told = await node.call(everything(), 3)
        assert told.error_code == 0
        assert [row.resource_name for row in told.resources] == ["t", "u"]
        assert told.resources[0].acls[0].principal == "User:alice"
        gone = DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter="t",
            pattern_type_filter=2,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        delete = await node.call(DeleteAclsRequest(filters=[gone]), 3)
        assert [acl.resource_name for acl in delete.filter_results[0].matching_acls] == ["t"]
        told = await node.call(everything(), 1)
        assert [row.resource_name for row in told.resources] == ["u"]

    play(scenario, tmp_path)


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=salted_password("SCRAM-SHA-256", "x", b"salt", 4096),
    )


def test_credentials_are_stored_described_and_deleted(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        asked = [upsertion("bob", 2), upsertion("alice"), upsertion("eve", iterations=1)]
        altered = await node.call(AlterUserScramCredentialsRequest(upsertions=asked), 0)
        assert [(row.user, row.error_code) for row in altered.results] == [
            ("bob", 0),
            ("alice", 0),
            ("eve", Error.UNACCEPTABLE_CREDENTIAL),
        ]
        told = await node.call(DescribeUserScramCredentialsRequest(users=None), 0)
        infos = [(row.user, row.credential_infos[0].mechanism) for row in told.results]
        assert infos == [("alice", 1), ("bob", 2)]
        names = [UserName(name=name) for name in ("alice", "nobody", "bob", "bob")]
        told = await node.call(DescribeUserScramCredentialsRequest(users=names), 0)
        assert [(row.user, row.error_code) for row in told.results] == [
            ("alice", 0),
            ("nobody", Error.RESOURCE_NOT_FOUND),
            ("bob", Error.DUPLICATE_RESOURCE),
        ]
        gone = [ScramCredentialDeletion(name="alice", mechanism=n) for n in (1,)]
        for code in (0, Error.RESOURCE_NOT_FOUND):
            altered = await node.call(AlterUserScramCredentialsRequest(deletions=gone), 0)
            assert altered.results[0].error_code == code

    play(scenario, tmp_path)
