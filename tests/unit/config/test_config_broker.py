from __future__ import annotations

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import DAY, HOUR, LONG_MAX, MINUTE, ConfigError


def broker(**settings: str) -> BrokerConfig:
    """Keys with underscores for dots, so that they can be arguments."""
    return BrokerConfig.parse({key.replace("_", "."): text for key, text in settings.items()})[0]


def warnings(properties: dict[str, str]) -> list[str]:
    return BrokerConfig.parse(properties)[1]


def test_an_empty_file_gives_the_defaults_without_a_warning() -> None:
    config, remarks = BrokerConfig.parse({})
    assert remarks == []
    assert config.log_segment_bytes == 1 << 30
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.node_id == 0
    assert config.zookeeper_connect is None


def test_log_dirs_wins_over_log_dir() -> None:
    assert broker(log_dir="/a").log_dirs == ("/a",)
    assert broker(log_dir="/a", log_dirs="/b, /c").log_dirs == ("/b", "/c")


@pytest.mark.parametrize("text", ["", "/a,,/b"])
def test_log_dirs_must_name_directories(text: str) -> None:
    with pytest.raises(ConfigError, match="must name a directory"):
        broker(log_dirs=text)


@pytest.mark.parametrize(
    "settings, milliseconds",
    [
        ({}, 7 * DAY),
        ({"log_retention_hours": "2"}, 2 * HOUR),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, 3 * MINUTE),
        ({"log_retention_minutes": "3", "log_retention_ms": "4"}, 4),
        ({"log_retention_hours": "2", "log_retention_ms": "-1"}, -1),
        ({"log_retention_hours": "-1"}, -1),
        ({"log_retention_minutes": "-1", "log_retention_hours": "5"}, -1),
    ],
)
def test_retention_is_taken_from_the_finest_unit_given(
    settings: dict[str, str], milliseconds: int
) -> None:
    assert broker(**settings).log_retention_ms == milliseconds


def test_retention_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"log\.retention\.ms"):
        broker(log_retention_ms="0")


def test_rolling_is_taken_from_the_finest_unit_given() -> None:
    assert broker().log_roll_ms == 7 * DAY
    assert broker(log_roll_hours="2").log_roll_ms == 2 * HOUR
    assert broker(log_roll_hours="2", log_roll_ms="5").log_roll_ms == 5
    assert broker(log_roll_jitter_hours="1").log_roll_jitter_ms == HOUR
    assert broker(log_roll_jitter_hours="1", log_roll_jitter_ms="6").log_roll_jitter_ms == 6


def test_settings_fall_back_to_the_one_their_row_names() -> None:
    assert broker().log_flush_interval_ms == LONG_MAX
    assert broker(log_flush_scheduler_interval_ms="9").log_flush_interval_ms == 9
    assert broker(zookeeper_session_timeout_ms="7").zookeeper_connection_timeout_ms == 7
    assert broker(log_dirs="/a,/b").num_replica_alter_log_dirs_threads == 2


def test_a_broker_on_zookeeper_may_be_handed_a_number() -> None:
    bare = broker(zookeeper_connect="z:2181")
    assert bare.node_id == -1
    handed = bare.numbered(1001).with_overrides({"log.retention.ms": "7"})
    assert (handed.node_id, handed.log_retention_ms) == (1001, 7)
    assert broker(zookeeper_connect="z:2181", broker_id="3").numbered(1001).node_id == 3


def test_people_and_zookeeper_never_give_out_the_same_number() -> None:
    with pytest.raises(ConfigError, match=r"at most reserved\.broker\.max\.id, which is 1000"):
        broker(zookeeper_connect="z:2181", broker_id="1001")
    by_hand = {"zookeeper_connect": "z:2181", "broker_id_generation_enable": "false"}
    assert broker(**by_hand, broker_id="1001").node_id == 1001
    with pytest.raises(ConfigError, match=r"because broker\.id\.generation\.enable is false"):
        broker(**by_hand)
    assert broker(broker_id="1001").node_id == 1001


def test_broker_id_and_node_id_are_one_number() -> None:
    assert broker(broker_id="3").node_id == 3
    assert broker(node_id="4").broker_id == 4
    with pytest.raises(ConfigError, match=r"must be the same as node\.id, which is 4"):
        broker(node_id="4", broker_id="5")


