"""A transaction as Kafka printed it up to 3.x: `TransactionMetadata(transactionalId=..., ...)`."""

from __future__ import annotations

from typing import Any

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def transaction_text(transactional_id: str, value: Any) -> str:
    if value is None:
        return "NULL"
    status = value.transaction_status
    state = STATES[status] if 0 <= status < len(STATES) else str(status)
    partitions = ", ".join(
        f"{row.topic}-{number}"
        for row in value.transaction_partitions or ()
        for number in row.partition_ids
    )
    return (
        f"TransactionMetadata(transactionalId={transactional_id}, producerId={value.producer_id},"
        f" producerEpoch={value.producer_epoch}, txnTimeoutMs={value.transaction_timeout_ms},"
        f" state={state}, pendingState=None, topicPartitions=HashSet({partitions}),"
        f" txnStartTimestamp={value.transaction_start_timestamp_ms},"
        f" txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms})"
    )
