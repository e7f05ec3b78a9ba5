"""Subscriptions to client metrics: what may be set; the codes are those of Kafka 4.3.1."""

from __future__ import annotations

import pytest

from moldau.config.client_metrics_config import check_client_metrics
from moldau.model.errors import ApiError, Error


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("interval.ms", "100"),
        ("interval.ms", "3600000"),
        ("metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer."),
        ("metrics", "*"),
        ("metrics", ""),
        ("match", "client_id=app-.*, client_software_version=3\\..*"),
        ("match", ""),
    ],
)
def test_a_proper_value_is_taken(key: str, text: str) -> None:
    check_client_metrics({key: text})


@pytest.mark.parametrize(
    ("key", "text", "error"),
    [
        ("interval.ms", "99", Error.INVALID_REQUEST),
        ("interval.ms", "3600001", Error.INVALID_REQUEST),
        ("interval.ms", "x", Error.INVALID_CONFIG),
        ("nope", "1", Error.INVALID_REQUEST),
        ("match", "client_id", Error.INVALID_CONFIG),
        ("match", "client_id=", Error.INVALID_CONFIG),
        ("match", "client_id=a=b", Error.INVALID_CONFIG),
        ("match", "client_id=(", Error.INVALID_CONFIG),
        ("match", "color=red", Error.INVALID_CONFIG),
    ],
)
def test_an_improper_value_is_refused(key: str, text: str, error: Error) -> None:
    with pytest.raises(ApiError) as caught:
        check_client_metrics({key: text})
    assert caught.value.error is error
    assert key in caught.value.message
