"""The same principals, lists and things on Moldau and on Apache Kafka, and one request to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from moldau.security.acl.acl_model import PatternType, Permission
from moldau.wire.messages.acls import AclCreation, CreateAclsRequest, DescribeAclsRequest
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.delegation_tokens import CreateDelegationTokenRequest
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from moldau.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    InitProducerIdRequest,
)
from tests.compat.authorization.plain_view import plain
from tests.compat.authorization.words import (
    DEAL,
    GONE,
    GROUP,
    HERE,
    MINE,
    TARGET,
    TOPIC_IDS,
    Ask,
    Right,
    Scenario,
    World,
)
from tests.support.eventually import eventually
from tests.support.hostile_costs import Client, request_of

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
ROOT = "root"
OPEN = "open"
CLOSED, SILENT = "closed", "silent"
SECONDS_MAX = 60.0
CREATE_MS = 30_000
TOKEN_KEY = "a-key-for-tokens"
ANY = 1


def jaas(users: Sequence[str]) -> str:
    """Everybody's password is their name."""
    return f"{MODULE} required " + " ".join(f'user_{name}="{name}"' for name in users) + ";"


class Member(Client):
    """A client that has logged in by PLAIN."""

    def __init__(self, port: int, user: str) -> None:
        super().__init__(port)
        handshake: Any = self.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        assert handshake.error_code == 0
        said: Any = self.ask(
            36, 2, SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}".encode())
        )
        assert said.error_code == 0, said.error_message


class Side:
    """One broker, its port and what was made there."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self._port = port
        self.root = Member(port, ROOT)
        self.world = World(TOPIC_IDS, -1, -1, b"")
        served: Any = self.root.ask(18, 0, ApiVersionsRequest())
        self.versions = {
            row.api_key: range(row.min_version, row.max_version + 1) for row in served.api_keys
        }
        self._members: dict[str, Member] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in (self.root, *self._members.values()):
            member.socket.close()

    def prepare(self, scenarios: Sequence[Scenario], topics: Sequence[str]) -> None:
        self._create([HERE, MINE], partitions=2)
        self._create(topics)
        eventually(lambda: self._ids((HERE, MINE, *topics)) is not None, SECONDS_MAX)
        ids = self._ids((HERE, MINE))
        assert ids is not None
        self._commit()
        producer_id, epoch = self._producer(DEAL)
        self._open_transaction()
        self.world = World({**TOPIC_IDS, **ids}, producer_id, epoch, self._token())
        self.names = {topic_id: name for name, topic_id in self.world.topic_ids.items()}
        self._allow(scenarios)

    def answer(self, ask: Ask, scenario: Scenario) -> Any:
        """As plain data, or `closed`, or `silent` of a broker that says nothing and stays."""
        request = scenario.request
        key, version = request.api_key, ask.version
        member = self._members.get(scenario.user)
        if member is None:
            member = self._members[scenario.user] = Member(self._port, scenario.user)
        message: Any = request.build(ask)
        try:
            if getattr(message, "acks", None) == 0:
                member.socket.sendall(request_of(key, version, message))
                # Whoever is still there answers this.
                member.ask(18, 0, ApiVersionsRequest())
                return SILENT
            return plain(member.ask(key, version, message), self.names)
        except ConnectionError:
            member.socket.close()
            del self._members[scenario.user]
            return CLOSED

    def _create(self, names: Sequence[str], partitions: int = 1) -> None:
        rows = [
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            for name in names
        ]
        done: Any = self.root.ask(19, 7, CreateTopicsRequest(topics=rows, timeout_ms=CREATE_MS))
        assert not any(row.error_code for row in done.topics), done

    def _ids(self, names: Sequence[str]) -> dict[str, bytes] | None:
        rows = [MetadataRequestTopic(name=name) for name in names]
        told: Any = self.root.ask(
            3, 12, MetadataRequest(topics=rows, allow_auto_topic_creation=False)
        )
        if any(row.error_code for row in told.topics):
            return None
        return {row.name: row.topic_id for row in told.topics}

    def _commit(self) -> None:
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topics = [OffsetCommitRequestTopic(name=name, partitions=[row]) for name in (HERE, MINE)]

        def is_done() -> bool:
            self._find(0, GROUP)
            done: Any = self.root.ask(8, 8, OffsetCommitRequest(group_id=GROUP, topics=topics))
            return not any(row.error_code for each in done.topics for row in each.partitions)

        eventually(is_done, SECONDS_MAX)

    def _find(self, kind: int, key: str) -> None:
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        self.root.ask(10, 4, request)

    def _producer(self, name: str) -> tuple[int, int]:
        made: Any = None

        def is_done() -> bool:
            nonlocal made
            self._find(1, name)
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=600_000)
            made = self.root.ask(22, 4, request)
            return not made.error_code

        eventually(is_done, SECONDS_MAX)
        return made.producer_id, made.producer_epoch

    def _open_transaction(self) -> None:
        producer_id, epoch = self._producer(OPEN)
        rows = [AddPartitionsToTxnTopic(name=name, partitions=[1]) for name in (HERE, MINE)]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=OPEN,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=rows,
        )
        done: Any = self.root.ask(24, 3, request)
        errors = {
            row.partition_error_code
            for each in done.results_by_topic_v3_and_below
            for row in each.results_by_partition
        }
        assert errors == {0}

    def _token(self) -> bytes:
        made: Any = self.root.ask(38, 3, CreateDelegationTokenRequest(max_lifetime_ms=-1))
        assert made.error_code == 0
        return bytes(made.hmac)

    def _allow(self, scenarios: Sequence[Scenario]) -> None:
        rows = [
            _entry(scenario.user, right._replace(name=name))
            for scenario in scenarios
            for right in scenario.grants
            for name in ((HERE, GONE) if right.name == TARGET else (right.name,))
        ]
        for start in range(0, len(rows), 100):
            request = CreateAclsRequest(creations=rows[start : start + 100])
            done: Any = self.root.ask(30, 3, request)
            assert not any(row.error_code for row in done.results), done
        # A broker of Apache Kafka hears of them a moment later.
        eventually(lambda: self._lists() == len(rows), SECONDS_MAX)

    def _lists(self) -> int:
        everything = DescribeAclsRequest(
            resource_type_filter=ANY,
            resource_name_filter=None,  # type: ignore[arg-type]
            pattern_type_filter=ANY,
            principal_filter=None,  # type: ignore[arg-type]
            host_filter=None,  # type: ignore[arg-type]
            operation=ANY,
            permission_type=ANY,
        )
        told: Any = self.root.ask(29, 3, everything)
        return sum(len(resource.acls) for resource in told.resources)


def _entry(user: str, right: Right) -> AclCreation:
    is_prefix = right.name.endswith("*")
    return AclCreation(
        resource_type=right.kind,
        resource_name=right.name.removesuffix("*"),
        resource_pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        principal=f"User:{user}",
        host="*",
        operation=right.operation,
        permission_type=Permission.ALLOW,
    )
