"""Changing settings: what holds afterwards, and what Kafka would refuse."""

from __future__ import annotations

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.config_changes import ConfigChange, ResourceType
from moldau.controller.controller_facts import (
    BrokerRegistered,
    ConfigKind,
    ConfigsChanged,
    TopicCreated,
)
from moldau.controller.controller_state import ControllerState
from moldau.controller.rules.config_rules import altered
from moldau.model.cluster import BrokerNode, ClusterImage, PartitionImage
from moldau.model.errors import ApiError, Error

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
GROUP, METRICS = ResourceType.GROUP, ResourceType.CLIENT_METRICS
TIMEOUT = "consumer.session.timeout.ms"
DEFAULTS, _ = BrokerConfig.parse({})


@pytest.fixture
def state() -> ControllerState:
    made = ControllerState(ClusterImage("c", 0))
    made.apply(BrokerRegistered(BrokerNode(0, ())))
    partition = PartitionImage(0, 0, (0,), (0,))
    made.apply(TopicCreated("t", b"t" * 16, (partition,), {"retention.ms": "5"}))
    return made


def test_overrides_are_added_replaced_and_deleted(state: ControllerState) -> None:
    change = ConfigChange(TOPIC, "t", {"retention.ms": "7", "segment.ms": "9"})
    fact = altered(state, change)
    assert fact == ConfigsChanged(
        ConfigKind.TOPIC, "t", {"retention.ms": "7", "segment.ms": "9"}, False
    )
    state.apply(fact)
    deleted = altered(state, ConfigChange(TOPIC, "t", {"retention.ms": None, "nope": None}))
    assert deleted.overrides == {"segment.ms": "9"}


def test_the_old_request_replaces_everything(state: ControllerState) -> None:
    fact = altered(state, ConfigChange(TOPIC, "t", {"segment.ms": "9"}, replace_all=True))
    assert fact.overrides == {"segment.ms": "9"}
    fact = altered(state, ConfigChange(TOPIC, "t", {}, replace_all=True))
    assert fact.overrides == {}


def test_other_names_of_a_key_are_resolved(state: ControllerState) -> None:
    state.apply(altered(state, ConfigChange(TOPIC, "t", {"max.message.size": "9"})))
    assert state.cluster.topic_configs["t"]["max.message.bytes"] == "9"
    fact = altered(state, ConfigChange(TOPIC, "t", {"max.message.size": None}))
    assert "max.message.bytes" not in fact.overrides


def test_the_first_setting_of_a_broker_says_so(state: ControllerState) -> None:
    change = ConfigChange(BROKER, "0", {"log.cleaner.threads": "2"})
    fact = altered(state, change)
    assert fact.is_first
    state.apply(fact)
    assert not altered(state, change).is_first
    state.apply(altered(state, ConfigChange(BROKER, "0", {"log.cleaner.threads": None})))
    assert not altered(state, change).is_first, "its node is still there, empty"


def test_an_empty_broker_name_stands_for_all_brokers(state: ControllerState) -> None:
    fact = altered(state, ConfigChange(BROKER, "", {"log.cleaner.threads": "2"}))
    assert fact.name == "<default>"


def test_keys_that_nobody_knows_are_kept_for_plug_ins(state: ControllerState) -> None:
    fact = altered(state, ConfigChange(BROKER, "0", {"foo.bar": "2"}))
    assert fact.overrides == {"foo.bar": "2"}


