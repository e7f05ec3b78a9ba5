"""The request log: every request of every client as one line of JSON, in Kafka's words.

It stands between connections and whoever answers them only while somebody wants it: whether it does
is decided when a level changes, so it costs nothing while it is off. At DEBUG every request is
told, at INFO those in a version that Kafka calls deprecated.
"""

from __future__ import annotations

import json
import logging
import struct
from typing import TYPE_CHECKING, Any

from moldau.broker.broker_log.request_texts import (
    api_text,
    message_node,
    request_node,
)
from moldau.model.file_regions import FileRegion
from moldau.net.answers import Answer
from moldau.net.request_times import RequestCells, TimedRequest
from moldau.wire.apis import api, is_old, request_class
from moldau.wire.primitives import DecodeError
from moldau.wire.request_framing import Chunk, decode_response, read_request_header

if TYPE_CHECKING:
    from moldau.net.connection import Connection
    from moldau.net.server import Server

log = logging.getLogger("kafka.request.logger")

BODY_BYTES_MAX = 64 * 1024
"""Of a request or an answer that is read again for its line; of a longer one the size is told."""
LINE_CHARACTERS_MAX = 256 * 1024
"""A longer line has sizes in the place of both bodies."""


class RequestLog:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._begin = server.times.begin_timed
        self._tells_all = False

    def follow_level(self) -> None:
        """Called at the start and after every change of a level."""
        self._tells_all = log.isEnabledFor(logging.DEBUG)
        is_on = self._tells_all or log.isEnabledFor(logging.INFO)
        self._server.watch_requests(self.begin if is_on else None)

    def begin(self, connection: Connection, frame: memoryview) -> list[Chunk] | Answer:
        """In the place of the server's own."""
        if not self._tells_all and not is_old(frame[1], frame[3]):
            return self._begin(connection, frame)
        # The frame is only lent: its bytes are gone when the request is answered.
        kept, size = bytes(frame[:BODY_BYTES_MAX]), len(frame)
        unsent = connection.timed
        before = len(unsent)
        answer = self._begin(connection, frame)
        if isinstance(answer, Answer):
            if answer.timed is not None:
                answer.timed = LoggedRequest(answer.timed, connection, kept, size, answer)
        elif len(unsent) > before:
            unsent[-1] = LoggedRequest(unsent[-1], connection, kept, size, Answer(answer))
        else:
            now_ns = self._server.times.now_ns()
            timed = TimedRequest(RequestCells(), connection.read_ns, now_ns)
            LoggedRequest(timed, connection, kept, size, Answer(answer)).tell(now_ns)
        return answer


class LoggedRequest(TimedRequest):
    """A request on its way that is told when the last byte of its answer is sent."""

    __slots__ = ("_answer", "_connection", "_frame", "_frame_bytes", "_principal")

    def __init__(
        self,
        timed: TimedRequest,
        connection: Connection,
        frame: bytes,
        frame_bytes: int,
        answer: Answer,
    ) -> None:
        super().__init__(timed.cells, timed.read_ns, timed.waited_from_ns)
        self.answered_ns = timed.answered_ns
        self._connection = connection
        self._frame = frame
        self._frame_bytes = frame_bytes
        self._answer = answer
        self._principal = str(connection.principal)

    def tell(self, now_ns: int) -> None:
        try:
            header = read_request_header(self._frame)
        except DecodeError:
            return  # so long a header is read once, for the answer
        row = api(header.api_key)
        deprecated = is_old(header.api_key, header.api_version)
        level = logging.INFO if deprecated else logging.DEBUG
        if row is None or not log.isEnabledFor(level):
            return
        response, throttle_ms = self._response(header.api_key, header.api_version)
        said: dict[str, Any] = {
            "isForwarded": False,
            "requestHeader": {
                "requestApiKey": header.api_key,
                "requestApiVersion": header.api_version,
                "correlationId": header.correlation_id,
                "clientId": header.client_id,
                "requestApiKeyName": api_text(row.name),
                **({"requestApiVersionDeprecated": True} if deprecated else {}),
            },
            "request": self._request(header.api_key, header.api_version, header.body_position),
            "response": response,
            **self._times(now_ns, throttle_ms),
        }
        text = json.dumps(said, separators=(",", ":"))
        if len(text) > LINE_CHARACTERS_MAX:
            said["request"] = {"sizeInBytes": self._frame_bytes}
            said["response"] = {"sizeInBytes": sum(map(_size_of, self._answer.chunks or []))}
            text = json.dumps(said, separators=(",", ":"))
        log.log(level, "Completed request:%s", text, extra={"is_whole": True})

    def _times(self, now_ns: int, throttle_ms: int) -> dict[str, Any]:
        connection = self._connection
        listener = connection.listener
        name, version = connection.client_software
        return {
            "connection": (
                f"{listener.host or '0.0.0.0'}:{listener.port}-{connection.client_host}:"
                f"{connection.client_port}-0-{connection.number}"
            ),
            "totalTimeMs": _ms(now_ns - self.read_ns),
            "requestQueueTimeMs": 0.0,
            "localTimeMs": _ms(self.waited_from_ns - self.read_ns),
            "remoteTimeMs": _ms(self.answered_ns - self.waited_from_ns),
            "throttleTimeMs": throttle_ms,
            "responseQueueTimeMs": 0.0,
            "sendTimeMs": _ms(now_ns - self.answered_ns),
            "securityProtocol": listener.security_protocol,
            "principal": self._principal,
            "listener": listener.name,
            "clientInformation": {
                "softwareName": name or "unknown",
                "softwareVersion": version or "unknown",
            },
        }

    def _request(self, api_key: int, version: int, position: int) -> Any:
        kind = request_class(api_key)
        if self._frame_bytes > len(self._frame):
            return {"sizeInBytes": self._frame_bytes}
        try:
            return request_node(kind.decode(self._frame, version, position), api_key, version)
        except (DecodeError, struct.error, IndexError):
            return {"sizeInBytes": self._frame_bytes}

    def _response(self, api_key: int, version: int) -> tuple[Any, int]:
        """And how long the client is told to wait."""
        chunks = self._answer.chunks or []
        if not chunks:
            return "", 0
        in_memory = sum(len(each) for each in chunks if not isinstance(each, FileRegion))
        if in_memory > BODY_BYTES_MAX:
            return {"sizeInBytes": sum(map(_size_of, chunks))}, 0
        # Records on disk stand as zeros, which take no memory until somebody looks at them.
        frame = bytearray(sum(map(_size_of, chunks)))
        end = 0
        for chunk in chunks:
            size = _size_of(chunk)
            if not isinstance(chunk, FileRegion):
                frame[end : end + size] = chunk
            end += size
        try:
            response = decode_response(api_key, version, memoryview(frame)[4:])
        except (DecodeError, struct.error, IndexError):
            return {"sizeInBytes": len(frame)}, 0
        return message_node(response, version), getattr(response, "throttle_time_ms", 0)


def _size_of(chunk: Chunk) -> int:
    return chunk.size_bytes if isinstance(chunk, FileRegion) else len(chunk)


def _ms(nanoseconds: int) -> float:
    """With microseconds, as in Kafka."""
    return max(nanoseconds, 0) // 1000 / 1000
