"""The requests of transactional producers: begin, partitions and offsets, end.

Each becomes a command for the coordinator of the transactional id. Positions of consumer groups are
kept by the group's coordinator: its partition joins the transaction before they are given to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moldau.handlers.groups import offset_commit
from moldau.handlers.request_slices import ROWS_PER_LOOK, Turn
from moldau.handlers.topic_data.topic_auto_creation import create_internal
from moldau.handlers.transactions.transaction_outcomes import told
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.records.batch import NO_PRODUCER_EPOCH
from moldau.replication.replica_loading import load
from moldau.transactions.partition_verification import (
    OFFSETS_KNOW_ABORTABLE_SINCE,
    OFFSETS_REGISTER_SINCE,
)
from moldau.transactions.transaction_commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
)
from moldau.transactions.transaction_facts import VERSION_1, VERSION_2
from moldau.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from moldau.handlers.request_context import RequestContext
    from moldau.handlers.services import Services

OFFSETS_TOPIC: Final = "__consumer_offsets"
INIT_FENCED_SINCE: Final = 4
"""The version of InitProducerId from which clients know PRODUCER_FENCED."""
SEVERAL_TRANSACTIONS_SINCE: Final = 4
END_BUMPS_EPOCH_SINCE: Final = 5
OFFSETS_KNOW_LOADING_SINCE: Final = 2
ASKED_AGAIN_MAX: Final = 3

Results = Mapping[TopicPartition, Error]


async def init_transactional_producer(
    request: InitProducerIdRequest, ctx: RequestContext, on: Services
) -> InitProducerIdResponse:
    transactional_id = request.transactional_id or ""
    command = InitProducer(
        transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
    )
    try:
        granted = await on.transactions.ask_for_producer(command)
    except ApiError as refusal:
        return InitProducerIdResponse(
            error_code=told(refusal, ctx.api_version, INIT_FENCED_SINCE),
            producer_epoch=NO_PRODUCER_EPOCH,
        )
    return InitProducerIdResponse(
        producer_id=granted.producer_id, producer_epoch=granted.producer_epoch
    )


# Partitions


async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, ctx: RequestContext, on: Services
) -> AddPartitionsToTxnResponse:
    if ctx.api_version >= SEVERAL_TRANSACTIONS_SINCE:
        rows = [
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=await _added(transaction, ctx, on),
            )
            for transaction in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=rows)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=await _added(transaction, ctx, on)
    )


async def _added(
    wanted: AddPartitionsToTxnTransaction, ctx: RequestContext, on: Services
) -> list[AddPartitionsToTxnTopicResult]:
    places = [
        TopicPartition(topic.name, partition)
        for topic in wanted.topics
        for partition in topic.partitions
    ]
    unknown = {place for place in places if not exists(place, on)}
    if unknown:
        # All of them or none: the client has to look at its topics first.
        results: Results = {
            place: Error.UNKNOWN_TOPIC_OR_PARTITION
            if place in unknown
            else Error.OPERATION_NOT_ATTEMPTED
            for place in places
        }
        return await _topic_rows(wanted.topics, results, on)
    is_newer = ctx.api_version >= SEVERAL_TRANSACTIONS_SINCE
    command = AddPartitions(
        wanted.transactional_id,
        wanted.producer_id,
        wanted.producer_epoch,
        frozenset(places),
        wanted.verify_only,
        VERSION_2 if is_newer else VERSION_1,
    )
    try:
        results = await on.transactions.ask(wanted.transactional_id, command)
    except ApiError as refusal:
        results = dict.fromkeys(places, told(refusal, ctx.api_version))
    return await _topic_rows(wanted.topics, results, on)


def exists(place: TopicPartition, on: Services) -> bool:
    topic = on.image().topics.get(place.topic)
    return topic is not None and 0 <= place.partition < len(topic.partitions)


async def _topic_rows(
    topics: list[AddPartitionsToTxnTopic], results: Results, on: Services
) -> list[AddPartitionsToTxnTopicResult]:
    turn = Turn(on.clock)
    rows = []
    for topic in topics:
        row = AddPartitionsToTxnTopicResult(name=topic.name)
        for start in range(0, len(topic.partitions), ROWS_PER_LOOK):
            row.results_by_partition += [
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition,
                    partition_error_code=results[TopicPartition(topic.name, partition)],
                )
                for partition in topic.partitions[start : start + ROWS_PER_LOOK]
            ]
            if turn.is_over():
                await turn.rest()
        rows.append(row)
    return rows


# Offsets of consumer groups


async def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, ctx: RequestContext, on: Services
) -> AddOffsetsToTxnResponse:
    try:
        command = AddPartitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({await _place_of_group(request.group_id, on)}),
        )
        await on.transactions.ask(request.transactional_id, command)
    except ApiError as refusal:
        return AddOffsetsToTxnResponse(error_code=told(refusal, ctx.api_version))
    return AddOffsetsToTxnResponse()


async def txn_offset_commit(
    request: TxnOffsetCommitRequest, ctx: RequestContext, on: Services
) -> TxnOffsetCommitResponse:
    places = (
        TopicPartition(topic.name, row.partition_index)
        for topic in request.topics
        for row in topic.partitions
    )
    try:
        # What names nothing that is there does not come to the coordinator.
        if any(exists(place, on) for place in places):
            await _admit_offsets(request, ctx, on)
    except ApiError as refusal:
        return _refused_offsets(request, ctx, refusal, on)
    return await offset_commit.txn_offset_commit(request, ctx, on)


async def _admit_offsets(
    request: TxnOffsetCommitRequest, ctx: RequestContext, on: Services
) -> None:
    """Newer clients leave it to us to add the group's partition; older ones have added it."""
    registers = ctx.api_version >= OFFSETS_REGISTER_SINCE
    is_asked = registers or on.config.transaction_partition_verification_enable
    if not is_asked or not request.group_id:
        return
    place = await _place_of_group(request.group_id, on)
    producers = (await load(on.replicas.find(*place))).producers
    if producers.is_in_transaction(request.producer_id, request.producer_epoch):
        return
    command = AddPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        frozenset({place}),
        verify_only=not registers,
        client_version=VERSION_2 if registers else VERSION_1,
    )
    asking = on.transactions.ask_patiently if registers else on.transactions.ask_of_partitions
    for _ in range(ASKED_AGAIN_MAX if registers else 1):
        count = producers.markers_count(request.producer_id)
        results = await asking(command)
        if results[place] is not Error.NONE:
            raise ApiError(results[place], f"{place} is not in the transaction")
        if producers.markers_count(request.producer_id) == count:
            return
        # In version 2 it may have been the end of the transaction before, which is answered before
        # its markers are written: the coordinator knows whether ours is still open.
    text = f"the transaction has ended in {place} meanwhile"
    raise ApiError(Error.TRANSACTION_ABORTABLE, text)


