"""The exceptions of the clients: Kafka's names, `Error` in place of `Exception`.

    from moldau.errors import KafkaError, TopicExistsError

`__all__` has those that no broker reports. There is one more for each error code of the protocol,
made when it is first asked for, under any of its names: `TopicExistsError`, `NotControllerError`.
"""

from __future__ import annotations

from moldau.client.shared import client_errors as _errors
from moldau.client.shared.client_errors import (
    AuthenticationError,
    AuthorizationError,
    BufferExhaustedError,
    CommitFailedError,
    ConcurrentModificationError,
    ConfigError,
    ConsumerTimeoutError,
    DisconnectError,
    IllegalStateError,
    InterruptError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NetworkError,
    NoOffsetForPartitionError,
    RecordDeserializationError,
    RetriableCommitFailedError,
    RetriableError,
    SerializationError,
    SslAuthenticationError,
    TransactionAbortedError,
    UnsupportedVersionError,
    WakeupError,
)

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BufferExhaustedError",
    "CommitFailedError",
    "ConcurrentModificationError",
    "ConfigError",
    "ConsumerTimeoutError",
    "DisconnectError",
    "IllegalStateError",
    "InterruptError",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncationError",
    "NetworkError",
    "NoOffsetForPartitionError",
    "RecordDeserializationError",
    "RetriableCommitFailedError",
    "RetriableError",
    "SerializationError",
    "SslAuthenticationError",
    "TransactionAbortedError",
    "UnsupportedVersionError",
    "WakeupError",
]


def __getattr__(name: str) -> type[KafkaError]:
    if name.endswith("Error"):
        found: type[KafkaError] = getattr(_errors, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
