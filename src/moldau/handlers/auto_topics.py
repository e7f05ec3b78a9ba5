"""Topics that come to be because somebody asked for them (`auto.create.topics.enable`)."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.config.broker import BrokerConfig
from moldau.controller.topics import PARTITIONS_PER_REQUEST_MAX, NewTopic
from moldau.handlers.services import Services
from moldau.handlers.turns import in_turns
from moldau.model.errors import ApiError
from moldau.model.names import topic_name_fault

TOPICS_PER_TURN = 20
"""Made before others are served in between."""


async def create_missing(names: Iterable[str], on: Services) -> None:
    """Create what is named but not there; what cannot be created stays unknown."""
    known = on.image().topics
    brokers_count = len(on.image().brokers)
    missing = [
        new_topic(name, on.config, brokers_count)
        async for name in in_turns(names, on.clock)
        if name not in known and topic_name_fault(name) is None
    ]
    # As many as CreateTopics would take, counted before anything is made of them.
    if not 0 < len(missing) * on.config.num_partitions <= PARTITIONS_PER_REQUEST_MAX:
        return
    try:
        for position in range(0, len(missing), TOPICS_PER_TURN):
            await on.controller.create_missing(missing[position : position + TOPICS_PER_TURN])
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
