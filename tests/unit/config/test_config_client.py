"""Settings of producer, consumer and admin: Kafka's keys, defaults, old names and limits."""

from __future__ import annotations

import re
from typing import Any

import pytest

from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.config.client_settings.common_settings import ClientSettings
from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.config.setting_definition import ConfigError

TABLES: list[type[ClientSettings]] = [ProducerConfig, ConsumerConfig, AdminConfig]


@pytest.mark.parametrize("table", TABLES)
def test_every_row_has_a_sentence_and_a_default_that_it_allows(table: type[ClientSettings]) -> None:
    for row in table.rows.values():
        assert row.doc.endswith("."), row.key
        if row.default is not None:
            assert row.allows(row.default_text or ""), row.key


def test_keys_may_be_kafkas_or_keywords() -> None:
    config, warnings = ProducerConfig.parse(
        {"bootstrap.servers": "a:1,b:2", "linger.ms": "20"}, batch_size=10, acks=1
    )
    assert config.bootstrap_servers == ("a:1", "b:2")
    assert (config.linger_ms, config.batch_size, config.acks) == (20, 10, "1")
    assert config.required_acks == 1
    assert warnings == ["idempotence is off because of acks=1"]


def test_python_values_are_checked_like_text() -> None:
    config, _ = ConsumerConfig.parse(
        enable_auto_commit=False, max_poll_records=7.0, bootstrap_servers=["a:1"], group_id=None
    )
    assert config.enable_auto_commit is False
    assert config.max_poll_records == 7
    assert config.bootstrap_servers == ("a:1",)
    for value in ("x", 0, 1.5, object(), True):
        with pytest.raises(ConfigError, match=r"max\.poll\.records"):
            ConsumerConfig.parse(max_poll_records=value)


def test_a_class_or_function_is_kept_as_it_is() -> None:
    config, _ = ProducerConfig.parse(value_serializer=str.encode, interceptor_classes=[dict, list])
    kept: object = config.value_serializer
    assert kept is str.encode
    assert config.interceptor_classes == (dict, list)


@pytest.mark.parametrize(
    ("table", "old", "value", "attribute", "expected"),
    [
        (ProducerConfig, "request.required.acks", "-1", "acks", "-1"),
        (ProducerConfig, "metadata.fetch.timeout.ms", 9, "max_block_ms", 9),
        (ProducerConfig, "timeout.ms", 9, "request_timeout_ms", 9),
        (ProducerConfig, "transaction.id", "t", "transactional_id", "t"),
        (
            ProducerConfig,
            "max.in.flight.request.per.connection",
            1,
            "max_in_flight_requests_per_connection",
            1,
        ),
        (ProducerConfig, "metadata.broker.list", "a:1", "bootstrap_servers", ("a:1",)),
        (ConsumerConfig, "auto.commit.enable", False, "enable_auto_commit", False),
        (ConsumerConfig, "kafka.consumer.timeout.ms", 5, "consumer_timeout_ms", 5),
    ],
)
def test_old_names_are_understood_with_a_remark(
    table: type[ClientSettings], old: str, value: Any, attribute: str, expected: Any
) -> None:
    config, warnings = table.parse({old: value})
    assert getattr(config, attribute) == expected
    assert any(f"{old} is read as" in sentence for sentence in warnings)


def test_old_values_of_the_offset_reset_are_understood() -> None:
    config, warnings = ConsumerConfig.parse({"auto.offset.reset": "smallest"})
    assert config.auto_offset_reset == "earliest"
    assert warnings == ["auto.offset.reset=smallest is read as earliest"]
    ConsumerConfig.parse({"auto.offset.reset": "by_duration:P3DT12H"})
    for value in ("anything", "by_duration:P", "by_duration:3D"):
        with pytest.raises(ConfigError, match="must be earliest, latest, none or"):
            ConsumerConfig.parse({"auto.offset.reset": value})


