"""A compacted topic in memory, kept up to date, with look-ups by key: in Python and over HTTP.

    with LiveView("127.0.0.1:9092", "streams-wordcount-output", value="long") as view:
        view.wait_until_current()
        view.get("kafka")                       # the latest value, or None
        address = view.serve()                  # GET /keys/kafka, GET /keys?prefix=k&limit=10

One thread reads, also partitions that the topic gets later; look-ups take what is there. How many
keys are kept and how many requests are served at a time are bounded: a view is for tables that fit
into memory. A view that cannot go on says why, to everybody who asks.
"""

from __future__ import annotations

import json
import logging
import struct
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from time import monotonic
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from moldau.client.admin.admin_results import TopicDescription
from moldau.client.admin.blocking_admin import Admin
from moldau.client.consumer.blocking_consumer import Consumer
from moldau.client.shared.client_errors import KafkaError, error_class
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.pipelines.sink.batch_markers import common_settings
from moldau.pipelines.tables.latest_per_key import LatestByKey, RecordPlace

KEYS_MAX = 10_000_000
REQUESTS_MAX = 32
LISTED_MAX = 1_000
POLL_SECONDS = 0.2
POLL_RECORDS = 10_000
REQUEST_SECONDS_MAX = 10.0
REFRESH_SECONDS = 5.0
"""How often a view looks whether its topic has got more partitions."""
LOOK_MS_MAX = 5_000
UNKNOWN_MAX = 3
"""A broker that has just started may not know a topic yet, so one such answer says nothing."""
UNREADABLE = (ValueError, TypeError, LookupError, RecursionError, struct.error)
"""What decoders raise. A value may be nested more deeply than Python can follow."""

log = logging.getLogger("moldau.pipelines.view")

Decoder = Callable[[bytes], Any]


class ViewError(Exception):
    """What a user can mend, in one sentence."""


def _long(data: bytes) -> int:
    number: int = struct.unpack(">q", data)[0]
    return number


def _integer(data: bytes) -> int:
    number: int = struct.unpack(">i", data)[0]
    return number


DECODERS: dict[str, Decoder] = {
    "string": lambda data: data.decode("utf-8", "replace"),
    "long": _long,
    "integer": _integer,
    "json": json.loads,
    "bytes": lambda data: data.hex(),
}


