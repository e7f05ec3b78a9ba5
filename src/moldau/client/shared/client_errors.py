"""What goes wrong, as exceptions: Kafka's `ProducerFencedException` is `ProducerFencedError`.

There is one class per error code of the protocol, made from the table of codes when it is first
asked for, under the name of Kafka's exception and under the name of the code
(`TopicExistsError` and `TopicAlreadyExistsError` are one class). Faults that no broker reports
stand below as classes of their own.

    try:
        admin.create_topics(["orders"])["orders"]
    except TopicExistsError: ...
    except KafkaError as error:
        if error.retriable: ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.config.setting_definition import ConfigError as ConfigError
from moldau.model.errors import RETRIABLE, Error

if TYPE_CHECKING:
    from moldau.model.names import TopicPartition
    from moldau.records.batch_kernel import Headers


class KafkaError(Exception):
    """Base of all. `code` is the protocol's error code, `retriable` says whether another try may
    succeed without a change, `message` is a sentence for people."""

    code: Error = Error.UNKNOWN_SERVER_ERROR
    retriable: bool = False

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.code.sentence)

    @property
    def message(self) -> str:
        return str(self)


class RetriableError(KafkaError):
    """Another try may succeed without a change."""

    retriable = True


class AuthorizationError(KafkaError):
    """The client may not do this."""


class AuthenticationError(KafkaError):
    """The broker does not believe who the client is, or the client who the broker is."""


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed: a certificate was not accepted, or nothing is common to both."""


class KafkaTimeoutError(RetriableError, TimeoutError):
    """Not done in time; whether it still happens is unknown."""

    code = Error.REQUEST_TIMED_OUT


class NetworkError(RetriableError):
    """The connection broke before an answer came."""

    code = Error.NETWORK_EXCEPTION


class DisconnectError(NetworkError):
    """The connection could not be opened, or broke before the answer came."""


class UnsupportedVersionError(KafkaError):
    """The broker does not serve the request, or not in a version that can say what is asked."""

    code = Error.UNSUPPORTED_VERSION


class WakeupError(KafkaError):
    """`wakeup()` ended a wait."""


class InterruptError(KafkaError):
    """The wait was cancelled from outside."""


class IllegalStateError(KafkaError):
    """The call is not allowed now, for instance because the client is closed."""


class ConcurrentModificationError(IllegalStateError):
    """A consumer was used from two places at once."""


class SerializationError(KafkaError):
    """A key or value cannot be turned into bytes, or bytes into a key or value."""


class RecordDeserializationError(SerializationError):
    """A record that its deserializer refused. The position stays before it; seek past `offset` to
    go on, or read the bytes themselves from `key`, `value` and `headers`."""

    def __init__(
        self,
        message: str,
        topic_partition: TopicPartition,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = headers

    def __reduce__(self) -> tuple[Any, ...]:
        place = (self.topic_partition, self.offset)
        return type(self), (self.message, *place, self.key, self.value, self.headers)


class BufferExhaustedError(KafkaTimeoutError):
    """The producer's buffer stayed full for max.block.ms."""


class CommitFailedError(KafkaError):
    """The group gave the partitions to other members, so the offsets were not committed."""


class RetriableCommitFailedError(RetriableError):
    """The commit failed, and another try may succeed."""


class NoOffsetForPartitionError(KafkaError):
    """No offset is committed, and auto.offset.reset says not to choose one."""


class LogTruncationError(KafkaError):
    """The log was cut before the position of the consumer."""


class ConsumerTimeoutError(KafkaError):
    """No record came within consumer.timeout.ms."""


class TransactionAbortedError(KafkaError):
    """The record was not sent because its transaction was aborted."""


_NAMES: dict[Error, str] = {
    # Where Kafka's exception is not called like its code.
    Error.CORRUPT_MESSAGE: "CorruptRecord",
    Error.MESSAGE_TOO_LARGE: "RecordTooLarge",
    Error.STALE_CONTROLLER_EPOCH: "ControllerMoved",
    Error.RECORD_LIST_TOO_LARGE: "RecordBatchTooLarge",
    Error.TOPIC_ALREADY_EXISTS: "TopicExists",
    Error.INVALID_CONFIG: "InvalidConfiguration",
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequence",
    Error.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequence",
    Error.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMapping",
    Error.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeout",
    Error.NON_EMPTY_GROUP: "GroupNotEmpty",
    Error.SASL_AUTHENTICATION_FAILED: "SaslAuthentication",
    Error.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabled",
    Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthentication",
    Error.FETCH_SESSION_TOPIC_ID_ERROR: "FetchSessionTopicId",
    Error.KAFKA_STORAGE_ERROR: "KafkaStorage",
    Error.UNKNOWN_SERVER_ERROR: "UnknownServer",
    Error.INVALID_TOPIC_EXCEPTION: "InvalidTopic",
}
_AUTHENTICATION = (
    Error.SASL_AUTHENTICATION_FAILED,
    Error.UNSUPPORTED_SASL_MECHANISM,
    Error.ILLEGAL_SASL_STATE,
)
_BY_CODE: dict[int, type[KafkaError]] = {
    Error.REQUEST_TIMED_OUT: KafkaTimeoutError,
    Error.NETWORK_EXCEPTION: NetworkError,
    Error.UNSUPPORTED_VERSION: UnsupportedVersionError,
}


def _camel(code: Error) -> str:
    return "".join(word.capitalize() for word in code.name.split("_"))


def _names(code: Error) -> tuple[str, str]:
    """The name of the class, and the other one under which it is found too."""
    plain = _camel(code).removesuffix("Error")
    name = _NAMES.get(code, plain)
    if code.name.endswith("_AUTHORIZATION_FAILED"):
        name = name.removesuffix("Failed")
    return name + "Error", plain + "Error"


def code_of(code: int) -> Error:
    """The row of a code; a code newer than this library is UNKNOWN_SERVER_ERROR."""
    try:
        return Error(code)
    except ValueError:
        return Error.UNKNOWN_SERVER_ERROR


def error_class(code: int) -> type[KafkaError]:
    """The exception of an error code; codes newer than this library are UnknownServerError."""
    found = _BY_CODE.get(code)
    if found is None:
        error = code_of(code)
        base: type[KafkaError] = RetriableError if error in RETRIABLE else KafkaError
        if error.name.endswith("_AUTHORIZATION_FAILED"):
            base = AuthorizationError
        elif error in _AUTHENTICATION:
            base = AuthenticationError
        body = {"code": error, "__doc__": error.sentence, "__module__": __name__}
        found = _BY_CODE[code] = _BY_CODE.get(error) or type(_names(error)[0], (base,), body)
        _BY_CODE[error] = found
    return found


def error_for(code: int, message: str | None = None) -> KafkaError:
    """An exception to raise or to hand out; without a message it says what the code means."""
    return error_class(code)(message)


def __getattr__(name: str) -> type[KafkaError]:
    if name.endswith("Error"):
        for code in Error:
            if code is not Error.NONE and name in _names(code):
                return error_class(code)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
