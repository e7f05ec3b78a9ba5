"""Errors have Kafka's names, codes and hierarchy."""

from __future__ import annotations

import pytest

from moldau.client.shared import client_errors as errors
from moldau.client.shared.client_errors import KafkaError, error_class, error_for
from moldau.model.errors import Error


def test_every_code_has_one_class_that_knows_it() -> None:
    classes = {error_class(code) for code in Error if code is not Error.NONE}
    assert len(classes) == len(Error) - 1
    for code in Error:
        if code is not Error.NONE:
            error = error_for(code)
            assert error.code is code
            assert error.retriable == code.is_retriable
            assert str(error) == code.sentence


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("UnknownTopicOrPartitionError", Error.UNKNOWN_TOPIC_OR_PARTITION),
        ("ProducerFencedError", Error.PRODUCER_FENCED),
        ("TopicExistsError", Error.TOPIC_ALREADY_EXISTS),
        ("TopicAlreadyExistsError", Error.TOPIC_ALREADY_EXISTS),
        ("OutOfOrderSequenceError", Error.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ("RecordTooLargeError", Error.MESSAGE_TOO_LARGE),
        ("NotEnoughReplicasError", Error.NOT_ENOUGH_REPLICAS),
        ("GroupNotEmptyError", Error.NON_EMPTY_GROUP),
        ("InvalidTopicError", Error.INVALID_TOPIC_EXCEPTION),
        ("TopicAuthorizationError", Error.TOPIC_AUTHORIZATION_FAILED),
        ("UnknownServerError", Error.UNKNOWN_SERVER_ERROR),
        ("KafkaStorageError", Error.KAFKA_STORAGE_ERROR),
        ("KafkaTimeoutError", Error.REQUEST_TIMED_OUT),
    ],
)
def test_classes_are_found_by_the_names_of_kafka(name: str, code: Error) -> None:
    assert getattr(errors, name) is error_class(code)


def test_a_message_of_the_broker_replaces_the_sentence() -> None:
    error = error_for(Error.INVALID_CONFIG, "retention.ms is odd")
    assert error.message == str(error) == "retention.ms is odd"


def test_a_code_of_a_newer_broker_is_an_unknown_server_error() -> None:
    assert isinstance(error_for(9999), errors.UnknownServerError)


def test_a_time_out_is_also_the_built_in_one() -> None:
    with pytest.raises(TimeoutError, match="too slow"):
        raise errors.KafkaTimeoutError("too slow")


def test_kinds_of_errors_share_a_base() -> None:
    assert issubclass(errors.GroupAuthorizationError, errors.AuthorizationError)
    assert issubclass(errors.SaslAuthenticationError, errors.AuthenticationError)
    assert issubclass(errors.NotCoordinatorError, errors.RetriableError)
    assert issubclass(errors.DisconnectError, errors.NetworkError)
    assert issubclass(errors.WakeupError, KafkaError)


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(AttributeError):
        errors.NoSuchThingError  # noqa: B018
