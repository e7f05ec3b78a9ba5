"""A backup as Parquet files that people can query: committed records, one row for each.

The raw batches are the truth; these files are made from them, for one moment, whenever somebody
wants them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from moldau.backup.backup_faults import BackupFault
from moldau.backup.batch_files import sync_directory
from moldau.backup.committed_batches import BODY_BYTES_MAX, AbortedRanges, committed
from moldau.backup.progress import Progress
from moldau.backup.restore_plan import Plan, PlannedPartition, PlannedTopic
from moldau.backup.restored_batches import RestoredBatches
from moldau.client.consumer.arrow_tables import schema, table_of
from moldau.client.consumer.fetch_buffer import BatchSlice
from moldau.model.names import TopicPartition
from moldau.records.batch import HEADER_BYTES
from moldau.records.compression import decompress

if TYPE_CHECKING:
    import pyarrow

ROWS_AT_ONCE = 50_000


def export(plan: Plan, directory: str, progress: Progress) -> int:
    """How many records: one file for each partition that has some. Raises BackupFault."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BackupFault("Parquet needs pyarrow: pip install 'moldau[arrow]'") from None
    del pyarrow
    partitions = [(topic, each) for topic in plan.topics for each in topic.partitions]
    progress.begins(
        sum(row.counts.records for _, partition in partitions for row in partition.files)
    )
    return sum(_export(plan, *each, directory, progress) for each in partitions)


def _export(
    plan: Plan,
    topic: PlannedTopic,
    partition: PlannedPartition,
    directory: str,
    progress: Progress,
) -> int:
    from pyarrow.parquet import ParquetWriter

    aborted = AbortedRanges(RestoredBatches(plan, partition).chunks())
    parent = os.path.join(directory, topic.name)
    path = os.path.join(parent, f"partition-{partition.partition}.parquet")
    os.makedirs(parent, exist_ok=True)
    columns, count = _schema(), 0
    with ParquetWriter(path + ".partial", columns, compression="zstd") as writer:
        for slices in _slices(plan, partition, aborted):
            rows = table_of(slices).select(columns.names)
            writer.write_table(rows)
            count += rows.num_rows
            progress.copied(0, rows.num_rows)
    os.replace(path + ".partial", path)
    sync_directory(parent)
    return count


def _slices(
    plan: Plan, partition: PlannedPartition, aborted: AbortedRanges
) -> Iterator[list[BatchSlice]]:
    place = TopicPartition("", partition.partition)
    slices: list[BatchSlice] = []
    rows = 0
    for batch, header in committed(RestoredBatches(plan, partition).chunks(), aborted):
        body = decompress(header.codec, batch[HEADER_BYTES:], BODY_BYTES_MAX)
        slices.append(BatchSlice(place, header, body, 0))
        rows += header.record_count
        if rows >= ROWS_AT_ONCE:
            yield slices
            slices, rows = [], 0
    if slices:
        yield slices


def _schema() -> pyarrow.Schema:
    """What consumers get, without the topic, which is the directory."""
    return schema().remove(schema().get_field_index("topic"))
