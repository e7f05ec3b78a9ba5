"""Settings of topics that have changed from one image of the cluster to the next."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.config.broker_config import BrokerConfig
from moldau.config.topic_config import TopicConfig
from moldau.model.cluster import ClusterImage
from moldau.replication.replica import Replica


def configure_changed(
    replicas: Mapping[tuple[str, int], Replica],
    config: BrokerConfig,
    old: ClusterImage,
    new: ClusterImage,
) -> None:
    """Tell the replicas of each topic whose own settings are others now."""
    if new.topic_configs is old.topic_configs:
        return
    for name in {place[0] for place in replicas}:
        overrides = new.topic_configs.get(name, {})
        if overrides != old.topic_configs.get(name, {}):
            settings = TopicConfig.of(config, overrides)
            for place, replica in replicas.items():
                if place[0] == name:
                    replica.configure(settings)
