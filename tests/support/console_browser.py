"""A console as its own process, and a small browser for it: cookies, forms, streams."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

START_SECONDS_MAX = 60
ADDRESS = re.compile(r"is at (https?://\S+?)/?$")
TOKEN = re.compile(r'name="token" value="([^"]+)"')


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Console:
    def __init__(self, address: str, pid: int) -> None:
        self.address = address
        self._pid = pid
        self._cookie = ""

    @property
    def descriptors(self) -> int:
        """How many files and connections the process has open."""
        return len(list(Path(f"/proc/{self._pid}/fd").iterdir()))

    def get(self, path: str, **query: Any) -> Answer:
        return self._ask("GET", path + (f"?{urlencode(query)}" if query else ""))

    def post(
        self,
        path: str,
        fields: Mapping[str, str],
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """As a form of the console, with the token of a page; `token` is another one, `headers`
        take the place of a browser's own."""
        if token is None:
            found = TOKEN.search(self.get(path).text) or TOKEN.search(self.get("/new-topic").text)
            token = "" if found is None else found[1]
        return self._ask("POST", path, urlencode({**fields, "token": token}), headers)

    def _ask(
        self,
        method: str,
        path: str,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        connection, answer = self._open(method, path, body, headers)
        with connection_closed(connection):
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def _open(
        self,
        method: str,
        path: str,
        body: str | None = None,
        more: Mapping[str, str] | None = None,
    ) -> tuple[HTTPConnection, HTTPResponse]:
        place = urlsplit(self.address)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
        headers = {"Cookie": self._cookie} if self._cookie else {}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, body, {**headers, **(more or {})})
        answer = connection.getresponse()
        cookie = answer.getheader("set-cookie")
        if cookie is not None:
            self._cookie = cookie.partition(";")[0]
        return connection, answer

    def events(self, path: str, **query: Any) -> Iterator[tuple[str, str, Any]]:
        """Kind, id and data of each event of a stream; whoever stops early closes it."""
        connection, answer = self._open("GET", f"{path}?{urlencode(query)}")
        assert answer.status == 200, answer.read()
        with connection_closed(connection):
            kind = id = ""
            for line in iter(answer.readline, b""):
                name, _, word = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = word
                elif name == "id":
                    id = word
                elif name == "data":
                    yield kind, id, json.loads(word)
                    kind = id = ""


@contextmanager
def connection_closed(connection: HTTPConnection) -> Iterator[None]:
    try:
        yield
    finally:
        connection.close()


@contextmanager
def console_process(bootstrap: str, directory: Path, *flags: str) -> Iterator[Console]:
    command = [
        *(sys.executable, "-m", "moldau.main", "console", "--bootstrap-server", bootstrap),
        *("--port", "0", "--audit-file", str(directory / "audit.jsonl"), *flags),
    ]
    errors = (directory / "console-errors.txt").open("w+")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = ADDRESS.search(line.strip())
        errors.seek(0)
        assert found is not None, f"{line!r} {errors.read()}"
        yield Console(found[1], process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=START_SECONDS_MAX)
        errors.close()
