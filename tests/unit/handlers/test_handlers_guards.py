"""Whoever may do nothing gets an answer to everything, and changes nothing by it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from moldau.handlers.authorization import Resource, guarded
from moldau.handlers.guards import ASKS_ITSELF, FREE, GUARDS
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import ROUTES, cluster_routes
from moldau.model.errors import ApiError, Error
from moldau.net.answers import Disconnect
from moldau.security.acl.acl_model import Operation, ResourceType
from moldau.wire.apis import request_class, response_class
from moldau.wire.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.messages.topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.request_framing import encode_response
from moldau.wire.schema import Message
from tests.support.random_messages import RandomMessages
from tests.support.services import Node, play

EVERYTHING = {**ROUTES, **cluster_routes()}
FILTERED = {16, 66, 60, 3, 75}
"""Answers that only leave things out: these are served to anybody."""


class Only:
    """Allows what the test names, as (operation, resource)."""

    is_open = False
    memory: object = None

    def __init__(self, *allowed: tuple[Operation, str]) -> None:
        self._allowed = set(allowed)

    def allows(
        self,
        ctx: RequestContext,
        operation: Operation,
        resource: Resource,
        *,
        count: int = 1,
        is_logged: bool = True,
        logs_denial: bool = True,
    ) -> bool:
        return (operation, resource.name) in self._allowed

    def allows_somewhere(
        self, ctx: RequestContext, operation: Operation, type: ResourceType
    ) -> bool:
        return False


def test_every_api_has_a_rule() -> None:
    assert set(EVERYTHING) - FREE - ASKS_ITSELF - set(GUARDS) == set()


@pytest.mark.parametrize("api_key", sorted(set(GUARDS) & set(EVERYTHING)))
def test_who_may_do_nothing_is_answered_and_not_served(api_key: int, tmp_path: Path) -> None:
    route = EVERYTHING[api_key]
    dice = random.Random(api_key)

    async def scenario(node: Node) -> None:
        node.on.authorizer = Only()
        await node.create_topic("hostile")

        async def serve(request: Message, ctx: RequestContext, on: Any) -> Any:
            is_listing = api_key in FILTERED
            left = [
                value
                for field in request.__fields__
                if field.is_array and (value := getattr(request, field.name))
                # An id that nobody knows gives nothing away.
                if any(not hasattr(row, "topic_id") or row.name for row in value)
            ]
            assert is_listing or not left, f"{request} was served"
            return response_class(api_key)()

        for version in range(route.version_min, route.version_max + 1):
            for _ in range(20):
                request = RandomMessages(dice).message(request_class(api_key), version)
                ctx = RequestContext(api_key, version, "test", "PLAINTEXT")
                try:
                    response = await guarded(api_key, serve)(request, ctx, node.on)
                except ApiError as refusal:
                    is_lacking = refusal.error is Error.INCONSISTENT_GROUP_PROTOCOL
                    assert is_lacking or "AUTHORIZATION_FAILED" in refusal.error.name
                    continue
                except Disconnect:
                    assert api_key == 0, "only a write that wants no answer ends the connection"
                    continue
                if response is not None:
                    encode_response(api_key, version, 1, response)

    play(scenario, tmp_path)


async def ask(node: Node, request: Message, version: int, api_key: int) -> Any:
    ctx = RequestContext(api_key, version, "test", "PLAINTEXT")
    return await guarded(api_key, ROUTES[api_key].function)(request, ctx, node.on)


def test_metadata_tells_of_a_denied_topic_as_of_one_that_is_not_there(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("yours")
        await node.create_topic("mine")
        node.on.authorizer = Only((Operation.DESCRIBE, "mine"), (Operation.READ, "mine"))
        names = ("yours", "mine", "nowhere")
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        request.include_topic_authorized_operations = True
        told = {row.name: row for row in (await ask(node, request, 12, 3)).topics}
        denied = Error.TOPIC_AUTHORIZATION_FAILED
        assert {name: row.error_code for name, row in told.items()} == {
            "mine": 0,
            "yours": denied,
            "nowhere": denied,
        }
        assert told["mine"].topic_authorized_operations == 1 << 3 | 1 << 8
        assert told["yours"].topic_id == bytes(16)
        by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])
        (row,) = (await ask(node, by_id, 12, 3)).topics
        assert (row.error_code, row.name, row.topic_id) == (denied, None, topic_id)
        everything = await ask(node, MetadataRequest(topics=None), 12, 3)
        assert [row.name for row in everything.topics] == ["mine"]
        assert "nowhere" not in node.image.topics

    play(scenario, tmp_path)


def test_a_topic_is_not_deleted_by_its_id_either(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("yours")
        node.on.authorizer = Only()
        by_id = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)])
        (row,) = (await ask(node, by_id, 6, 20)).responses
        assert (row.error_code, row.name) == (Error.TOPIC_AUTHORIZATION_FAILED, None)
        by_name = DeleteTopicsRequest(topic_names=["yours"])
        (row,) = (await ask(node, by_name, 5, 20)).responses
        assert row.error_code == Error.TOPIC_AUTHORIZATION_FAILED
        assert "yours" in node.image.topics

    play(scenario, tmp_path)


def test_offsets_of_denied_topics_are_unknown(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("mine")
        node.on.authorizer = Only((Operation.DESCRIBE, "g"), (Operation.DESCRIBE, "mine"))
        rows = [
            OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("mine", "yours")
        ]
        groups = [
            OffsetFetchRequestGroup(group_id="g", topics=rows),
            OffsetFetchRequestGroup(group_id="other", topics=None),
        ]
        task = asyncio.ensure_future(ask(node, OffsetFetchRequest(groups=groups), 8, 9))
        told = {group.group_id: group for group in (await task).groups}
        assert told["other"].error_code == Error.GROUP_AUTHORIZATION_FAILED
        if told["g"].error_code == Error.NONE:
            found = {row.name: row.partitions[0].error_code for row in told["g"].topics}
            assert found["yours"] == Error.TOPIC_AUTHORIZATION_FAILED
        assert told["g"].error_code != Error.GROUP_AUTHORIZATION_FAILED

    play(scenario, tmp_path)
