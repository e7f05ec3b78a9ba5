"""Copying partitions on the executors of Spark, for clusters that are too much for one machine.

An executor does what one process would do: it copies a partition up to an offset, into the same
files. So the directory has to be one that all of them reach under the same path. The moment is
chosen and written by the driver, which also copies what the coordinators have stored.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from moldau.backup.backup_faults import BackupFault
from moldau.backup.cluster_source import ClusterSource
from moldau.backup.copying import Copied, PartitionCopy, Wanted

Spread = Callable[[Sequence[Wanted]], Sequence[Copied]]
"""Copies all of them, wherever; blocks."""


class _Unheard:
    """What an executor has copied is told when it is done."""

    def begins(self, total_offsets: int) -> None:
        pass

    def copied(self, raw_bytes: int, offsets: int = 0) -> None:
        pass


def on_spark(master: str, settings: Mapping[str, Any]) -> Spread:
    """Raises BackupFault without pyspark."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise BackupFault("--master needs Spark: pip install 'moldau[spark]'") from None
    # Executors on this machine run what runs here.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("moldau backup")
    context = builder.config("spark.ui.enabled", "false").getOrCreate().sparkContext
    context.setLogLevel("ERROR")
    one = partial(copy_one, dict(settings))

    def spread(wanted: Sequence[Wanted]) -> Sequence[Copied]:
        if not wanted:
            return []
        # The largest first, each a task of its own.
        largest = sorted(wanted, key=lambda each: each.offset_start - each.offset_end)
        copied: list[Copied] = context.parallelize(largest, len(largest)).map(one).collect()
        return copied

    return spread


def copy_one(settings: Mapping[str, Any], wanted: Wanted) -> Copied:
    """In an executor."""

    async def copy() -> Copied:
        async with ClusterSource(settings) as source:
            await source.configs([wanted.place.topic])
            return await PartitionCopy(source, wanted, None, _Unheard()).run()

    return asyncio.run(copy())
