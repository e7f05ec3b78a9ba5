"""A broker of a few lines for tests of clients: it answers what the test tells it to.

`answers` maps a request class to a function of the request and its version, which returns the
response, or HANG for none, or HANG_UP to close the connection. ApiVersions is answered from
`served` unless told otherwise. Everything received is in `requests`, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from moldau.wire.apis import APIS, request_class
from moldau.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from moldau.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.wire.request_framing import encode_response, read_request_header
from moldau.wire.schema import Message

TELEMETRY = (71, 72)
"""Offered only by brokers that have a use for clients' metrics."""
HANG = object()
HANG_UP = object()

Answer = Callable[[Any, int], Any]


class ScriptedBroker:
    def __init__(self, answers: dict[type[Message], Answer] | None = None) -> None:
        self.served = {
            row.key: (row.version_min, row.version_max) for row in APIS if row.key not in TELEMETRY
        }
        self.answers: dict[type[Message], Answer] = {
            ApiVersionsRequest: self._versions,
            MetadataRequest: self._metadata,
            **(answers or {}),
        }
        self.requests: list[tuple[Message, int]] = []
        self.connections = 0
        self.topics: dict[str, MetadataResponseTopic] = {}
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        while self._writers:
            await asyncio.sleep(0)
        await self._server.wait_closed()

    def hang_up(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def add_topic(self, name: str, leader_epoch: int = 0, leader: int = 0) -> None:
        part = MetadataResponsePartition(
            partition_index=0,
            leader_id=leader,
            leader_epoch=leader_epoch,
            replica_nodes=[0],
            isr_nodes=[0],
        )
        topic_id = name.encode().ljust(16, b"\0")
        self.topics[name] = MetadataResponseTopic(name=name, topic_id=topic_id, partitions=[part])

    def _versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        rows = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.served.items()
        ]
        return ApiVersionsResponse(api_keys=rows)

    def _metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        wanted = list(self.topics) if request.topics is None else [t.name for t in request.topics]
        unknown = [
            MetadataResponseTopic(name=n, error_code=3) for n in wanted if n not in self.topics
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self.port)],
            cluster_id="scripted",
            controller_id=0,
            topics=[self.topics[n] for n in wanted if n in self.topics] + unknown,
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                if not self._reply(frame, writer):
                    break
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _reply(self, frame: bytes, writer: asyncio.StreamWriter) -> bool:
        header = read_request_header(frame)
        key, version = header.api_key, header.api_version
        request = request_class(key).decode(frame, version, header.body_position)
        self.requests.append((request, version))
        answer = self.answers[type(request)](request, version)
        if answer is HANG_UP:
            return False
        if isinstance(answer, bytes):
            writer.write(answer)
        elif answer is not HANG:
            answer, version = answer if isinstance(answer, tuple) else (answer, version)
            for chunk in encode_response(key, version, header.correlation_id, answer):
                assert isinstance(chunk, bytes)
                writer.write(chunk)
        return True
