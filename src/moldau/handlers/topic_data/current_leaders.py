"""Telling a client who leads instead: Produce and Fetch answers carry it (KIP-951)."""

from __future__ import annotations

from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.cluster import BrokerNode, Endpoint
from moldau.model.names import BrokerId, TopicId


class Leaders:
    """The leaders named in one answer, and where they are reached."""

    __slots__ = ("_ctx", "_on", "nodes")

    def __init__(self, ctx: RequestContext, on: Services) -> None:
        self._ctx = ctx
        self._on = on
        self.nodes: dict[BrokerId, tuple[BrokerNode, Endpoint]] = {}

    def of(self, topic: str, topic_id: TopicId, partition: int) -> tuple[BrokerId, int]:
        """(leader, leader epoch) of a topic that has a name or an id in the request; the leader's
        address joins the answer's `nodes`."""
        image = self._on.image()
        name = topic or image.topic_names.get(topic_id, "")
        leader, epoch = self._on.replicas.leader_of(name, partition)
        node = image.brokers.get(leader)
        endpoint = None if node is None else node.endpoint(self._ctx.listener)
        if node is not None and endpoint is not None:
            self.nodes[leader] = node, endpoint
        return leader, epoch
