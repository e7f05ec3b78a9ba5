"""What a Fetch before version 10 is told instead: nothing of zstd, and before version 4 messages
of the formats that its consumer knows.

The ordinary handler has read and waited; here its regions become bytes, one partition after
another, in a thread: a few kilobytes may decompress to megabytes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Final

from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.model.file_regions import FileRegion
from moldau.model.names import NO_TOPIC_ID
from moldau.records.old_formats.down_conversion import Downgraded, for_old_readers
from moldau.replication.fetch_sessions import FetchedPartition
from moldau.replication.replica import READ_UNCOMMITTED, Replica
from moldau.replication.replica_loading import load
from moldau.wire.messages.fetch import FetchablePartitionResponse, FetchRequest, FetchResponse

BATCHES_SINCE: Final = 4
"""Consumers of this version read record batches, those of version 2 magic 1."""
MAGIC_1_SINCE: Final = 2
STORAGE_ERROR_SINCE: Final = 6


def without_zstd(response: FetchResponse, ctx: RequestContext, on: Services) -> FetchResponse:
    """Topics that are stored in zstd are refused, as Kafka refuses them."""
    for topic in response.responses:
        for row in topic.partitions:
            if not row.error_code:
                try:
                    replica = on.replicas.find(topic.topic, row.partition_index)
                except ApiError:
                    continue
                if replica.settings.compression_type == "zstd":
                    _refuse(row, Error.UNSUPPORTED_COMPRESSION_TYPE)
            if (
                row.error_code == Error.KAFKA_STORAGE_ERROR
                and ctx.api_version < STORAGE_ERROR_SINCE
            ):
                row.error_code = Error.NOT_LEADER_OR_FOLLOWER
    return response


@dataclass(slots=True)
class Rewriting:
    """One answer for an old consumer."""

    request: FetchRequest
    ctx: RequestContext
    on: Services

    async def rewrite(self, response: FetchResponse) -> bool:
        """Put messages in place of regions. False if only batches were found that old consumers
        never see: then the request asks for what comes behind them."""
        asked = {
            (topic.topic, row.partition): row
            for topic in self.request.topics
            for row in topic.partitions
        }
        room_bytes = min(self.request.max_bytes, self.on.config.fetch_max_bytes)
        has_news, has_skipped = False, False
        for topic in response.responses:
            for row in topic.partitions:
                wanted = asked[topic.topic, row.partition_index]
                if isinstance(row.records, FileRegion):
                    limit_bytes = min(wanted.partition_max_bytes, room_bytes)
                    offset_end = await self._fill(
                        topic.topic, row, wanted.fetch_offset, limit_bytes
                    )
                    assert isinstance(row.records, bytes)
                    room_bytes = max(room_bytes - len(row.records), 0)
                    if not row.error_code and not row.records:
                        wanted.fetch_offset = offset_end
                        has_skipped = True
                has_news = has_news or bool(row.error_code or row.records)
        return has_news or not has_skipped

    async def _fill(
        self, topic: str, row: FetchablePartitionResponse, offset: int, limit_bytes: int
    ) -> int:
        """Returns the offset behind what was read."""
        region = row.records
        row.records = b""
        magic = 1 if self.ctx.api_version >= MAGIC_1_SINCE else 0
        try:
            replica = self.on.replicas.find(topic, row.partition_index)
            if not replica.settings.message_downconversion_enable:
                raise ApiError(Error.UNSUPPORTED_VERSION, f"{topic} is not written anew")
            while isinstance(region, FileRegion):
                convert = partial(_convert, region, magic, offset, limit_bytes)
                row.records, offset_end = await self.on.replicas.for_old_consumers.run(convert)
                replica.counts.fetch_conversions += max(0, offset_end - offset)
                # Bytes that are no message, on a damaged disk, lead nowhere.
                if row.records or offset_end <= offset:
                    break
                offset = offset_end
                await load(replica)
                region = self._region_behind(replica, row.partition_index, offset, region)
        except ApiError as refusal:
            _refuse(row, refusal.error)
        return offset

    def _region_behind(
        self, replica: Replica, partition: int, offset: int, region: FileRegion
    ) -> FileRegion | None:
        wanted = FetchedPartition("", NO_TOPIC_ID, partition, offset, region.size_bytes)
        read = replica.read(wanted, region.size_bytes, True, READ_UNCOMMITTED)
        return None if read is None else read.records


def _convert(region: FileRegion, magic: int, offset: int, limit_bytes: int) -> Downgraded:
    try:
        records = os.pread(region.file.fileno(), region.size_bytes, region.position)
    except OSError as error:
        raise ApiError(Error.KAFKA_STORAGE_ERROR, f"cannot read: {error.strerror}") from error
    return for_old_readers(records, magic, offset, limit_bytes)


def _refuse(row: FetchablePartitionResponse, error: Error) -> None:
    """As Kafka's answer about a partition that cannot be read."""
    row.error_code = error
    row.high_watermark = row.last_stable_offset = row.log_start_offset = -1
    row.aborted_transactions = None
    row.records = b""
