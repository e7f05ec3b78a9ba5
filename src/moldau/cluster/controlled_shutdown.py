"""Controlled shutdown: a broker that stops asks the controller to let others lead first."""

from __future__ import annotations

import logging
from typing import Protocol

from moldau.cluster.cluster_controller import ClusterController
from moldau.config.broker_config import BrokerConfig
from moldau.controller.cluster_commands import ControlledShutdown
from moldau.engine.timers import Timers
from moldau.model.cluster import ClusterImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, TopicPartition
from moldau.net.peers import PeerCalls, PeerUnreachable
from moldau.wire.messages.replication import ControlledShutdownRequest

log = logging.getLogger("kafka.server.KafkaServer")

LANE = "shutdown"
PAUSE_STEPS = 50


class Leaving(Protocol):
    image: ClusterImage
    broker_epoch: int
    peers: PeerCalls
    controller: ClusterController


async def hand_over(
    member: Leaving, node_id: BrokerId, config: BrokerConfig, timers: Timers
) -> None:
    log.info("[KafkaServer id=%d] Starting controlled shutdown", node_id)
    attempts = config.controlled_shutdown_max_retries + 1
    for attempt in range(attempts):
        if attempt:
            await _pause(member, config.controlled_shutdown_retry_backoff_ms, timers)
            if _is_alone(member):
                text = "Nobody is left to take over: this is the last broker."
                log.info("[KafkaServer id=%d] %s", node_id, text)
                return
            text = "Retrying controlled shutdown after the previous attempt failed..."
            log.warning("[KafkaServer id=%d] %s", node_id, text)
        try:
            remaining = await _ask(member, node_id, config.controller_socket_timeout_ms)
        except (ApiError, PeerUnreachable) as fault:
            log.info("[KafkaServer id=%d] Controlled shutdown was not done: %s", node_id, fault)
            continue
        if not remaining:
            log.info("[KafkaServer id=%d] Controlled shutdown succeeded", node_id)
            return
        log.info(
            "[KafkaServer id=%d] Remaining partitions to move: %s",
            node_id,
            ", ".join(map(str, remaining)),
        )
    text = (
        "[KafkaServer id=%d] Proceeding to do an unclean shutdown as all the controlled shutdown "
        "attempts failed"
    )
    log.warning(text, node_id)


async def _pause(member: Leaving, pause_ms: int, timers: Timers) -> None:
    """Until the next attempt is due, or needless because the others are gone too."""
    step_ms = max(1, pause_ms // PAUSE_STEPS)
    for _ in range(PAUSE_STEPS):
        if _is_alone(member):
            return
        await timers.pause(step_ms)


def _is_alone(member: Leaving) -> bool:
    return len(member.image.brokers) <= 1


async def _ask(member: Leaving, node_id: BrokerId, timeout_ms: int) -> list[TopicPartition]:
    controller = member.image.controller_id
    if controller == node_id:
        return await member.controller.controlled_shutdown(
            ControlledShutdown(node_id, member.broker_epoch)
        )
    request = ControlledShutdownRequest(broker_id=node_id, broker_epoch=member.broker_epoch)
    response = await member.peers.call(controller, request, timeout_ms=timeout_ms, lane=LANE)
    if response.error_code:
        raise ApiError(Error(response.error_code))
    return [
        TopicPartition(row.topic_name, row.partition_index) for row in response.remaining_partitions
    ]
