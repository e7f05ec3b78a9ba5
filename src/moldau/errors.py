"""The exceptions of the clients, as `moldau.errors`; `client/errors.py` tells what they mean.

    from moldau.errors import KafkaError, TopicExistsError

Classes of error codes are made when they are first asked for, under any of their names.
"""

from __future__ import annotations

from moldau.client import errors as _errors
from moldau.client.errors import AuthenticationError as AuthenticationError
from moldau.client.errors import AuthorizationError as AuthorizationError
from moldau.client.errors import BufferExhaustedError as BufferExhaustedError
from moldau.client.errors import CommitFailedError as CommitFailedError
from moldau.client.errors import ConcurrentModificationError as ConcurrentModificationError
from moldau.client.errors import ConfigError as ConfigError
from moldau.client.errors import ConsumerTimeoutError as ConsumerTimeoutError
from moldau.client.errors import DisconnectError as DisconnectError
from moldau.client.errors import IllegalStateError as IllegalStateError
from moldau.client.errors import InterruptError as InterruptError
from moldau.client.errors import KafkaError as KafkaError
from moldau.client.errors import KafkaTimeoutError as KafkaTimeoutError
from moldau.client.errors import LogTruncationError as LogTruncationError
from moldau.client.errors import NetworkError as NetworkError
from moldau.client.errors import NoOffsetForPartitionError as NoOffsetForPartitionError
from moldau.client.errors import RecordDeserializationError as RecordDeserializationError
from moldau.client.errors import RetriableCommitFailedError as RetriableCommitFailedError
from moldau.client.errors import RetriableError as RetriableError
from moldau.client.errors import SerializationError as SerializationError
from moldau.client.errors import TransactionAbortedError as TransactionAbortedError
from moldau.client.errors import UnsupportedVersionError as UnsupportedVersionError
from moldau.client.errors import WakeupError as WakeupError


def __getattr__(name: str) -> type[KafkaError]:
    if name.endswith("Error"):
        found: type[KafkaError] = getattr(_errors, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
