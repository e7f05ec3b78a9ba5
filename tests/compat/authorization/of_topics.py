"""Requests about topics and their records."""

from __future__ import annotations

import time

from moldau.records.batch_codec import Record, encode_batch
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from moldau.wire.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.wire.messages.metadata import TopicRequest as TopicName
from moldau.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.wire.messages.transaction_admin import DescribeProducersRequest, TopicRequest
from tests.compat.authorization.words import (
    DEAL,
    MINE,
    Ask,
    Request,
    Right,
    cluster,
    deal,
    each,
    on_topics,
    topic,
)

FOLLOWER = 5
NOW_MS = int(time.time() * 1000)
NEVER_HEARD_OF = b"\x09" * 16
AT_ONCE_MS = 30_000


def batch(ask: Ask, *, transactional: bool = False) -> bytes:
    rows = [Record(0, NOW_MS, None, b"v")]
    if not transactional:
        return encode_batch(rows)
    return encode_batch(
        rows,
        producer_id=ask.world.producer_id,
        producer_epoch=ask.world.producer_epoch,
        base_sequence=0,
        transactional=True,
    )


def produce(ask: Ask, *, acks: int = 1, transactional: bool = False, name: str | None = None):  # type: ignore[no-untyped-def]
    return ProduceRequest(
        transactional_id=name,
        acks=acks,
        timeout_ms=AT_ONCE_MS,
        topic_data=[
            TopicProduceData(
                name=each_topic,
                topic_id=ask.topic_id(each_topic),
                partition_data=[
                    PartitionProduceData(index=0, records=batch(ask, transactional=transactional))
                ],
            )
            for each_topic in (ask.topic, MINE)
        ],
    )


def fetch(ask: Ask, *, follower: int = -1) -> FetchRequest:
    request = FetchRequest(
        replica_id=follower,
        max_bytes=10_000,
        topics=[
            FetchTopic(
                topic=name,
                topic_id=ask.topic_id(name),
                partitions=[FetchPartition(partition=0, partition_max_bytes=10_000)],
            )
            for name in (ask.topic, MINE)
        ],
    )
    if follower >= 0 and ask.version >= 15:
        request.replica_state = ReplicaState(replica_id=follower)
    return request


def metadata(ask: Ask, *, is_all: bool = False, by_id: bool = False) -> MetadataRequest:
    request = MetadataRequest(
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    if by_id:
        request.topics = [
            MetadataRequestTopic(name=None, topic_id=topic_id)  # type: ignore[arg-type]
            for topic_id in (ask.topic_id(ask.topic), ask.topic_id(MINE), NEVER_HEARD_OF)
        ]
    elif is_all:
        request.topics = [] if ask.version == 0 else None
    else:
        request.topics = [MetadataRequestTopic(name=name) for name in (ask.topic, MINE)]
    return request


def creating(ask: Ask) -> MetadataRequest:
    return MetadataRequest(
        allow_auto_topic_creation=True, topics=[MetadataRequestTopic(name=f"born-{ask.own}")]
    )


def list_offsets(ask: Ask) -> ListOffsetsRequest:
    rows = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)]
        )
        for name in (ask.topic, MINE)
    ]
    return ListOffsetsRequest(replica_id=-1, topics=rows)


def create_topics(ask: Ask) -> CreateTopicsRequest:
    rows = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in (f"made-{ask.own}", f"other-{ask.own}")
    ]
    rows[0].configs = [CreatableTopicConfig(name="retention.ms", value="70000")]
    return CreateTopicsRequest(topics=rows, timeout_ms=AT_ONCE_MS)


def create_the_same(ask: Ask) -> CreateTopicsRequest:
    row = CreatableTopic(name=ask.topic, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[row], timeout_ms=AT_ONCE_MS, validate_only=True)


def delete_topics(ask: Ask) -> DeleteTopicsRequest:
    names = [f"doomed-{ask.own}", "nowhere"]
    return DeleteTopicsRequest(
        timeout_ms=AT_ONCE_MS,
        topic_names=names,
        topics=[DeleteTopicState(name=name) for name in names],
    )


def delete_by_id(ask: Ask) -> DeleteTopicsRequest:
    ids = [ask.topic_id(ask.topic), NEVER_HEARD_OF]
    rows = [DeleteTopicState(name=None, topic_id=each_id) for each_id in ids]
    return DeleteTopicsRequest(timeout_ms=AT_ONCE_MS, topics=rows)


def delete_records(ask: Ask) -> DeleteRecordsRequest:
    rows = [
        DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)]
        )
        for name in (ask.topic, MINE)
    ]
    return DeleteRecordsRequest(topics=rows, timeout_ms=AT_ONCE_MS)