def _refused_offsets(
    request: TxnOffsetCommitRequest, ctx: RequestContext, refusal: ApiError, on: Services
) -> TxnOffsetCommitResponse:
    version = ctx.api_version
    error = told(refusal, version)
    if error is Error.PRODUCER_FENCED:
        # What the group's partition itself would say of an old epoch.
        error = Error.INVALID_PRODUCER_EPOCH
    elif error is Error.TRANSACTION_ABORTABLE and version < OFFSETS_KNOW_ABORTABLE_SINCE:
        error = Error.INVALID_TXN_STATE
    elif error is Error.COORDINATOR_LOAD_IN_PROGRESS and version < OFFSETS_KNOW_LOADING_SINCE:
        error = Error.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=row.partition_index,
                        error_code=error
                        if exists(TopicPartition(topic.name, row.partition_index), on)
                        else Error.UNKNOWN_TOPIC_OR_PARTITION,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _place_of_group(group_id: str, on: Services) -> TopicPartition:
    """Where the group keeps its offsets. A producer may be the first to speak of any group."""
    await create_internal(on.groups, on)
    return TopicPartition(OFFSETS_TOPIC, on.groups.partition_of(group_id))


# The end


async def end_txn(request: EndTxnRequest, ctx: RequestContext, on: Services) -> EndTxnResponse:
    bumps_epoch = ctx.api_version >= END_BUMPS_EPOCH_SINCE
    command = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        VERSION_2 if bumps_epoch else VERSION_1,
    )
    try:
        granted = await on.transactions.ask_for_producer(command)
    except ApiError as refusal:
        return EndTxnResponse(error_code=told(refusal, ctx.api_version))
    return EndTxnResponse(producer_id=granted.producer_id, producer_epoch=granted.producer_epoch)
