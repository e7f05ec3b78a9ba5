"""Topics that a client of this broker wants: the controller is asked to make them."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.controller.rules.topic_rules import NewTopic
from moldau.model.cluster import NO_LEADER
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, Millis
from moldau.net.peers import PeerCalls, PeerUnreachable
from moldau.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

LANE = "forward"


async def forward_topics(
    topics: Sequence[NewTopic], controller: BrokerId, peers: PeerCalls, timeout_ms: Millis
) -> None:
    """Raises ApiError if there is no controller; a topic that is refused stays unknown."""
    if controller == NO_LEADER:
        raise ApiError(Error.COORDINATOR_NOT_AVAILABLE, "There is no controller.")
    request = CreateTopicsRequest(
        timeout_ms=timeout_ms,
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=[],
                configs=[
                    CreatableTopicConfig(name=key, value=value)
                    for key, value in topic.configs.items()
                ],
            )
            for topic in topics
        ],
    )
    try:
        response = await peers.call(controller, request, timeout_ms=timeout_ms, lane=LANE)
    except PeerUnreachable as fault:
        raise ApiError(Error.COORDINATOR_NOT_AVAILABLE, str(fault)) from fault
    refused = [row for row in response.topics if row.error_code]
    if refused and len(refused) == len(response.topics):
        error = Error(refused[0].error_code)
        if error is not Error.TOPIC_ALREADY_EXISTS:
            raise ApiError(error, refused[0].error_message or "")
