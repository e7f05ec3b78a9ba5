"""From a frame to its answer: header, route, body, handler, response.

A handler is a coroutine that this module drives by hand. Most finish without waiting for
anything, and then no task is made and no turn of the loop is taken: the answer is there when
`begin` returns. One that waits is resumed by the future it waits for.

Nothing a client sends, and no fault in a handler, gets further than its own connection.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns
from typing import Any

from moldau.broker.known_callers import Call, Caller, Lane
from moldau.broker.long_requests import LongWork
from moldau.handlers.authorization import OPEN_AUTHORIZER, Authorizer
from moldau.handlers.quota_keeping import OPEN_QUOTAS, QuotaKeeper
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Route
from moldau.metrics.answer_cells import AnswerCells
from moldau.model.errors import ApiError, Error
from moldau.model.log_line_limit import LogLimit
from moldau.net.answers import Answer, Disconnect
from moldau.net.connection import Connection
from moldau.net.connection_muting import MutingWait, done_beside
from moldau.wire.answer_walk import error_codes, errors_unless_long
from moldau.wire.apis import response_class
from moldau.wire.primitives import DecodeError, TooManyEntries
from moldau.wire.request_framing import API_VERSIONS, Chunk, encode_response, read_request_header
from moldau.wire.schema import Message

log = logging.getLogger("kafka.server.KafkaApis")
log.addFilter(LogLimit())

_start_of = struct.Struct(">ii").unpack_from
"""API key and version as one number, correlation id."""
START_BYTES = 8
HEADER_BYTES_KEPT = 1024
"""A longer header is read anew each time: nobody sends one, unless to fill the broker's memory."""
FRAME_BYTES_INLINE = 64 * 1024
"""A longer request without records is decoded beside the loop."""
ENTRIES_INLINE = 2_000
"""So is any whose arrays hold more."""
NEVER_QUEUED = frozenset({0, 1, 4, 5, 6})
"""Produce, Fetch and what the controller says: these wait for nobody's long requests."""
ROWS_INLINE = 5_000
"""An answer with more rows is encoded beside the loop."""


