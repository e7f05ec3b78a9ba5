"""What logs are opened with: each topic's own settings, read before any log is looked at.

As in Apache Kafka the metadata come first, the logs second: a log that its topic has compacted is
not like others, and a start that knows only the broker's defaults would judge it wrongly.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from moldau.cluster.tree.metadata_retries import patiently
from moldau.cluster.tree.tree_loading import load_configs
from moldau.config.broker_config import BrokerConfig
from moldau.config.config_changes import DEFAULT_BROKER
from moldau.config.setting_definition import ConfigError
from moldau.config.topic_config import TopicConfig
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.store import MetadataStore, NoNode
from moldau.model.clock import Clock
from moldau.model.names import BrokerId

log = logging.getLogger("kafka.server.KafkaServer")

Overrides = Mapping[str, Mapping[str, str]]
"""Name of a topic or a broker to what was set for it."""


class TopicSettings:
    """Those of the start; later ones reach each log through its replica."""

    def __init__(self, config: BrokerConfig, topics: Overrides, brokers: Overrides) -> None:
        try:
            config = config.with_overrides(dynamic_overrides(brokers, config.node_id))
        except ConfigError as fault:
            log.error("Logs are loaded without the dynamic settings of the broker: %s", fault)
        self._config = config
        self._defaults = TopicConfig.of(config, {})
        self._topics = topics

    @classmethod
    async def read(cls, config: BrokerConfig, store: MetadataStore) -> TopicSettings:
        """Raises StoreError."""
        try:
            topics = await load_configs(store, paths.TOPIC_CONFIGS)
            brokers = await load_configs(store, paths.BROKER_CONFIGS)
        except NoNode:
            # Nobody has started on this store before: there are no topics.
            return cls(config, {}, {})
        return cls(config, topics, brokers)

    @classmethod
    async def read_patiently(
        cls, config: BrokerConfig, store: MetadataStore, clock: Clock, timers: Timers
    ) -> TopicSettings:
        """Waits for an ensemble that elects a leader just now."""
        timeout_ms = config.zookeeper_connection_timeout_ms
        return await patiently(
            lambda: cls.read(config, store), clock=clock, timers=timers, timeout_ms=timeout_ms
        )

    def of(self, topic: str) -> TopicConfig:
        """Safe in any thread. The defaults for a log whose topic is not known: it is a stray."""
        overrides = self._topics.get(topic)
        return TopicConfig.of(self._config, overrides) if overrides else self._defaults


def dynamic_overrides(brokers: Overrides, node_id: BrokerId) -> dict[str, str]:
    """For this broker: its own before those for all."""
    return {**brokers.get(DEFAULT_BROKER, {}), **brokers.get(str(node_id), {})}
