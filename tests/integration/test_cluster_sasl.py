"""Brokers that log in to one another: every mechanism, renewed sessions, and a wrong password.

Clients come in by a listener of their own. What brokers ask of one another is allowed to the user
that they log in as, and to nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from moldau.config.java_options import ALLOWED_URLS
from moldau.testing.broker_process import BrokerProcess, BrokerStartError
from tests.support.cluster_with_logins import (
    KAFKA,
    MODULES,
    SECONDS_MAX,
    SECRET,
    admin_of,
    cluster_of_two,
    isr,
    listening,
    replicate_and_end_a_transaction,
    write_in_a_transaction,
)
from tests.support.eventually import eventually
from tests.support.identity_provider import AUDIENCE, ISSUER, identity_provider


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_PLAINTEXT", "OAUTHBEARER"),
    ],
)
def test_brokers_replicate_and_end_transactions_over_connections_that_log_in(
    tmp_path: Path, protocol: str, mechanism: str
) -> None:
    key = f"listener.name.brokers.{mechanism.lower()}.sasl.jaas.config"
    with cluster_of_two(tmp_path, protocol, mechanism, {key: MODULES[mechanism]}) as brokers:
        replicate_and_end_a_transaction(brokers)


def test_brokers_get_their_tokens_from_a_token_server(tmp_path: Path) -> None:
    """Its tokens live for some seconds: sessions end with them, and others are asked for."""
    key = "listener.name.brokers.oauthbearer."
    package = f"{KAFKA}.oauthbearer"
    with identity_provider(secrets={"broker": SECRET}, lifetime_seconds=4) as provider:
        settings = {
            f"{key}sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
            f"{key}sasl.server.callback.handler.class": (
                f"{package}.OAuthBearerValidatorCallbackHandler"
            ),
            f"{key}sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
            f"{key}sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
            f"{key}sasl.oauthbearer.expected.issuer": ISSUER,
            f"{key}sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{key}sasl.oauthbearer.clock.skew.seconds": "0",
            f"{key}sasl.oauthbearer.token.endpoint.url": provider.token_url,
            f"{key}sasl.oauthbearer.client.credentials.client.id": "broker",
            f"{key}sasl.oauthbearer.client.credentials.client.secret": SECRET,
            ALLOWED_URLS: f"{provider.jwks_url},{provider.token_url}",
        }
        with cluster_of_two(tmp_path, "SASL_PLAINTEXT", "OAUTHBEARER", settings) as brokers:
            replicate_and_end_a_transaction(brokers)
            asked = len(provider.token_questions)
            assert asked >= 2
            eventually(lambda: len(provider.token_questions) >= asked + 2)
            write_in_a_transaction(brokers, "t", "second")
            logs = "".join(broker.log_text for broker in brokers)
            assert "was not renewed" not in logs
            assert "ailed re-authentication" not in logs
            assert SECRET not in logs


def test_sessions_that_end_are_renewed_on_the_same_connections(tmp_path: Path) -> None:
    settings = {
        "listener.name.brokers.plain.sasl.jaas.config": MODULES["PLAIN"],
        "connections.max.reauth.ms": "1500",
    }
    with cluster_of_two(tmp_path, "SASL_PLAINTEXT", "PLAIN", settings) as brokers:
        admin = admin_of(*brokers)
        eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2)
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(SECONDS_MAX)
        eventually(lambda: isr(admin, "t") == [0, 1])
        for number in range(12):
            # Each takes a part of a second: several sessions end meanwhile.
            write_in_a_transaction(brokers, "t", f"producer-{number}")
        logs = "".join(broker.log_text for broker in brokers)
        assert "was not renewed" not in logs
        assert "ailed re-authentication" not in logs
        assert "ailed authentication" not in logs


def test_a_password_that_another_broker_does_not_know_is_said_in_one_sentence(
    tmp_path: Path,
) -> None:
    key = "listener.name.brokers.plain.sasl.jaas.config"
    with cluster_of_two(tmp_path, "SASL_PLAINTEXT", "PLAIN", {key: MODULES["PLAIN"]}) as brokers:
        admin = admin_of(*brokers)
        eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2)
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(SECONDS_MAX)
        eventually(lambda: isr(admin, "t") == [0, 1])
        other = brokers[1]
        other.stop()
        other.settings[key] = MODULES["PLAIN"].replace(
            f'password="{SECRET}"', 'password="mistyped"', 1
        )
        other.spawn()
        sentence = (
            "failed authentication due to: Authentication failed: Invalid username or password"
        )
        eventually(lambda: sentence in other.log_text)
        assert "mistyped" not in other.log_text
        assert SECRET not in other.log_text


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            "Invalid value GSSAPI for configuration sasl.mechanism.inter.broker.protocol",
        ),
        (
            {"listener.name.brokers.sasl.enabled.mechanisms": "OAUTHBEARER"},
            "must be included in sasl.enabled.mechanisms when SASL is used for inter-broker "
            "communication",
        ),
        (
            {"listener.name.brokers.plain.sasl.jaas.config": ""},
            "brokers log in to one another by PLAIN, so it must say as whom",
        ),
        (
            {
                "listener.name.brokers.plain.sasl.jaas.config": (
                    f'{KAFKA}.plain.PlainLoginModule required user_broker="{SECRET}";'
                )
            },
            "PLAIN needs a username and a password",
        ),
    ],
)
def test_a_broker_that_could_not_log_in_to_others_does_not_start(
    tmp_path: Path, settings: Mapping[str, str], sentence: str
) -> None:
    overrides = {
        **listening("SASL_PLAINTEXT", "PLAIN"),
        "listener.name.brokers.plain.sasl.jaas.config": MODULES["PLAIN"],
        "zookeeper.connect": "127.0.0.1:1",
        **settings,
    }
    broker = BrokerProcess(tmp_path, overrides=overrides)
    with pytest.raises(BrokerStartError):
        broker.start()
    eventually(lambda: sentence in broker.log_text)
    assert SECRET not in broker.log_text
    assert "Traceback" not in broker.log_text


@pytest.mark.parametrize("section", ["KafkaServer", "brokers.KafkaServer"])
def test_a_jaas_file_named_as_for_java_says_who_logs_in(tmp_path: Path, section: str) -> None:
    file = tmp_path / "jaas.conf"
    modules = MODULES["PLAIN"].replace(" required ", "\n  required\n  ")
    file.write_text(f"// brokers\n{section} {{\n {modules}\n}};\n")
    settings = {"java.security.auth.login.config": str(file)}
    with cluster_of_two(tmp_path, "SASL_PLAINTEXT", "PLAIN", settings) as brokers:
        admin = admin_of(*brokers)
        eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2)
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(SECONDS_MAX)
        eventually(lambda: isr(admin, "t") == [0, 1])
        assert SECRET not in "".join(broker.log_text for broker in brokers)