class Dispatch:
    def __init__(
        self,
        routes: Mapping[int, Route],
        services: Any,
        loop: asyncio.AbstractEventLoop,
        lanes: Mapping[int, Lane] | None = None,
        *,
        authorizer: Authorizer = OPEN_AUTHORIZER,
        quotas: QuotaKeeper = OPEN_QUOTAS,
        answers: AnswerCells | None = None,
    ) -> None:
        self._authorizer = authorizer
        self.quotas = quotas
        self._answers = answers or AnswerCells()
        self._routes = routes
        self._services = services
        self._lanes = lanes or {}
        self.loop = loop
        self._calls: dict[int, Call] = {}
        self._thread: ThreadPoolExecutor | None = None
        self.long_work = LongWork(loop)

    def begin(self, connection: Connection, frame: memoryview) -> list[Chunk] | Answer:
        try:
            start, correlation_id = _start_of(frame, 0)
            caller = connection.memory.get(start)
            if caller is None or caller.rest_at(frame, START_BYTES)[0] != caller.rest:
                if start not in self._calls and not self._learn(start):
                    return self._refuse_call(start, correlation_id)
                caller = self._meet(connection, frame, start)
        except (DecodeError, struct.error) as fault:
            raise _unreadable(fault) from None
        except (ImportError, OSError) as fault:
            log.error("Request failed connection=%s fault=%r", connection, fault)
            raise Disconnect("its handler cannot be loaded") from None
        call = caller.call
        try:
            lane = caller.lane
            if lane is not None:
                writer = caller.writer
                answer = lane(frame, caller.body_position, call.version, correlation_id, writer)
                if answer is not None:
                    share = caller.share
                    if share is None:
                        return [answer]
                    now_ns = perf_counter_ns()
                    if share.covers(len(frame), now_ns):
                        return [answer]
                    return self._settle(connection, caller, answer, len(frame), now_ns)
            request = self._decode_inline(caller, frame)
            if request is not None:
                coroutine = caller.function(request, caller.context_of(frame), self._services)
            else:
                coroutine = self._decode_aside(caller, frame)
            awaited = coroutine.send(None)
        except StopIteration as finished:
            response = finished.value
            if (errors := _errors_of(response)) is not None:
                return self.answer(connection, call, correlation_id, response, errors)
            coroutine = self.encode_aside(call, correlation_id, response)
            awaited = coroutine.send(None)
            return _Suspended(self, connection, call, correlation_id, coroutine, awaited)
        except (DecodeError, struct.error, IndexError) as fault:
            raise _unreadable(fault) from None
        except Disconnect:
            raise
        except Exception as fault:
            return self.failure(connection, call, correlation_id, fault)
        return _Suspended(self, connection, call, correlation_id, coroutine, awaited)

    def _settle(
        self,
        connection: Connection,
        caller: Caller,
        answer: bytes,
        request_bytes: int,
        now_ns: int,
    ) -> list[Chunk] | Answer:
        """The short way has answered a client that has a quota: then it may have to wait."""
        caller.share = self.quotas.share_of(caller.context)
        throttle_ms = self.quotas.settle_produce(caller.context, request_bytes, now_ns)
        lane = caller.call.lane
        if not throttle_ms or lane is None:
            return [answer]
        self._answers.throttle(caller.call.api_key, throttle_ms)
        settled = Answer([lane.throttled(answer, throttle_ms)])
        settled.may_be_overtaken = False
        # Once it has its place in the order, the pause comes behind it.
        self.loop.call_soon(connection.pause, throttle_ms)
        self.loop.call_soon(connection.answered)
        return settled

    def _decode_inline(self, caller: Caller, frame: memoryview) -> Message | None:
        """None if it is too long for that."""
        call = caller.call
        if len(frame) > FRAME_BYTES_INLINE and not call.carries_records:
            return None
        try:
            return call.decode_short(frame, call.version, caller.body_position, ENTRIES_INLINE)
        except TooManyEntries:
            return None

    async def _decode_aside(self, caller: Caller, frame: memoryview) -> Any:
        """As a handler: reads a long request in a thread first, one such request at a time."""
        call = caller.call
        try:
            position = caller.body_position
            request = await done_beside(self._aside, call.decode, frame, call.version, position)
        except (DecodeError, struct.error, IndexError) as fault:
            raise _unreadable(fault) from None
        return await caller.function(request, caller.context_of(frame), self._services)

    async def encode_aside(self, call: Call, correlation_id: int, response: Any) -> Any:
        """The chunks of a long answer."""
        codes = await self._beside(error_codes, response)
        if codes:
            self._answers.fail(call.api_key, codes)
        return await self._beside(
            encode_response, call.api_key, call.version, correlation_id, response
        )

    def _beside(self, work: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Pure work in one thread: the interpreter lets the loop run in between."""
        return self.loop.run_in_executor(self._aside, work, *arguments)

    @property
    def _aside(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "long-messages")
        return self._thread

    def _learn(self, start: int) -> bool:
        api_key, version = _split(start)
        route = self._routes.get(api_key)
        if route is None or not route.serves(version):
            return False
        self._calls[start] = Call(route, version, self._lanes.get(api_key))
        return True

    def _meet(self, connection: Connection, frame: memoryview, start: int) -> Caller:
        header = read_request_header(frame)
        context = RequestContext(
            header.api_key,
            header.api_version,
            header.client_id,
            connection.listener.name,
            connection.principal,
            connection.client_host,
            connection.listener.security_protocol,
            connection,
        )
        position = header.body_position
        is_kept = position - START_BYTES <= HEADER_BYTES_KEPT
        rest = bytes(frame[START_BYTES:position]) if is_kept else b""
        call = self._calls[start]
        caller = Caller(call, context, position, rest, self._authorizer, self.quotas)
        if caller.share is not None and connection.loop_time is not None:
            connection.loop_time.paid_by(caller.share.request)
        if call.is_old:
            caller.note_old(self._answers)
        if is_kept:
            connection.memory[start] = caller
        else:
            connection.memory.pop(start, None)
        return caller

    def _refuse_call(self, start: int, correlation_id: int) -> list[Chunk]:
        api_key, version = _split(start)
        route = self._routes.get(api_key)
        if route is None:
            raise Disconnect(f"api key {api_key} is not served")
        if api_key != API_VERSIONS:
            raise Disconnect(
                f"api key {api_key} version {version} is not served, "
                f"only {route.version_min} to {route.version_max}"
            )
        # The client learns the range from an answer in the oldest version and asks again (KIP-511).
        from moldau.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

        row = ApiVersion(
            api_key=API_VERSIONS, min_version=route.version_min, max_version=route.version_max
        )
        response = ApiVersionsResponse(error_code=Error.UNSUPPORTED_VERSION, api_keys=[row])
        return encode_response(API_VERSIONS, 0, correlation_id, response)

    def answer(
        self,
        connection: Connection,
        call: Call,
        correlation_id: int,
        response: Message | None,
        errors: list[int],
    ) -> list[Chunk]:
        if response is None:
            return []
        if errors:
            self._answers.fail(call.api_key, errors)
        try:
            return encode_response(call.api_key, call.version, correlation_id, response)
        except Exception as fault:
            return self.failure(connection, call, correlation_id, fault)

    def failure(
        self, connection: Connection, call: Call, correlation_id: int, fault: Exception
    ) -> list[Chunk]:
        """The error as an answer where the response has a place for it; otherwise disconnects."""
        if isinstance(fault, ApiError):
            error, message = fault.error, fault.message
        else:
            error, message = Error.UNKNOWN_SERVER_ERROR, ""
            log.error(
                "Request failed api=%s connection=%s fault=%r at=%s",
                call,
                connection,
                fault,
                _place_of(fault),
                exc_info=fault if log.isEnabledFor(logging.DEBUG) else None,
            )
        _forget_frames(fault)
        self._answers.fail(call.api_key, [int(error)])
        response_type = response_class(call.api_key)
        fields = {
            field.name for field in response_type.__fields__ if call.version in field.versions
        }
        if "error_code" not in fields:
            raise Disconnect(f"{call} failed: {error.name}")
        response = response_type(error_code=int(error))
        if isinstance(fault, ApiError) and fault.throttle_ms and "throttle_time_ms" in fields:
            response.throttle_time_ms = fault.throttle_ms  # type: ignore[attr-defined]
        if message and "error_message" in fields:
            response.error_message = message  # type: ignore[attr-defined]
        return encode_response(call.api_key, call.version, correlation_id, response)


class _Suspended(Answer):
    """A handler that waits; holds its request's place in the order of answers."""

    __slots__ = (
        "_awaited",
        "_call",
        "_connection",
        "_coroutine",
        "_correlation_id",
        "_dispatch",
        "_is_cancelled",
        "_is_encoding",
        "_is_left",
        "_must_cancel",
    )

    def __init__(
        self,
        dispatch: Dispatch,
        connection: Connection,
        call: Call,
        correlation_id: int,
        coroutine: Coroutine[Any, Any, Any],
        awaited: asyncio.Future[Any] | None,
    ) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._connection = connection
        self._call = call
        self._correlation_id = correlation_id
        self._coroutine = coroutine
        self._is_cancelled = False
        self._is_encoding = False
        self._is_left = False
        self._must_cancel = False
        self._await(awaited)

    def cancel(self) -> None:
        """As for a task: what the handler waits for is cancelled, and it unwinds from there."""
        self._is_cancelled = True
        self._must_cancel = self._awaited is None or not self._awaited.cancel()

    def leave(self) -> bool:
        self._is_left = True
        if not self.may_be_overtaken:
            return False
        self.cancel()
        return True

    def _await(self, awaited: asyncio.Future[Any] | None) -> None:
        self._awaited = awaited
        # Who rests in the middle of its work must not be overtaken.
        self.may_be_overtaken = awaited is not None and not isinstance(awaited, MutingWait)
        if awaited is None:
            # A bare yield, as in `asyncio.sleep(0)`: go on at the loop's next turn.
            if self._call.api_key in NEVER_QUEUED:
                self._dispatch.loop.call_soon(self.resume)
            else:
                self._dispatch.long_work.rest(self)
            return
        if not self._is_encoding:
            self._dispatch.long_work.leave(self)
        awaited._asyncio_future_blocking = False
        awaited.add_done_callback(self.resume)

    def resume(self, _: object = None) -> None:
        ended = self._coroutine
        try:
            awaited = self._coroutine.send(None)
        except StopIteration as finished:
            outcome: Any = finished.value
        except asyncio.CancelledError:
            outcome = Disconnect(f"{self._call} was cancelled")
        except Exception as fault:
            outcome = fault
        else:
            self._await(awaited)
            if self._must_cancel:
                self.cancel()
            elif self._is_left and self.may_be_overtaken:
                self.cancel()
                self._finish([])
            return
        try:
            if not self._is_cancelled:
                self._finish([] if self._is_left else outcome)
        finally:
            # A fault remembers this frame. Should the frame remember the fault, both would stay,
            # and the request with them, until Python looks for garbage.
            del outcome
            if self._coroutine is ended:
                self._dispatch.long_work.leave(self)

    def _finish(self, outcome: Message | list[Chunk] | Exception | None) -> None:
        what = (self._connection, self._call, self._correlation_id)
        if isinstance(outcome, Disconnect):
            self._connection.refuse(str(outcome))
            return
        try:
            if isinstance(outcome, Exception):
                self.chunks = self._dispatch.failure(*what, outcome)
            elif isinstance(outcome, list):
                self.chunks = outcome  # encoded already
            elif (errors := _errors_of(outcome)) is None:
                self._is_encoding = True
                self._coroutine = self._dispatch.encode_aside(*what[1:], outcome)
                self._await(self._coroutine.send(None))
                return
            else:
                self.chunks = self._dispatch.answer(*what, outcome, errors)
        except Disconnect as reason:
            self._connection.refuse(str(reason))
        else:
            self._connection.answered()


def _errors_of(response: Message | None) -> list[int] | None:
    """None if it is too long to be encoded on the loop."""
    return [] if response is None else errors_unless_long(response, ROWS_INLINE)


def _unreadable(fault: Exception) -> Disconnect:
    return Disconnect(f"request cannot be read: {fault}")


def _split(start: int) -> tuple[int, int]:
    """API key and version."""
    version = start & 0xFFFF
    return start >> 16, version - 0x10000 if version > 0x7FFF else version


def _forget_frames(fault: BaseException) -> None:
    """It remembers the frames that it came through, and one of these may remember it, or a future
    that holds it: such a circle, the request in it, stays until Python looks for garbage."""
    chain: BaseException | None = fault
    while chain is not None and chain.__traceback__ is not None:
        chain.__traceback__ = None
        chain = chain.__cause__ or chain.__context__


def _place_of(fault: Exception) -> str:
    """The innermost line, so that one log line says where to look."""
    trace = fault.__traceback__
    if trace is None:
        return "?"
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
