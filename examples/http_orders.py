"""Orders by HTTP, each stored once however often it is sent: `http_orders [PORT] [FILE]`.

A client that hears no answer sends its order again, with the same Idempotency-Key; what it may not
get is two orders. The keys that were seen are in SQLite, which answers at once; the truth is in
Kafka, where each order has its key in a header. So a crash between the two leaves nothing open:
whoever starts first fences its predecessor, then reads what the topic has and the file has not.

    curl -H 'Idempotency-Key: 7' -d '3 apples' http://127.0.0.1:8000/orders
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from demo_cluster import BOOTSTRAP

from moldau import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from moldau.profiles import never_lose

TOPIC, KEY_HEADER, KEY_LENGTH_MAX, BODY_BYTES_MAX = "http-orders", "idempotency-key", 200, 100_000
PARTITION = TopicPartition(TOPIC, 0)
TABLES = """
CREATE TABLE IF NOT EXISTS seen (key TEXT PRIMARY KEY, offset INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS reached (id INTEGER PRIMARY KEY CHECK (id = 0), next INTEGER NOT NULL);
"""


class Orders:
    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._base = sqlite3.connect(path, check_same_thread=False)
        self._base.executescript(TABLES)
        self._producer: Producer | None = None
        self._begin()

    def take(self, key: str, body: bytes) -> tuple[int, int]:
        """A status and the order's offset: 201 if it is new, 200 if it was there."""
        with self._lock:
            if self._producer is None:
                self._begin()
            if (offset := self._offset_of(key)) is not None:
                return 200, offset
            try:
                offset = self._store(key, body)
            except KafkaError:
                # Stored or not? Nobody else may store now, so the topic will tell.
                self._begin()
                if (found := self._offset_of(key)) is None:
                    raise
                return 201, found
            with self._base:
                self._base.execute("INSERT INTO seen VALUES (?, ?)", (key, offset))
            return 201, offset

    def _begin(self) -> None:
        """Fence first, then look: an order that a predecessor stores in between would be missed."""
        if self._producer is not None:
            self._producer.close(0)
            self._producer = None
        settings = {**never_lose.producer, "transactional.id": "http-orders"}
        with ExitStack() as undo:
            producer = undo.enter_context(Producer(settings, bootstrap_servers=BOOTSTRAP))
            producer.init_transactions()
            self._catch_up()
            undo.pop_all()
        self._producer = producer

    def _catch_up(self) -> None:
        (position,) = self._base.execute("SELECT next FROM reached").fetchone() or (0,)
        with Consumer(never_lose.consumer, bootstrap_servers=BOOTSTRAP) as consumer:
            consumer.assign([PARTITION])
            consumer.seek(PARTITION, position)
            end = consumer.end_offsets([PARTITION])[PARTITION]
            while consumer.position(PARTITION) < end:
                records = consumer.poll(0.1)
                with self._base:
                    for record in records:
                        key = dict(record.headers)[KEY_HEADER].decode()
                        row = (key, record.offset)
                        self._base.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", row)
                    reached = (consumer.position(PARTITION),)
                    self._base.execute("REPLACE INTO reached VALUES (0, ?)", reached)

    def _store(self, key: str, body: bytes) -> int:
        assert self._producer is not None
        with self._producer.transaction():
            headers = [(KEY_HEADER, key.encode())]
            sent = self._producer.send(TOPIC, body, headers=headers, partition=0)
        if os.environ.get("DIE") == "after commit":  # For the test: the worst moment there is.
            os.kill(os.getpid(), signal.SIGKILL)
        return sent.result().offset

    def _offset_of(self, key: str) -> int | None:
        found = self._base.execute("SELECT offset FROM seen WHERE key = ?", (key,)).fetchone()
        return None if found is None else int(found[0])


def handler_of(orders: Orders) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_POST(self) -> None:
            key = self.headers.get("Idempotency-Key", "")
            length = int(self.headers.get("Content-Length", "0"))
            if not 0 < len(key) <= KEY_LENGTH_MAX or not 0 < length <= BODY_BYTES_MAX:
                self._answer(400, "an order needs a body and an Idempotency-Key\n")
                return
            try:
                status, offset = orders.take(key, self.rfile.read(length))
            except KafkaError as error:
                self._answer(503, f"send it again with the same key: {error}\n")
                return
            self._answer(status, f"order {offset}\n")

        def _answer(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def main(arguments: list[str]) -> int:
    port = int(arguments[0]) if arguments else 8000
    path = arguments[1] if len(arguments) > 1 else "orders.sqlite"
    with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        if TOPIC not in admin.list_topics():
            admin.create_topics([NewTopic(TOPIC, 1)])
    server = ThreadingHTTPServer(("127.0.0.1", port), handler_of(Orders(path)))
    print(f"http://127.0.0.1:{server.server_port}/orders", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
