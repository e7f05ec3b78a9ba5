"""Group settings: the table, and what the broker lets a group have; codes of Kafka 4.3.1."""

from __future__ import annotations

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.group_config import GroupConfig, validate_group_overrides
from moldau.config.setting_definition import ConfigError

BROKER, _ = BrokerConfig.parse({"group.consumer.session.timeout.ms": "46000"})


def refusal(**overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        validate_group_overrides({k.replace("_", "."): v for k, v in overrides.items()}, BROKER)
    return str(caught.value)


def test_a_group_takes_from_the_broker_what_it_does_not_override() -> None:
    config = GroupConfig.of(BROKER, {"consumer.heartbeat.interval.ms": "7000"})
    assert config.consumer_heartbeat_interval_ms == 7000
    assert config.consumer_session_timeout_ms == 46000
    assert config.share_auto_offset_reset == "latest"


def test_a_stored_value_that_is_no_longer_valid_is_passed_over() -> None:
    config = GroupConfig.of(BROKER, {"consumer.session.timeout.ms": "x", "gone.key": "1"})
    assert config.consumer_session_timeout_ms == 46000


def test_every_group_setting_with_a_broker_key_has_its_kind_and_default() -> None:
    for row in GroupConfig.rows.values():
        if row.synonym is not None:
            broker = BrokerConfig.rows[row.synonym]
            assert (broker.kind, broker.default) == (row.kind, row.default), row.key


@pytest.mark.parametrize(
    ("key", "bounds"),
    [
        ("consumer.session.timeout.ms", (45000, 60000)),
        ("consumer.heartbeat.interval.ms", (5000, 15000)),
        ("consumer.assignment.interval.ms", (0, 15000)),
        ("share.session.timeout.ms", (45000, 60000)),
        ("share.heartbeat.interval.ms", (5000, 15000)),
        ("share.assignment.interval.ms", (0, 15000)),
        ("share.record.lock.duration.ms", (15000, 60000)),
        ("share.delivery.count.limit", (2, 10)),
        ("share.partition.max.record.locks", (100, 4000)),
        ("streams.session.timeout.ms", (45000, 60000)),
        ("streams.heartbeat.interval.ms", (5000, 15000)),
        ("streams.assignment.interval.ms", (0, 15000)),
        ("streams.num.standby.replicas", (0, 2)),
        ("streams.initial.rebalance.delay.ms", (0, None)),
    ],
)
def test_the_broker_bounds_what_a_group_may_be_given(
    key: str, bounds: tuple[int, int | None]
) -> None:
    low, high = bounds
    validate_group_overrides({key: str(low)}, BROKER)
    with pytest.raises(ConfigError, match="at least"):
        validate_group_overrides({key: str(low - 1)}, BROKER)
    if high is not None:
        validate_group_overrides({key: str(high)}, BROKER)
        with pytest.raises(ConfigError, match=r"must be at most group\..*\.max\."):
            validate_group_overrides({key: str(high + 1)}, BROKER)


def test_a_refusal_names_the_broker_key_and_what_it_says() -> None:
    assert refusal(consumer_session_timeout_ms="100000") == (
        "Invalid value 100000 for configuration consumer.session.timeout.ms: "
        "must be at most group.consumer.max.session.timeout.ms, which is 60000"
    )


def test_an_unknown_key_is_refused_with_a_suggestion() -> None:
    assert refusal(nope="1") == "Unknown group config name: nope"
    assert "did you mean consumer.session.timeout.ms?" in refusal(consumer_session_timeout="1")


def test_members_report_more_often_than_they_are_given_up() -> None:
    broker, _ = BrokerConfig.parse({"group.consumer.max.heartbeat.interval.ms": "60000"})
    with pytest.raises(ConfigError) as caught:
        validate_group_overrides({"consumer.heartbeat.interval.ms": "45000"}, broker)
    assert "less than consumer.session.timeout.ms, which is 45000" in str(caught.value)
    validate_group_overrides(
        {"consumer.heartbeat.interval.ms": "45000", "consumer.session.timeout.ms": "50000"}, broker
    )


@pytest.mark.parametrize(
    "text", ["earliest", "latest", "by_duration:PT1H", "by_duration:P2DT3.5S", "by_duration:pt0s"]
)
def test_a_share_group_begins_at_an_end_or_some_time_ago(text: str) -> None:
    validate_group_overrides({"share.auto.offset.reset": text}, BROKER)


@pytest.mark.parametrize(
    "text", ["none", "LATEST", "", "by_duration:", "by_duration:P", "by_duration:-PT1H", "PT1H"]
)
def test_a_share_group_begins_nowhere_else(text: str) -> None:
    assert "must be earliest, latest or by_duration:" in refusal(share_auto_offset_reset=text)
