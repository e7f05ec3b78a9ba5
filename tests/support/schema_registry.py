"""A schema registry over HTTP, as Confluent's answers: what the codec of Avro is tested with.

It keeps subjects and numbers in memory, gives a schema the same number under every subject, and
refuses what a test says it should. Every request is noted.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

Answer = tuple[int, dict[str, Any]]


class SchemaRegistry:
    def __init__(self) -> None:
        self.schemas: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.authorizations: set[str | None] = set()
        self.frozen: set[str] = set()
        """Subjects that take no other schema than they have."""
        self.busy = 0
        """How many requests are turned away before the next one is answered."""
        self.extra: dict[str, Any] = {}
        """What answers with a schema say beside it."""
        self.redirects: tuple[int, str] | None = None
        """The status and the place with which everything is answered."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *outcome: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, subject: str, schema: Any) -> int:
        return self._register(subject, schema if isinstance(schema, str) else json.dumps(schema))

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        self.requests.append(f"{method} {path}")
        if self.busy:
            self.busy -= 1
            return 503, {"error_code": 50301, "message": "not now"}
        plain = path.partition("?")[0]
        match [unquote(part) for part in plain.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                if not 1 <= int(number) <= len(self.schemas):
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, {"schema": self.schemas[int(number) - 1], **self.extra}
            case ["subjects", subject, "versions", "latest"] if method == "GET":
                if subject not in self.subjects:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                latest = self.subjects[subject][-1]
                text = self.schemas[latest - 1]
                version = len(self.subjects[subject])
                found = {"subject": subject, "version": version, "id": latest, "schema": text}
                return 200, {**found, **self.extra}
            case ["subjects", subject, "versions"] if method == "POST":
                if subject in self.frozen:
                    return 409, {"error_code": 409, "message": "incompatible\n with an earlier one"}
                return 200, {"id": self._register(subject, body["schema"])}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _register(self, subject: str, text: str) -> int:
        if text not in self.schemas:
            self.schemas.append(text)
        number = self.schemas.index(text) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.authorizations.add(self.headers["Authorization"])
                length = int(self.headers["Content-Length"] or 0)
                body = json.loads(self.rfile.read(length)) if length else {}
                if registry.redirects is None:
                    status, answer = registry.answer(self.command, self.path, body)
                else:
                    status, answer = registry.redirects[0], {}
                content = json.dumps(answer).encode()
                self.send_response(status)
                if registry.redirects is not None:
                    self.send_header("Location", registry.redirects[1])
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                """Tests look at `requests`."""

        return Handler
