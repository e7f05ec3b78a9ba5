"""Topics that come to be because somebody asked for them (`auto.create.topics.enable`)."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.config.broker import BrokerConfig
from moldau.controller.topics import NewTopic
from moldau.handlers.services import Services
from moldau.model.errors import ApiError
from moldau.model.names import topic_name_fault


async def create_missing(names: Iterable[str], on: Services) -> None:
    """Create what is named but not there; what cannot be created stays unknown."""
    known = on.image().topics
    missing = [
        new_topic(name, on.config, len(on.image().brokers))
        for name in names
        if name not in known and topic_name_fault(name) is None
    ]
    if not missing:
        return
    try:
        await on.controller.create_missing(missing)
    except ApiError:
        # The client is told that the topic is unknown, and asks again.
        return


def new_topic(name: str, config: BrokerConfig, brokers_count: int) -> NewTopic:
    """A topic that nobody described: the broker's defaults, or what an internal topic needs. Those
    are made with as many replicas as there are brokers, or a small cluster had no groups."""
    if name == "__consumer_offsets":
        return NewTopic(
            name,
            config.offsets_topic_num_partitions,
            min(config.offsets_topic_replication_factor, max(1, brokers_count)),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == "__transaction_state":
        return NewTopic(
            name,
            config.transaction_state_log_num_partitions,
            min(config.transaction_state_log_replication_factor, max(1, brokers_count)),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    return NewTopic(name)
