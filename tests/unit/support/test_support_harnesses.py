"""Harnesses build a part as the broker builds it."""

from __future__ import annotations

from dataclasses import fields

from moldau.config.broker_config import BrokerConfig
from moldau.config.topic_config import TopicConfig
from tests.support.logs import SmallSettings

OTHERWISE = {"retention_ms": -1}
"""Batches of tests are stamped long ago; what retention does has tests of its own."""


def test_small_settings_are_a_topics_own_where_a_test_says_nothing() -> None:
    config, _ = BrokerConfig.parse({"node.id": "1"})
    topic = TopicConfig.of(config, {})
    small = SmallSettings()
    for each in fields(small):
        wanted = OTHERWISE.get(each.name, getattr(topic, each.name))
        assert getattr(small, each.name) == wanted, each.name
    assert small.roll_ms == topic.roll_ms