CONFLICT = {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"}
REFUSED = [
    (TOPIC, "", {}, Error.INVALID_REQUEST, "Default topic resources are not allowed."),
    (TOPIC, "a b", {}, Error.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
    (TOPIC, "no", {}, Error.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'no' does not exist."),
    (TOPIC, "t", {"nope": "1"}, Error.INVALID_CONFIG, "Unknown topic config name: nope"),
    (TOPIC, "t", {"retention.ms": "x"}, Error.INVALID_CONFIG, "Invalid value x for"),
    (TOPIC, "t", CONFLICT, Error.INVALID_CONFIG, "max.compaction.lag.ms"),
    (TOPIC, "t", {"remote.storage.enable": "true"}, Error.INVALID_CONFIG, "iered"),
    (BROKER, "7", {}, Error.INVALID_REQUEST, "Unexpected broker id, expected 0, but received 7"),
    (BROKER, "x", {}, Error.INVALID_REQUEST, "Node id must be an integer, but it is: x"),
    (BROKER, "0", {"log.cleaner.threads": "x"}, Error.INVALID_REQUEST, "Invalid value x for"),
    (BROKER, "", {"min.insync.replicas": "0"}, Error.INVALID_REQUEST, "Invalid value 0 for"),
    (
        BROKER,
        "0",
        {"num.partitions": "2", "broker.id": "2"},
        Error.INVALID_REQUEST,
        "Cannot update these configs dynamically: [broker.id, num.partitions]",
    ),
    (
        BROKER,
        "",
        {"listeners": "PLAINTEXT://:1"},
        Error.INVALID_REQUEST,
        "Cannot update these configs at default cluster level, broker id must be specified: "
        "[listeners]",
    ),
    (
        BROKER,
        "0",
        {"listeners": "PLAINTEXT://:1", "listener.security.protocol.map": "A:PLAINTEXT"},
        Error.INVALID_REQUEST,
        "Cannot update these configs dynamically: [listener.security.protocol.map, listeners]: a "
        "broker opens its listeners when it starts, change them in its file",
    ),
    (
        BROKER,
        "",
        {"listener.name.a.max.connections": "5", "listener.name.a.max.connections.per.ip": "5"},
        Error.INVALID_REQUEST,
        "Cannot update these configs at default cluster level, broker id must be specified: "
        "[listener.name.a.max.connections.per.ip]",
    ),
    (
        BROKER,
        "0",
        {"ssl.truststore.type": "PKCS12", "ssl.keystore.location": "/k"},
        Error.INVALID_REQUEST,
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix: [ssl.keystore.location, ssl.truststore.type]",
    ),
    (
        BROKER,
        "",
        {"log.cleaner.threads": "200"},
        Error.INVALID_REQUEST,
        "must be more than 1048576 for each of the 200 of log.cleaner.threads",
    ),
    (ResourceType.BROKER_LOGGER, "0", {}, Error.INVALID_REQUEST, "Unknown resource type 8"),
    (GROUP, "", {}, Error.INVALID_REQUEST, "Default group resources are not allowed."),
    (GROUP, "g", {"nope": "1"}, Error.INVALID_CONFIG, "Unknown group config name: nope"),
    (GROUP, "g", {TIMEOUT: "1"}, Error.INVALID_CONFIG, "group.consumer.min.session.timeout.ms"),
    (GROUP, "g" * 10_001, {}, Error.INVALID_REQUEST, "takes 10001 characters"),
    (METRICS, "/" * 4_000, {}, Error.INVALID_REQUEST, "takes 12000 characters"),
    (METRICS, "", {}, Error.INVALID_REQUEST, "Subscription name can't be empty"),
    (METRICS, "m", {"nope": "1"}, Error.INVALID_REQUEST, "Unknown client metrics configuration"),
    (METRICS, "m", {"interval.ms": "1"}, Error.INVALID_REQUEST, "must be 100 to 3600000"),
]


@pytest.mark.parametrize(("kind", "name", "overrides", "error", "words"), REFUSED)
def test_a_bad_change_is_refused_as_kafka_does(
    state: ControllerState,
    kind: ResourceType,
    name: str,
    overrides: dict[str, str | None],
    error: Error,
    words: str,
) -> None:
    with pytest.raises(ApiError) as caught:
        altered(state, ConfigChange(kind, name, overrides), DEFAULTS)
    assert caught.value.error is error
    assert words in caught.value.message


def test_what_kafka_lets_all_brokers_change_per_listener_is_changed(state: ControllerState) -> None:
    wanted: dict[str, str | None] = {
        "listener.name.a.max.connections": "5",
        "listener.name.a.num.network.threads": "3",
    }
    assert altered(state, ConfigChange(BROKER, "", wanted), DEFAULTS).overrides == wanted
    own: dict[str, str | None] = {"listener.name.a.ssl.truststore.type": "PKCS12"}
    assert altered(state, ConfigChange(BROKER, "0", own), DEFAULTS).overrides == own


def test_a_setting_that_nobody_knows_does_not_keep_others_from_changing(
    state: ControllerState,
) -> None:
    state.apply(altered(state, ConfigChange(BROKER, "", {"log.cleaner.threadzz": "2"}), DEFAULTS))
    fact = altered(state, ConfigChange(BROKER, "", {"log.cleaner.threads": "2"}), DEFAULTS)
    assert fact.overrides == {"log.cleaner.threadzz": "2", "log.cleaner.threads": "2"}


def test_settings_that_contradict_each_other_are_refused_whichever_comes_second(
    state: ControllerState,
) -> None:
    state.apply(altered(state, ConfigChange(TOPIC, "t", {"max.compaction.lag.ms": "10"})))
    with pytest.raises(ApiError):
        altered(state, ConfigChange(TOPIC, "t", {"min.compaction.lag.ms": "11"}))
    assert altered(state, ConfigChange(TOPIC, "t", {"min.compaction.lag.ms": "10"}))


def test_a_broker_setting_is_tried_on_the_whole_configuration(state: ControllerState) -> None:
    config, _ = BrokerConfig.parse({})
    with pytest.raises(ApiError) as caught:
        altered(state, ConfigChange(BROKER, "0", {"log.retention.ms": "0"}), config)
    assert caught.value.error is Error.INVALID_REQUEST


def test_a_key_for_one_listener_is_checked_like_the_key(state: ControllerState) -> None:
    key = "listener.name.plaintext.max.connections"
    with pytest.raises(ApiError):
        altered(state, ConfigChange(BROKER, "0", {key: "x"}))


@pytest.mark.parametrize(
    ("kind", "key", "value"), [(GROUP, TIMEOUT, "50000"), (METRICS, "interval.ms", "1000")]
)
def test_groups_and_subscriptions_are_there_while_they_have_settings(
    state: ControllerState, kind: ResourceType, key: str, value: str
) -> None:
    configs = state.cluster.group_configs if kind is GROUP else state.cluster.client_metrics
    first = altered(state, ConfigChange(kind, "x/1", {key: value}), DEFAULTS)
    assert first.is_first
    state.apply(first)
    assert configs == {"x/1": {key: value}}
    last = altered(state, ConfigChange(kind, "x/1", {key: None}), DEFAULTS)
    assert not last.is_first
    state.apply(last)
    assert configs == {}
    assert altered(state, ConfigChange(kind, "x/1", {key: value}), DEFAULTS).is_first