class LiveView:
    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        key: str = "string",
        value: str = "string",
        keys_max: int = KEYS_MAX,
        refresh_seconds: float = REFRESH_SECONDS,
        **settings: Any,
    ) -> None:
        self.topic = topic
        self._key, self._value = _decoder(key), _decoder(value)
        self._keys_max = keys_max
        self._latest = LatestByKey()
        self._refresh_seconds = refresh_seconds
        self._current = threading.Event()
        self._is_closing = threading.Event()
        self._fault: str | None = None
        self._server: ThreadingHTTPServer | None = None
        given = {key.replace("_", "."): value for key, value in settings.items()}
        given = {"bootstrap.servers": bootstrap, **given}
        self._admin = Admin(common_settings(given))
        try:
            # By now it is surely known, and the first look says what is wrong with the address.
            found = self._admin.describe_topics([topic]).check()[topic]
        except KafkaError as fault:
            self._admin.close()
            raise ViewError(f"The topic {topic} at {bootstrap} cannot be read: {fault}") from None
        self._topic_id = found.topic_id
        self._unknown = 0
        self._places = _places(found)
        self._consumer = Consumer(
            {
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **given,
            }
        )
        self._thread = threading.Thread(target=self._follow, name=f"view-{topic}", daemon=True)
        self._thread.start()

    def get(self, key: Any, default: Any = None) -> Any:
        self._check()
        return self._latest.rows.get(key, default)

    def items(self, prefix: str = "", limit: int = LISTED_MAX) -> list[tuple[Any, Any]]:
        """Some rows, in order of their keys as text."""
        self._check()
        rows = self._latest.rows.copy()
        chosen = ((str(key), key) for key in rows if str(key).startswith(prefix))
        ordered = sorted(chosen, key=lambda each: each[0])
        return [(key, rows[key]) for _, key in islice(ordered, min(limit, LISTED_MAX))]

    def __len__(self) -> int:
        return len(self._latest.rows)

    def wait_until_current(self, timeout: float = 60.0) -> bool:
        """Until everything is read that was there when the view was made."""
        is_current = self._current.wait(timeout)
        self._check()
        return is_current

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Answer look-ups over HTTP from now on; the address, for instance http://127.0.0.1:8080"""
        if self._server is None:
            self._server = _Server((host, port), self)
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://{host}:{self._server.server_address[1]}"

    def close(self) -> None:
        self._is_closing.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._thread.join(REQUEST_SECONDS_MAX)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *outcome: object) -> None:
        self.close()

    def _follow(self) -> None:
        is_told = False
        try:
            self._read_on()
            is_told = True
        except (KafkaError, ViewError) as fault:
            self._stop(str(fault))
            is_told = True
        finally:
            if not is_told:
                # Whatever it is, nobody must take the view for one that follows its topic.
                self._stop(repr(sys.exception()))
            self._consumer.close()
            self._admin.close()

    def _stop(self, reason: str) -> None:
        self._fault = f"The view of {self.topic} has stopped: {reason}"
        log.error("%s", self._fault)
        self._current.set()

    def _read_on(self) -> None:
        consumer = self._consumer
        consumer.assign(self._places)
        ends = consumer.end_offsets(self._places)
        look_at = monotonic() + self._refresh_seconds
        while not self._is_closing.is_set():
            for record in consumer.poll(POLL_SECONDS, max_records=POLL_RECORDS):
                self._apply(record)
            if ends and all(consumer.position(tp) >= end for tp, end in ends.items()):
                ends = {}
                self._latest.settle()
                self._current.set()
            if monotonic() >= look_at:
                self._look_again()
                if not ends and self._latest.has_deletions:
                    ends = consumer.end_offsets(self._places)
                look_at = monotonic() + self._refresh_seconds

    def _look_again(self) -> None:
        """Take up partitions that are new; ViewError if the topic is no longer the same."""
        found: TopicDescription | KafkaError
        try:
            found = self._admin.describe_topics(
                [self.topic], raise_errors=False, timeout=LOOK_MS_MAX / 1000
            ).outcomes[self.topic]
        except KafkaError as fault:
            found = fault
        if not isinstance(found, TopicDescription):
            is_unknown = isinstance(found, error_class(Error.UNKNOWN_TOPIC_OR_PARTITION))
            self._unknown = self._unknown + 1 if is_unknown else 0
            if self._unknown >= UNKNOWN_MAX:
                raise ViewError("the topic was deleted")
            log.warning("The partitions of %s could not be had: %s", self.topic, found)
            return
        self._unknown = 0
        if found.topic_id != self._topic_id:
            raise ViewError("the topic was created anew, so make a new view")
        places = _places(found)
        if len(places) > len(self._places):
            log.info("The view of %s reads %d partitions from now on", self.topic, len(places))
            self._places = places
            self._consumer.assign(places)

    def _apply(self, record: Any) -> None:
        if record.key is None:
            return
        place = RecordPlace(record.timestamp, record.offset, record.partition)
        is_deletion = record.value is None
        try:
            key = self._key(record.key)
            is_new = key not in self._latest
            value = None if is_deletion else self._value(record.value)
        except UNREADABLE as fault:
            raise ViewError(
                f"the record in {self.topic}-{record.partition} at offset {record.offset} cannot "
                f"be read: {fault or type(fault).__name__}"
            ) from None
        if is_new and not is_deletion and len(self._latest) >= self._keys_max:
            raise ViewError(f"it has more than {self._keys_max} keys, the most that are kept")
        if not is_new or not is_deletion or len(self._places) > 1:
            self._latest.take(key, place, is_deletion=is_deletion, value=value)

    def _check(self) -> None:
        if self._fault is not None:
            raise ViewError(self._fault)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = REQUESTS_MAX

    def __init__(self, address: tuple[str, int], view: LiveView) -> None:
        self.view = view
        self._free = threading.BoundedSemaphore(REQUESTS_MAX)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Beyond the bound, who comes waits in the queue of the socket."""
        self._free.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS_MAX
    server_version = "moldau"
    sys_version = ""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        started = monotonic()
        try:
            status, answer = self._answer(unquote(asked.path), parse_qs(asked.query))
        except ViewError as fault:
            status, answer = 503, {"error": str(fault)}
        if isinstance(answer, dict):
            answer["took_ms"] = round((monotonic() - started) * 1000, 3)
        try:
            body = json.dumps(answer).encode()
        except (RecursionError, TypeError, ValueError) as fault:
            status, body = 500, json.dumps({"error": f"The value is no JSON: {fault}"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        view = self.server.view
        if path == "/":
            return 200, {"topic": view.topic, "keys": len(view)}
        if path == "/keys":
            limit = query.get("limit", ["100"])[0]
            if not limit.isdecimal():
                return 400, {"error": f"limit cannot be {limit!r}: it is a number"}
            rows = view.items(query.get("prefix", [""])[0], int(limit))
            return 200, {"rows": [{"key": key, "value": value} for key, value in rows]}
        if path.startswith("/keys/"):
            key = path.removeprefix("/keys/")
            value = view.get(key)
            if value is None and key.lstrip("-").isdecimal():
                value = view.get(int(key))
            if value is None:
                return 404, {"error": f"There is no key {key} in {view.topic}"}
            return 200, {"key": key, "value": value}
        return 404, {"error": f"There is no {path}: ask for /, /keys or /keys/KEY"}

    def log_message(self, format: str, *args: Any) -> None:
        """Not a line per look-up."""


def _places(topic: TopicDescription) -> list[TopicPartition]:
    return [TopicPartition(topic.name, each.partition) for each in topic.partitions]


def _decoder(name: str) -> Decoder:
    if name not in DECODERS:
        raise ViewError(f"A view cannot read {name!r}: use {', '.join(DECODERS)}")
    return DECODERS[name]
