"""How a line becomes a record: `h1:v1,h2:v2<TAB>key<TAB>value`, or less of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

Headers = list[tuple[str, bytes | None]]


class UnreadableLine(Exception):
    """A separator is missing; says where."""


class LineReader:
    """The properties of Kafka's LineMessageReader."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def is_on(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        def separator(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        self.parses_key = is_on("parse.key")
        self.parses_headers = is_on("parse.headers")
        self.ignores_errors = is_on("ignore.error")
        self.key_separator = separator("key.separator", "\t")
        self.headers_delimiter = separator("headers.delimiter", "\t")
        self.headers_separator = separator("headers.separator", ",")
        self.header_separator = separator("headers.key.separator", ":")
        marker = properties.get("null.marker")
        self.null_marker = None if marker is None else marker.encode()
        self.line_number = 0

    @property
    def is_plain(self) -> bool:
        """Whether a line is a value and nothing else."""
        return not self.parses_key and not self.parses_headers and self.null_marker is None

    def read(self, line: bytes) -> tuple[Headers, bytes | None, bytes | None]:
        """Headers, key and value."""
        self.line_number += 1
        headers: Headers = []
        key: bytes | None = None
        rest = line
        if self.parses_headers:
            text, rest = self._cut(rest, self.headers_delimiter, "headers delimiter", line)
            if text is not None and text != self.null_marker:
                headers = [self._header(pair, line) for pair in text.split(self.headers_separator)]
        if self.parses_key:
            key, rest = self._cut(rest, self.key_separator, "key separator", line)
        return headers, self._or_null(key), self._or_null(rest)

    def _cut(
        self, text: bytes, separator: bytes, name: str, line: bytes
    ) -> tuple[bytes | None, bytes]:
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self.ignores_errors:
            return None, text
        shown = line.decode("utf-8", "replace")
        raise UnreadableLine(f"No {name} found on line number {self.line_number}: '{shown}'")

    def _header(self, pair: bytes, line: bytes) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(self.header_separator)
        if not found and not self.ignores_errors:
            shown = pair.decode("utf-8", "replace")
            raise UnreadableLine(
                f"No header key separator found in pair '{shown}' on line number {self.line_number}"
            )
        if name == self.null_marker:
            raise UnreadableLine(
                "Header keys should not be equal to the null marker"
                f" '{name.decode('utf-8', 'replace')}' as they can't be null"
            )
        return name.decode("utf-8", "replace"), self._or_null(value) if found else None

    def _or_null(self, content: bytes | None) -> bytes | None:
        return None if content is not None and content == self.null_marker else content
