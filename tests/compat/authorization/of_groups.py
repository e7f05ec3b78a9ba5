"""Requests of consumer groups and of transactions, and about both."""

from __future__ import annotations

from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from moldau.wire.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from moldau.wire.messages.transaction_admin import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from moldau.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.compat.authorization.words import (
    DEAL,
    GROUP,
    MINE,
    Ask,
    Request,
    Right,
    cluster,
    deal,
    each,
    group,
    on_topics,
    topic,
)

NOBODY = "nobody"
SESSION_MS = 6_000


def commit(ask: Ask) -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestTopic(
            name=name,
            topic_id=ask.topic_id(name),
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
        )
        for name in (ask.topic, MINE)
    ]
    return OffsetCommitRequest(group_id=GROUP, topics=rows)


def fetch_offsets(ask: Ask, *, is_all: bool = False) -> OffsetFetchRequest:
    one = OffsetFetchRequestGroup(group_id=GROUP)
    request = OffsetFetchRequest(group_id=GROUP)
    if is_all:
        one.topics = request.topics = None
    else:
        one.topics = [
            OffsetFetchRequestTopics(
                name=name, topic_id=ask.topic_id(name), partition_indexes=[0, 1]
            )
            for name in (ask.topic, MINE)
        ]
        request.topics = [
            OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1])
            for name in (ask.topic, MINE)
        ]
    request.groups = [one, OffsetFetchRequestGroup(group_id=NOBODY, topics=one.topics)]
    return request


def find(key_type: int, *keys: str):  # type: ignore[no-untyped-def]
    return lambda ask: FindCoordinatorRequest(
        key=keys[0], key_type=key_type, coordinator_keys=list(keys)
    )


def join(ask: Ask) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=f"joined-{ask.own}",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def leave(ask: Ask) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        group_id=GROUP, member_id=NOBODY, members=[MemberIdentity(member_id=NOBODY)]
    )


def sync(ask: Ask, *, protocol: str | None = "range") -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=GROUP,
        generation_id=1,
        member_id=NOBODY,
        protocol_type="consumer",
        protocol_name=protocol,
    )


def delete_offsets(ask: Ask) -> OffsetDeleteRequest:
    rows = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=1)]
        )
        for name in (ask.topic, MINE)
    ]
    return OffsetDeleteRequest(group_id=GROUP, topics=rows)


def add_partitions(ask: Ask, *, internal: bool = False) -> AddPartitionsToTxnRequest:
    names = (ask.topic, MINE, "__consumer_offsets") if internal else (ask.topic, MINE)
    rows = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names]
    world = ask.world
    together = AddPartitionsToTxnTransaction(
        transactional_id=DEAL,
        producer_id=world.producer_id,
        producer_epoch=world.producer_epoch,
        verify_only=True,
        topics=rows,
    )
    return AddPartitionsToTxnRequest(
        transactions=[together],
        v3_and_below_transactional_id=DEAL,
        v3_and_below_producer_id=world.producer_id + 1000,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=rows,
    )


def commit_in_transaction(ask: Ask) -> TxnOffsetCommitRequest:
    rows = [
        TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
        )
        for name in (ask.topic, MINE)
    ]
    return TxnOffsetCommitRequest(
        transactional_id=DEAL,
        group_id=GROUP,
        producer_id=ask.world.producer_id + 1000,
        topics=rows,
    )


def markers(ask: Ask) -> WriteTxnMarkersRequest:
    rows = [
        WritableTxnMarkerTopic(name=name, partition_indexes=[0, 1]) for name in (ask.topic, MINE)
    ]
    return WriteTxnMarkersRequest(
        markers=[WritableTxnMarker(producer_id=4711, producer_epoch=0, topics=rows)]
    )


READ, WRITE, DESCRIBE, DELETE = (
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.DELETE,
)
ACTION = cluster(Operation.CLUSTER_ACTION)
JOINED = Right(ResourceType.GROUP, "joined-*", READ)

