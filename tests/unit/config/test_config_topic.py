from __future__ import annotations

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import HOUR, LONG_MAX, ConfigError
from moldau.config.topic_config import TopicConfig, validate_topic_overrides


def broker(properties: dict[str, str] | None = None) -> BrokerConfig:
    return BrokerConfig.parse(properties or {})[0]


def test_a_topic_without_overrides_takes_everything_from_its_broker() -> None:
    config = broker(
        {
            "log.segment.bytes": "2000000",
            "log.retention.hours": "3",
            "log.roll.hours": "4",
            "message.max.bytes": "5",
            "log.cleanup.policy": "compact",
            "compression.type": "zstd",
        }
    )
    topic = TopicConfig.of(config, {})
    assert topic.segment_bytes == 2000000
    assert topic.retention_ms == 3 * HOUR
    assert topic.segment_ms == 4 * HOUR
    assert topic.flush_ms == LONG_MAX
    assert topic.max_message_bytes == 5
    assert topic.cleanup_policy == ("compact",)
    assert topic.compression_type == "zstd"


def test_without_settings_broker_and_topic_agree_on_every_default() -> None:
    topic = TopicConfig.of(broker(), {})
    assert {row.name: getattr(topic, row.name) for row in TopicConfig.rows.values()} == (
        TopicConfig.defaults
    )


def test_an_override_wins_over_the_broker() -> None:
    overrides = {"retention.ms": "60000", "preallocate": "TRUE"}
    topic = TopicConfig.of(broker({"log.retention.ms": "5"}), overrides)
    assert topic.retention_ms == 60000
    assert topic.preallocate is True


def test_an_old_name_of_a_topic_setting_is_understood() -> None:
    assert TopicConfig.of(broker(), {"max.message.size": "77"}).max_message_bytes == 77


def test_a_stored_override_that_is_not_valid_leaves_the_broker_s_value_in_force() -> None:
    stored = {"segment.bytes": "many", "message.format.version": "2.8", "retention.ms": "5"}
    topic = TopicConfig.of(broker({"log.segment.bytes": "2000000"}), stored)
    assert (topic.segment_bytes, topic.retention_ms) == (2000000, 5)


def test_tests_may_ask_for_segments_below_the_limit() -> None:
    assert TopicConfig.of(broker(), {"internal.segment.bytes": "1000"}).segment_bytes == 1000


@pytest.mark.parametrize(
    "policy, compacted, deletes",
    [
        ("delete", False, True),
        ("compact", True, False),
        ("compact,delete", True, True),
        ("", False, False),
    ],
)
def test_the_cleanup_policy_answers_two_questions(
    policy: str, compacted: bool, deletes: bool
) -> None:
    topic = TopicConfig.of(broker(), {"cleanup.policy": policy})
    assert (topic.is_compacted, topic.deletes_old_segments) == (compacted, deletes)


@pytest.mark.parametrize(
    "overrides, sentence",
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        (
            {"segment.byte": "1"},
            "Unknown topic config name: segment.byte; did you mean segment.bytes?",
        ),
        (
            {"segment.bytes": "14"},
            "Invalid value 14 for configuration segment.bytes: must be at least 1048576",
        ),
        (
            {"cleanup.policy": "none"},
            "Invalid value none for configuration cleanup.policy: must be one of compact, delete",
        ),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"},
            "Invalid value 100 for configuration min.compaction.lag.ms: "
            "must be at most max.compaction.lag.ms, which is 10",
        ),
        (
            {"remote.storage.enable": "true"},
            "Invalid value true for configuration remote.storage.enable: "
            "there is no tiered storage",
        ),
        (
            {"leader.replication.throttled.replicas": "x"},
            "Invalid value x for configuration leader.replication.throttled.replicas: "
            "must be * or a list of partition:broker pairs such as 0:101,1:102",
        ),
    ],
)
def test_overrides_that_a_topic_cannot_have_are_refused(
    overrides: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        validate_topic_overrides(overrides)
    assert str(refusal.value) == sentence


def test_an_override_that_contradicts_the_broker_s_value_is_refused() -> None:
    config = broker({"log.cleaner.max.compaction.lag.ms": "10"})
    with pytest.raises(ConfigError, match="which is 10"):
        validate_topic_overrides({"min.compaction.lag.ms": "11"}, config)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"cleanup.policy": "compact,delete"},
        {"leader.replication.throttled.replicas": "*"},
        {"follower.replication.throttled.replicas": "0:1,1:2"},
        {"compression.gzip.level": "-1"},
        {"retention.ms": "-1", "retention.bytes": "-1"},
    ],
)
def test_overrides_that_a_topic_can_have_pass(overrides: dict[str, str]) -> None:
    validate_topic_overrides(overrides)


def test_a_compacted_topic_rolls_early_enough_for_its_maximal_lag() -> None:
    lag = {"max.compaction.lag.ms": "5000", "segment.ms": "60000"}
    assert TopicConfig.of(broker(), lag).roll_ms == 60_000
    assert TopicConfig.of(broker(), {**lag, "cleanup.policy": "compact"}).roll_ms == 5_000
