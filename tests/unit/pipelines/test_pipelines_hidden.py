"""What py4j logs of the calls to the JVM tells no secret."""

from __future__ import annotations

import logging

import pytest

from moldau.pipelines.hidden_settings import CARRIERS, hide_what_is_carried_to_the_jvm


@pytest.fixture(autouse=True)
def hidden() -> None:
    hide_what_is_carried_to_the_jvm()
    hide_what_is_carried_to_the_jvm()


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(
    ("said", "left"),
    [
        (
            "Command to send: c\no23\noption\nskafka.sasl.jaas.config\nsModule required x=1;\ne\n",
            "Command to send: c\no23\noption\nskafka.sasl.[hidden]",
        ),
        ("c\nskafka.sasl.password\nsw0nder\ne\n", "c\nskafka.sasl.[hidden]"),
        ("Answer received: !ys-----BEGIN PRIVATE KEY-----\\nMII", "!ys-----BEGIN [hidden]"),
        ('!ysModule required username="a" password="w0nder";', '!ysModule required username="a" '),
        ("c\nskafka.topic\nsorders\ne\n", "c\nskafka.topic\nsorders\ne\n"),
        ("100 % of %s", "100 % of %s"),
    ],
)
def test_a_line_ends_where_a_secret_is_named(
    caplog: pytest.LogCaptureFixture, carrier: str, said: str, left: str
) -> None:
    with caplog.at_level(logging.DEBUG, logger="py4j"):
        logging.getLogger(carrier).debug(said)
    (message,) = caplog.messages
    assert left in message
    assert "w0nder" not in message and "x=1" not in message and "MII" not in message