REQUESTS = (
    Request(
        8, "commit", commit, (*on_topics(READ, group(READ)), (topic(READ),), (group(READ),)), 2
    ),
    Request(
        9,
        "fetch-offsets",
        fetch_offsets,
        (*on_topics(DESCRIBE, group(DESCRIBE)), (topic(DESCRIBE),), (group(DESCRIBE),)),
    ),
    Request(
        9,
        "fetch-all-offsets",
        lambda ask: fetch_offsets(ask, is_all=True),
        (*on_topics(DESCRIBE, group(DESCRIBE)), (group(DESCRIBE),)),
        first=2,
    ),
    Request(10, "find-group", find(0, GROUP, NOBODY), each(group(DESCRIBE)), names_a_topic=False),
    Request(
        10, "find-deal", find(1, DEAL, NOBODY), each(deal(DESCRIBE)), first=1, names_a_topic=False
    ),
    Request(11, "join", join, each(JOINED), names_a_topic=False),
    Request(
        12,
        "heartbeat",
        lambda ask: HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=NOBODY),
        each(group(READ)),
        names_a_topic=False,
    ),
    Request(13, "leave", leave, each(group(READ)), names_a_topic=False),
    Request(
        14,
        "sync",
        sync,
        each(group(READ)),
        names_a_topic=False,
    ),
    Request(
        14,
        "sync-without-protocol",
        lambda ask: sync(ask, protocol=None),
        each(group(READ)),
        names_a_topic=False,
    ),
    Request(
        15,
        "describe-groups",
        lambda ask: DescribeGroupsRequest(
            groups=[GROUP, NOBODY], include_authorized_operations=True
        ),
        (*each(group(DESCRIBE), group(READ)), (group(DESCRIBE), group(DESCRIBE, NOBODY))),
        names_a_topic=False,
    ),
    Request(
        16,
        "list-groups",
        lambda ask: ListGroupsRequest(),
        ((group(DESCRIBE),), (group(READ, NOBODY),)),
        names_a_topic=False,
    ),
    Request(
        42,
        "delete-groups",
        lambda ask: DeleteGroupsRequest(groups_names=[NOBODY, "nobody-else"]),
        each(group(DELETE, NOBODY)),
        names_a_topic=False,
    ),
    Request(
        47,
        "delete-offsets",
        delete_offsets,
        (*on_topics(READ, group(DELETE)), (topic(READ),), (group(DELETE),)),
    ),
    Request(
        22,
        "init-transactional",
        lambda ask: InitProducerIdRequest(
            transactional_id=f"own-{ask.own}", transaction_timeout_ms=1000
        ),
        ((Right(ResourceType.TRANSACTIONAL_ID, "own-*", WRITE),),),
        names_a_topic=False,
    ),
    Request(
        22,
        "init-idempotent",
        lambda ask: InitProducerIdRequest(transactional_id=None),  # type: ignore[arg-type]
        ((cluster(Operation.IDEMPOTENT_WRITE),), (topic(WRITE),), (topic(READ),)),
        names_a_topic=False,
    ),
    Request(
        24,
        "add-partitions",
        add_partitions,
        (*on_topics(WRITE, deal(WRITE)), (deal(WRITE),), (topic(WRITE),)),
        last=3,
    ),
    Request(
        24,
        "add-internal-partitions",
        lambda ask: add_partitions(ask, internal=True),
        ((topic(WRITE), topic(WRITE, MINE), topic(WRITE, "__*"), deal(WRITE)),),
        last=3,
    ),
    Request(24, "verify-partitions", add_partitions, ((deal(WRITE),), (ACTION,)), first=4),
    Request(
        25,
        "add-offsets",
        lambda ask: AddOffsetsToTxnRequest(
            transactional_id=DEAL, producer_id=ask.world.producer_id + 1000, group_id=GROUP
        ),
        each(deal(WRITE), group(READ)),
        names_a_topic=False,
    ),
    Request(
        26,
        "end",
        lambda ask: EndTxnRequest(transactional_id=DEAL, producer_id=ask.world.producer_id + 1000),
        each(deal(WRITE)),
        names_a_topic=False,
    ),
    Request(27, "markers", markers, ((cluster(Operation.ALTER),), (ACTION,), (topic(WRITE),))),
    Request(
        28,
        "commit-in-transaction",
        commit_in_transaction,
        (
            *on_topics(READ, deal(WRITE), group(READ)),
            (deal(WRITE), group(READ)),
            (deal(WRITE), topic(READ)),
            (group(READ), topic(READ)),
        ),
    ),
    Request(
        65,
        "describe-deals",
        lambda ask: DescribeTransactionsRequest(transactional_ids=["open", NOBODY]),
        (
            (deal(DESCRIBE, "open"),),
            (deal(DESCRIBE, "open"), deal(DESCRIBE, NOBODY)),
            (deal(DESCRIBE, "open"), topic(DESCRIBE)),
            (deal(DESCRIBE, "open"), topic(DESCRIBE), topic(READ, MINE)),
        ),
        names_a_topic=False,
    ),
    Request(
        66,
        "list-deals",
        lambda ask: ListTransactionsRequest(),
        ((deal(DESCRIBE, "open"),), (deal(DESCRIBE),)),
        names_a_topic=False,
    ),
)
