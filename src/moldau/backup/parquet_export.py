"""A backup as Parquet files that people can query: committed records, one row for each.

The raw batches are the truth; these files are made from them, for one moment, whenever somebody
wants them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moldau.backup.backup_faults import BackupFault
from moldau.backup.batch_files import sync_directory
from moldau.backup.committed_batches import AbortedRanges, committed
from moldau.backup.progress import Progress
from moldau.backup.restore_plan import Plan, PlannedPartition, PlannedTopic
from moldau.backup.restored_batches import RestoredBatches
from moldau.records.batch_codec import Record, decode_batch

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
    schema, count = _schema(), 0
    with ParquetWriter(path + ".partial", schema, compression="zstd") as writer:
        for rows in _slices(plan, partition, aborted):
            writer.write_table(_table(rows, partition.partition, schema))
            count += len(rows)
            progress.copied(0, len(rows))
    os.replace(path + ".partial", path)
    sync_directory(parent)
    return count


def _slices(
    plan: Plan, partition: PlannedPartition, aborted: AbortedRanges
) -> Iterator[list[Record]]:
    rows: list[Record] = []
    for batch, _ in committed(RestoredBatches(plan, partition).chunks(), aborted):
        rows += decode_batch(batch)
        if len(rows) >= ROWS_AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
        ]
    )


def _table(rows: list[Record], partition: int, schema: pyarrow.Schema) -> pyarrow.Table:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {
        "partition": [partition] * len(rows),
        "offset": [row.offset for row in rows],
        "timestamp": [row.timestamp for row in rows],
        "key": [row.key for row in rows],
        "value": [row.value for row in rows],
        "headers": [
            [{"key": key, "value": value} for key, value in row.headers or ()] for row in rows
        ],
    }
    return pa.table(columns, schema=schema)
