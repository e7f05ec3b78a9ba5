"""State in memory that survives a crash: read, change a state, write, exactly once.

    from moldau.recovery import Application, StatefulConsumer, Topics

    counting = Application(initial=dict, apply=count, dump=dumps, load=loads)
    with StatefulConsumer(counting, Topics("words"), settings) as consumer:
        consumer.run()

Each partition of the input topic has its own state. It is rebuilt from a full snapshot and the
records since then, after every rebalance, before anything new is done; docs/recovery.md tells how.
"""

from __future__ import annotations

from moldau.recovery.application import Application, FullSnapshots, Topics
from moldau.recovery.last_record import last_record
from moldau.recovery.recovery_errors import RecoveryError
from moldau.recovery.snapshot_records import FullPart, Increment
from moldau.recovery.stateful_consumer import StatefulConsumer
from moldau.recovery.transactional_ids import numbered_id, partition_id

__all__ = [
    "Application",
    "FullPart",
    "FullSnapshots",
    "Increment",
    "RecoveryError",
    "StatefulConsumer",
    "Topics",
    "last_record",
    "numbered_id",
    "partition_id",
]
