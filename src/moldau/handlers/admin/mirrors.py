"""BeginMirrors, AppendMirrored, DescribeMirrors, RaiseMirrorEpochs, PromoteMirror and
DemoteToMirror: topics that repeat those of another cluster."""

from __future__ import annotations

from moldau.cluster.mirrors import Mirrors, WantedMirror
from moldau.config.mirror_source import MirrorSource, MirrorState
from moldau.config.topic_config import MIRROR_SOURCE
from moldau.handlers.request_context import RequestContext
from moldau.handlers.request_slices import Turn
from moldau.handlers.services import Services
from moldau.model.cluster import TopicImage
from moldau.model.errors import ApiError, Error
from moldau.wire.messages.mirrors import (
    AppendedPartition,
    AppendedTopic,
    AppendMirroredRequest,
    AppendMirroredResponse,
    BeginMirrorsRequest,
    BeginMirrorsResponse,
    DemoteToMirrorRequest,
    DemoteToMirrorResponse,
    DescribedMirror,
    DescribeMirrorsRequest,
    DescribeMirrorsResponse,
    MirroredPartition,
    MirroredTopic,
    MirrorPartition,
    PromoteMirrorRequest,
    PromoteMirrorResponse,
    RaiseMirrorEpochsRequest,
    RaiseMirrorEpochsResponse,
)


async def begin_mirrors(
    request: BeginMirrorsRequest, ctx: RequestContext, on: Services
) -> BeginMirrorsResponse:
    try:
        mirrors = _mirrors_of(on)
        wanted = [
            WantedMirror(
                topic.name,
                topic.topic_id,
                _source(topic.source),
                {row.name: row.value for row in topic.configs},
                tuple(topic.leader_epochs),
            )
            for topic in request.topics
        ]
        if request.source_producer_id >= 0:
            await mirrors.keep_producers_apart(request.source_producer_id)
        if wanted:
            await mirrors.begin(wanted)
    except ApiError as refused:
        return BeginMirrorsResponse(error_code=refused.error, error_message=refused.message)
    return BeginMirrorsResponse()


async def append_mirrored(
    request: AppendMirroredRequest, ctx: RequestContext, on: Services
) -> AppendMirroredResponse:
    turn = Turn(on.clock)
    answers = []
    for topic in request.topics:
        rows = []
        for wanted in topic.partitions:
            if turn.is_over():
                await turn.rest()
            rows.append(await _append(topic, wanted, on))
        answers.append(AppendedTopic(topic_id=topic.topic_id, partitions=rows))
    return AppendMirroredResponse(topics=answers)


async def _append(
    topic: MirroredTopic, wanted: MirroredPartition, on: Services
) -> AppendedPartition:
    row = AppendedPartition(partition=wanted.partition)
    try:
        row.offset_end = await _mirrors_of(on).append(
            topic.topic_id,
            wanted.partition,
            topic.source,
            wanted.fetch_offset,
            wanted.log_start_offset,
            wanted.records or b"",
        )
    except ApiError as refused:
        row.error_code, row.error_message = refused.error, refused.message
    return row


async def describe_mirrors(
    request: DescribeMirrorsRequest, ctx: RequestContext, on: Services
) -> DescribeMirrorsResponse:
    try:
        _mirrors_of(on)
    except ApiError as refused:
        return DescribeMirrorsResponse(error_code=refused.error, error_message=refused.message)
    image = on.image()
    names = request.topics or [
        name for name, configs in image.topic_configs.items() if MIRROR_SOURCE in configs
    ]
    turn = Turn(on.clock)
    rows = []
    for name in sorted(set(names)):
        if turn.is_over():
            await turn.rest()
        topic = on.image().topics.get(name)
        if topic is None:
            error = Error.UNKNOWN_TOPIC_OR_PARTITION
            rows.append(DescribedMirror(name=name, error_code=error))
            continue
        source = on.image().topic_configs.get(name, {}).get(MIRROR_SOURCE, "")
        partitions = [_described(topic, number, on) for number in range(len(topic.partitions))]
        rows.append(
            DescribedMirror(name=name, topic_id=topic.id, source=source, partitions=partitions)
        )
    return DescribeMirrorsResponse(topics=rows)


def _described(topic: TopicImage, number: int, on: Services) -> MirrorPartition:
    try:
        replica = on.replicas.find(topic.name, number)
    except ApiError as refused:
        return MirrorPartition(partition=number, error_code=refused.error)
    log, partition = replica.log, replica.partition
    return MirrorPartition(
        partition=number,
        leader_epoch=partition.leader_epoch,
        last_epoch=log.latest_epoch,
        log_start_offset=log.log_start_offset,
        offset_end=log.offset_end,
        last_stable_offset=log.last_stable_offset(partition.high_watermark),
    )


async def raise_mirror_epochs(
    request: RaiseMirrorEpochsRequest, ctx: RequestContext, on: Services
) -> RaiseMirrorEpochsResponse:
    epochs = {row.partition: row.leader_epoch for row in request.partitions}
    try:
        await _mirrors_of(on).raise_epochs(request.topic_id, request.source, epochs)
    except ApiError as refused:
        return RaiseMirrorEpochsResponse(error_code=refused.error, error_message=refused.message)
    return RaiseMirrorEpochsResponse()


async def promote_mirror(
    request: PromoteMirrorRequest, ctx: RequestContext, on: Services
) -> PromoteMirrorResponse:
    try:
        aborted = await _mirrors_of(on).promote(request.topic)
    except ApiError as refused:
        return PromoteMirrorResponse(error_code=refused.error, error_message=refused.message)
    return PromoteMirrorResponse(aborted_transactions=aborted)


async def demote_to_mirror(
    request: DemoteToMirrorRequest, ctx: RequestContext, on: Services
) -> DemoteToMirrorResponse:
    try:
        source = _source(request.source)
        await _mirrors_of(on).demote(request.topic, source, request.offset_ends)
    except ApiError as refused:
        return DemoteToMirrorResponse(error_code=refused.error, error_message=refused.message)
    return DemoteToMirrorResponse()


def _source(text: str) -> MirrorSource:
    source = MirrorSource.parse(text)
    if source is None or source.state is not MirrorState.MIRRORED:
        raise ApiError(Error.INVALID_REQUEST, f"'{text}' names no topic of another cluster")
    return source


def _mirrors_of(on: Services) -> Mirrors:
    if on.mirrors is None:
        raise ApiError(
            Error.UNSUPPORTED_VERSION,
            "a mirror is kept by a broker that stands alone, not yet by a cluster on ZooKeeper",
        )
    return on.mirrors()
