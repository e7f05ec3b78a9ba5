"""Topics that come to be because somebody asked for them (`auto.create.topics.enable`)."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.config.broker_config import BrokerConfig
from moldau.controller.rules.topic_rules import PARTITIONS_PER_REQUEST_MAX, NewTopic
from moldau.engine.shards import Shards
from moldau.handlers.quota_keeping import NO_MUTATIONS, Mutations
from moldau.handlers.request_slices import in_turns
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.model.names import topic_name_fault

TOPICS_PER_TURN = 20
"""Made before others are served in between."""
FACTOR_KEYS = {
    "__consumer_offsets": "offsets.topic.replication.factor",
    "__transaction_state": "transaction.state.log.replication.factor",
}


async def create_missing(
    names: Iterable[str], on: Services, mutations: Mutations = NO_MUTATIONS
) -> None:
    """Create what is named but not there; what cannot be created stays unknown. It counts as what
    its client has changed, but nobody has to wait for it."""
    known = on.image().topics
    missing = [
        new_topic(name, on.config, is_alone=on.member is None)
        async for name in in_turns(names, on.clock)
        if name not in known and topic_name_fault(name) is None
    ]
    # As many as CreateTopics would take, counted before anything is made of them.
    if not 0 < len(missing) * on.config.num_partitions <= PARTITIONS_PER_REQUEST_MAX:
        return
    mutations.take(len(missing) * on.config.num_partitions)
    try:
        for position in range(0, len(missing), TOPICS_PER_TURN):
            await on.controller.create_missing(missing[position : position + TOPICS_PER_TURN])
            await on.replicas.pending.settled()
    except ApiError:
        # The client is told that the topic is unknown, and asks again.
        return


async def create_internal(shards: Shards, on: Services) -> None:
    """Create the topic of a coordinator when it is first needed. A cluster waits until enough
    brokers are alive for all replicas (KIP-115): made with fewer it would stay so for good."""
    image = on.image()
    if shards.topic in image.topics:
        return
    topic = new_topic(shards.topic, on.config, is_alone=on.member is None)
    if on.member is not None and len(image.brokers) < topic.replication_factor:
        shards.say_missing(
            f"it needs {topic.replication_factor} brokers ({FACTOR_KEYS[topic.name]}), "
            f"{len(image.brokers)} are alive"
        )
        return
    try:
        refusals = await on.controller.create_missing([topic])
    except ApiError as fault:
        refusals = [fault]
    for refusal in refusals:
        if refusal.error is not Error.TOPIC_ALREADY_EXISTS:
            shards.say_missing(refusal.message or refusal.error.sentence)


def new_topic(name: str, config: BrokerConfig, *, is_alone: bool) -> NewTopic:
    """A topic that nobody described: the broker's defaults, or what an internal topic needs. A
    broker that stands alone, with its metadata in a file, makes one replica of those."""
    if name == "__consumer_offsets":
        return NewTopic(
            name,
            config.offsets_topic_num_partitions,
            1 if is_alone else config.offsets_topic_replication_factor,
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
            1 if is_alone else config.transaction_state_log_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    return NewTopic(name)
