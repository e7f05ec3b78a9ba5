"""Reading the ranges of a scan: a few partitions at a time, each with one fetch ahead.

Bounded: at any moment there are a fetch that is being decoded and one under way for each of those
partitions, and never more, however slow the one who asks is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from moldau.client.shared.client_errors import KafkaError
from moldau.pipelines.source.source_client import SourceClient
from moldau.pipelines.source.source_fetch import RangeReader
from moldau.pipelines.source.source_offsets import OffsetRange
from moldau.pipelines.source.source_options import SourceError, SourceOptions
from moldau.tables.kafka_columns import record_batches
from moldau.tables.scan_plan import told

if TYPE_CHECKING:
    import pyarrow

PARTITIONS_AT_ONCE = 4


def scan(
    options: SourceOptions, ranges: list[OffsetRange], schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    """The records in the ranges; those of a partition in their order."""
    if not ranges:
        return
    with closing(SourceClient(options)) as client:
        waiting = deque(ranges)
        active: deque[Iterator[pyarrow.RecordBatch]] = deque()
        try:
            while waiting or active:
                while waiting and len(active) < PARTITIONS_AT_ONCE:
                    active.append(_read(client, waiting.popleft(), schema))
                batch = next(active[0], None)
                if batch is None:
                    active.popleft()
                    continue
                active.rotate(-1)
                yield batch
        except (SourceError, KafkaError) as fault:
            raise told(fault) from fault


def _read(
    client: SourceClient, part: OffsetRange, schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    for slices in RangeReader(client, part, client.topic_id(part.tp.topic)).read():
        yield from record_batches(slices, part.end, schema)