def test_a_mistyped_key_is_a_remark_that_knows_better() -> None:
    _, warnings = ConsumerConfig.parse({"group_id": "g", "fetch.min.byte": 1, "metrics.x": "y"})
    assert warnings == ["unknown configuration key fetch.min.byte; did you mean fetch.min.bytes?"]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"acks": "2"}, "acks"),
        ({"enable.idempotence": True, "acks": "1"}, "acks"),
        ({"enable.idempotence": True, "retries": 0}, "retries"),
        (
            {"transactional.id": "t", "max.in.flight.requests.per.connection": 6},
            "max.in.flight.requests.per.connection",
        ),
        ({"transactional.id": "t", "enable.idempotence": "false"}, "enable.idempotence"),
        ({"delivery.timeout.ms": 100}, "delivery.timeout.ms"),
        ({"compression.type": "zip"}, "compression.type"),
    ],
)
def test_settings_of_a_producer_that_contradict_are_refused(
    settings: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.parse(settings)
    assert caught.value.key == key


def test_the_delivery_time_out_follows_the_others_unless_it_is_given() -> None:
    config, _ = ProducerConfig.parse({"request.timeout.ms": 200_000})
    assert config.delivery_timeout_ms == 200_005


def test_a_consumer_without_a_group_does_not_commit() -> None:
    config, _ = ConsumerConfig.parse()
    assert not config.enable_auto_commit
    assert ConsumerConfig.parse(group_id="g")[0].enable_auto_commit
    for settings in (
        {"enable.auto.commit": True},
        {"group.id": ""},
        {"heartbeat.interval.ms": 45_000},
    ):
        with pytest.raises(ConfigError):
            ConsumerConfig.parse(settings)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "sasl_ssl"])
def test_every_protocol_of_kafka_is_known_in_any_case(protocol: str) -> None:
    config, warnings = AdminConfig.parse({"security.protocol": protocol})
    assert config.security_protocol == protocol.upper()
    assert warnings == []


@pytest.mark.parametrize(
    ("protocol", "key"),
    [
        ("SASL_PLAINTEXT", "sasl.client.callback.handler.class"),
        ("SASL_SSL", "sasl.login.class"),
        ("SASL_SSL", "sasl.oauthbearer.jwks.endpoint.url"),
        ("SASL_SSL", "ssl.engine.factory.class"),
        ("SSL", "ssl.provider"),
    ],
)
def test_what_is_not_built_is_refused_where_it_would_be_needed(protocol: str, key: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(key)) as refusal:
        ConsumerConfig.parse({"security.protocol": protocol, key: "secret"})
    assert "secret" not in str(refusal.value)
    _, warnings = ConsumerConfig.parse({key: "secret"})
    assert warnings == []


def test_librdkafkas_name_of_the_mechanism_is_understood() -> None:
    config, _ = ProducerConfig.parse({"sasl.mechanisms": "PLAIN"}, sasl_username="alice")
    assert (config.sasl_mechanism, config.sasl_username) == ("PLAIN", "alice")


def test_a_secret_of_the_wrong_type_is_not_shown() -> None:
    with pytest.raises(ConfigError) as refusal:
        ProducerConfig.parse({"sasl.password": ["secret"]})
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("value", ["http", "none"])
def test_the_host_check_is_https_or_nothing(value: str) -> None:
    ProducerConfig.parse({"ssl.endpoint.identification.algorithm": ""})
    with pytest.raises(ConfigError, match="must be https, or empty"):
        ProducerConfig.parse({"ssl.endpoint.identification.algorithm": value})


def test_the_constants_of_kafka_are_there() -> None:
    assert ProducerConfig.LINGER_MS_CONFIG == "linger.ms"
    assert ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG == "key.serializer"
    assert ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION == (
        "max.in.flight.requests.per.connection"
    )
    assert ConsumerConfig.GROUP_ID_CONFIG == "group.id"
    assert ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG == "value.deserializer"
    with pytest.raises(AttributeError):
        ProducerConfig.GROUP_ID_CONFIG  # noqa: B018
