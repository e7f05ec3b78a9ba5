"""What a fault of the cluster is in a browser: a status and one sentence."""

from __future__ import annotations

from moldau.client.shared.client_errors import (
    AuthenticationError,
    AuthorizationError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    UnsupportedVersionError,
)
from moldau.console.page import PageFault
from moldau.model.errors import Error

NO_TOPIC = frozenset({Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID})
MISSING = NO_TOPIC | {Error.GROUP_ID_NOT_FOUND}


def fault_of(error: Exception) -> PageFault:
    if isinstance(error, PageFault):
        return error
    assert isinstance(error, KafkaError)
    return PageFault(_status(error), sentence_of(error))


def _status(error: KafkaError) -> int:
    if error.code in MISSING:
        return 404
    for kind, status in (
        (AuthorizationError, 403),
        (AuthenticationError, 401),
        (KafkaTimeoutError, 504),
        (NetworkError, 502),
        (UnsupportedVersionError, 501),
    ):
        if isinstance(error, kind):
            return status
    return 409


def sentence_of(error: KafkaError) -> str:
    if isinstance(error, UnsupportedVersionError):
        return "This cluster does not serve that question; its brokers may be too old for it."
    if error.code in NO_TOPIC and error.message.strip() == error.code.sentence:
        return "There is no such topic, or this user may not see it."
    text = error.message.strip()
    return text if text.endswith((".", "!", "?")) else text + "."