@pytest.mark.parametrize(
    "typo, key",
    [
        ("queued.max_requests", "queued.max.requests"),
        ("conntions.max.idle.ms", "connections.max.idle.ms"),
        ("log.retention.byte", "log.retention.bytes"),
        ("replca.fetch.max.bytes", "replica.fetch.max.bytes"),
        ("replication.factor", "default.replication.factor"),
    ],
)
def test_a_known_misspelling_is_understood_with_a_warning(typo: str, key: str) -> None:
    config, remarks = BrokerConfig.parse({typo: "7"})
    assert getattr(config, key.replace(".", "_")) == 7
    assert remarks == [f"{typo} is read as {key}: use that name"]


def test_a_key_with_a_comma_for_a_dot_is_understood() -> None:
    assert BrokerConfig.parse({"log.segment,bytes": "2000000"})[0].log_segment_bytes == 2000000


def test_the_right_spelling_wins_over_the_wrong_one() -> None:
    both = {"log.retention.byte": "1", "log.retention.bytes": "2"}
    assert BrokerConfig.parse(both)[0].log_retention_bytes == 2


def test_an_unknown_key_is_a_warning_that_suggests_the_right_one() -> None:
    assert warnings({"log.segmnt.bytes": "1"}) == [
        "unknown configuration key log.segmnt.bytes; did you mean log.segment.bytes?"
    ]
    assert warnings({"my.own.thing": "1"}) == ["unknown configuration key my.own.thing"]


def test_keys_for_one_listener_are_no_unknown_keys() -> None:
    assert warnings({"listener.name.plaintext.max.connections": "5"}) == []


def test_keys_without_effect_are_named_in_one_line_when_they_ask_for_something() -> None:
    given = {"remote.log.storage.system.enable": "true", "process.roles": "broker"}
    assert warnings(given) == [
        "accepted without effect: process.roles, remote.log.storage.system.enable"
    ]
    assert warnings({"remote.log.storage.system.enable": "false"}) == []


def test_the_keys_of_a_kafka_with_zookeeper_are_accepted() -> None:
    config, remarks = BrokerConfig.parse(
        {
            "broker.id": "1",
            "zookeeper.connect": "a:2181,b:2181/kafka",
            "zookeeper.connection.timeout.ms": "6000",
            "port": "9093",
            "delete.topic.enable": "true",
            "offsets.topic.replication.factor": "1",
        }
    )
    assert remarks == []
    assert config.zookeeper_connect == "a:2181,b:2181/kafka"
    assert config.zookeeper_connection_timeout_ms == 6000


def test_a_file_of_a_kraft_broker_is_accepted_and_its_controller_listener_is_left_out() -> None:
    config, _ = BrokerConfig.parse(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert [endpoint.listener for endpoint in config.bound_endpoints] == ["PLAINTEXT"]


@pytest.mark.parametrize(
    "settings, sentence",
    [
        (
            {"log_segment_bytes": "14"},
            "Invalid value 14 for configuration log.segment.bytes: must be at least 1048576",
        ),
        (
            {"queued_max_request_bytes": "100"},
            "Invalid value 100 for configuration queued.max.request.bytes: "
            "must be at least socket.request.max.bytes, which is 104857600",
        ),
        (
            {"group_min_session_timeout_ms": "10", "group_max_session_timeout_ms": "5"},
            "Invalid value 10 for configuration group.min.session.timeout.ms: "
            "must be at most group.max.session.timeout.ms, which is 5",
        ),
        (
            {"max_connections_per_ip_overrides": "host"},
            "Invalid value host for configuration max.connections.per.ip.overrides: "
            "host is not of the form host:count",
        ),
    ],
)
def test_a_bad_value_is_one_sentence_that_names_key_value_and_limit(
    settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        broker(**settings)
    assert str(refusal.value) == sentence


def test_dynamic_changes_make_a_new_configuration_over_the_same_file() -> None:
    static = broker(log_retention_hours="2", broker_id="3")
    changed = static.with_overrides({"log.retention.ms": "5", "log.cleaner.threads": "2"})
    assert (changed.log_retention_ms, changed.log_cleaner_threads, changed.node_id) == (5, 2, 3)
    assert static.log_retention_ms == 2 * HOUR
    assert changed.given == static.given
    assert changed.with_overrides({}) == static


def test_dynamic_changes_are_checked_like_the_file() -> None:
    with pytest.raises(ConfigError, match="must be at least 0"):
        broker().with_overrides({"log.cleaner.threads": "-1"})


def test_a_listener_can_have_values_of_its_own() -> None:
    config, _ = BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://:9092,OUTSIDE://:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "max.connections": "10",
            "listener.name.outside.max.connections": "3",
        }
    )
    assert config.for_listener("OUTSIDE").max_connections == 3
    assert config.for_listener("PLAINTEXT").max_connections == 10
