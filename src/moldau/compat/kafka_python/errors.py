"""The exceptions under kafka-python's names: `from moldau.compat.kafka_python.errors import …`.

They are the classes of `moldau.errors`, most of which have the same name in both libraries.
"""

from __future__ import annotations

from moldau import errors as _errors
from moldau.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    RetriableError,
    TransactionAbortedError,
    UnsupportedVersionError,
)

__all__ = [
    "CommitFailedError",
    "IllegalStateError",
    "KafkaConfigurationError",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaTimeoutError",
    "NoOffsetForPartitionError",
    "RetriableError",
    "TransactionAbortedError",
    "UnsupportedVersionError",
]

KafkaConnectionError = _errors.NetworkError

_OTHER_NAMES = {
    "IncompatibleBrokerVersion": "UnsupportedVersionError",
    "CorruptRecordException": "CorruptMessageError",
    "InvalidFetchRequestError": "InvalidFetchSizeError",
    "NotLeaderForPartitionError": "NotLeaderOrFollowerError",
    "MessageSizeTooLargeError": "RecordTooLargeError",
    "InvalidReplicationAssignmentError": "InvalidReplicaAssignmentError",
    "UnknownError": "UnknownServerError",
}


class KafkaConfigurationError(KafkaError):
    """A setting that is not known, or a value that is not allowed."""


def __getattr__(name: str) -> type[KafkaError]:
    found: type[KafkaError] = getattr(_errors, _OTHER_NAMES.get(name, name))
    return found