def leader_epochs(ask: Ask) -> OffsetForLeaderEpochRequest:
    rows = [
        OffsetForLeaderTopic(
            topic=name, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)]
        )
        for name in (ask.topic, MINE)
    ]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=rows)


def create_partitions(ask: Ask) -> CreatePartitionsRequest:
    rows = [
        CreatePartitionsTopic(name=name, count=3, assignments=None) for name in (ask.topic, MINE)
    ]
    return CreatePartitionsRequest(topics=rows, timeout_ms=AT_ONCE_MS, validate_only=True)


def describe_producers(ask: Ask) -> DescribeProducersRequest:
    rows = [TopicRequest(name=name, partition_indexes=[1]) for name in (ask.topic, MINE)]
    return DescribeProducersRequest(topics=rows)


def topic_partitions(ask: Ask, *, is_all: bool = False) -> DescribeTopicPartitionsRequest:
    rows = [] if is_all else [TopicName(name=name) for name in sorted((ask.topic, MINE))]
    return DescribeTopicPartitionsRequest(topics=rows)


def on_own(operation: Operation) -> tuple[tuple[Right, ...], ...]:
    return (
        (Right(ResourceType.TOPIC, "made-*", operation),),
        (
            Right(ResourceType.TOPIC, "made-*", operation),
            Right(ResourceType.TOPIC, "made-*", Operation.DESCRIBE_CONFIGS),
        ),
        (cluster(operation),),
    )


READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
CREATE, DELETE, ALTER = Operation.CREATE, Operation.DELETE, Operation.ALTER

REQUESTS = (
    Request(0, "produce", produce, on_topics(WRITE), first=3),
    Request(0, "produce-unanswered", lambda ask: produce(ask, acks=0), on_topics(WRITE), first=3),
    Request(
        0,
        "produce-in-transaction",
        lambda ask: produce(ask, acks=-1, transactional=True, name=DEAL),
        (*on_topics(WRITE), (deal(WRITE),)),
        first=3,
    ),
    Request(
        0,
        "produce-in-nobodys-transaction",
        lambda ask: produce(ask, acks=-1, transactional=True),
        (*on_topics(WRITE, deal(WRITE)),),
        first=3,
    ),
    Request(
        0,
        "produce-with-another-id",
        lambda ask: produce(ask, acks=-1, transactional=False, name="another"),
        on_topics(WRITE),
        first=3,
    ),
    Request(1, "fetch", fetch, on_topics(READ), first=4),
    Request(
        1,
        "fetch-as-follower",
        lambda ask: fetch(ask, follower=FOLLOWER),
        on_topics(READ),
        first=4,
    ),
    Request(2, "list-offsets", list_offsets, on_topics(DESCRIBE), first=1),
    Request(3, "metadata", metadata, on_topics(DESCRIBE)),
    Request(3, "metadata-of-all", lambda ask: metadata(ask, is_all=True), on_topics(DESCRIBE)),
    Request(
        3,
        "metadata-by-id",
        lambda ask: metadata(ask, by_id=True),
        on_topics(DESCRIBE),
        first=12,
    ),
    Request(
        3,
        "metadata-of-a-new-topic",
        creating,
        ((Right(ResourceType.TOPIC, "born-*", DESCRIBE),),),
        names_a_topic=False,
    ),
    Request(3, "metadata-with-cluster-bits", metadata, ((cluster(DESCRIBE), cluster(ALTER)),)),
    Request(19, "create-topics", create_topics, on_own(CREATE), names_a_topic=False),
    Request(19, "create-what-is-there", create_the_same, ((topic(CREATE),),)),
    Request(
        20,
        "delete-topics",
        delete_topics,
        ((Right(ResourceType.TOPIC, "doomed-*", DELETE),), (cluster(DELETE),)),
        makes="doomed-",
        names_a_topic=False,
    ),
    Request(20, "delete-by-id", delete_by_id, ((topic(DESCRIBE),),), first=6),
    Request(21, "delete-records", delete_records, on_topics(DELETE)),
    Request(23, "leader-epochs", leader_epochs, (*on_topics(DESCRIBE),)),
    Request(23, "leader-epochs-of-all", leader_epochs, each(cluster(Operation.CLUSTER_ACTION))),
    Request(37, "create-partitions", create_partitions, on_topics(ALTER), first=1),
    Request(
        60,
        "describe-cluster",
        lambda ask: DescribeClusterRequest(include_cluster_authorized_operations=True),
        each(cluster(ALTER), cluster(DESCRIBE)),
    ),
    Request(61, "describe-producers", describe_producers, on_topics(READ)),
    Request(75, "topic-partitions", topic_partitions, on_topics(DESCRIBE)),
    Request(
        75,
        "partitions-of-all",
        lambda ask: topic_partitions(ask, is_all=True),
        on_topics(DESCRIBE),
    ),
)
