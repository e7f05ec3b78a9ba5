"""What the bytes of keys, values and headers are for people.

Every decoder answers with a value that JSON can say, or says why it cannot read the bytes; then
the bytes are shown as hex. `auto` looks at the bytes: what has a schema's number is asked of the
registry, JSON is JSON, text is text, and anything else is hex.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from moldau.client.consumer.consumer_records import ConsumerRecord
from moldau.client.serialization.coordinator_records import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    Kinds,
    UnknownKind,
    as_json,
    read_record,
    value_json,
)
from moldau.console.records.filter_matching import MISSING
from moldau.console.records.registry_values import RegistryValues, UnreadableError
from moldau.wire.primitives import DecodeError

AUTO = "auto"
REGISTRY = "registry"
HEX = "hex"
COORDINATOR_TOPICS: dict[str, Kinds] = {
    "__consumer_offsets": GROUP_RECORDS,
    "__transaction_state": TRANSACTION_RECORDS,
}
_NUMBERS = {
    "int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "float32": ">f", "float64": ">d",
}  # fmt: skip
DECODERS = (AUTO, "text", "json", REGISTRY, *_NUMBERS, HEX)
NAMES = {
    AUTO: "automatic",
    "text": "text",
    "json": "JSON",
    REGISTRY: "Avro or Protobuf by the registry",
    HEX: "hex",
    **{name: name for name in _NUMBERS},
}
HEX_ROW = 16
LINE_CHARACTERS_MAX = 140


class Opening(NamedTuple):
    """A content that was read: what it is, and its value as JSON has it."""

    kind: str
    value: Any
    fault: str = ""
    """Why it is shown as hex although something else was asked for."""

    def text(self, *, is_listed: bool = False) -> str:
        """In lists what fits into a line stands in one."""
        if self.value is None and self.kind == "null":
            return ""
        if isinstance(self.value, str):
            return self.value
        if is_listed:
            line = json.dumps(self.value, ensure_ascii=False, default=_json_word)
            if len(line) <= LINE_CHARACTERS_MAX:
                return line
        return json.dumps(self.value, indent=2, ensure_ascii=False, default=_json_word)


class Shown(NamedTuple):
    """As `Opening`, cut to a size."""

    kind: str
    text: str
    size_bytes: int
    is_cut: bool
    fault: str = ""


class Decoders:
    def __init__(self, registry_address: str = "") -> None:
        self._registry = RegistryValues(registry_address) if registry_address else None
        self.has_registry = self._registry is not None

    def open(self, record: ConsumerRecord, choice: str, *, is_key: bool) -> Opening:
        """May ask the registry, and waits for it."""
        content = record.key if is_key else record.value
        if content is None:
            return Opening("null", None)
        if choice == AUTO and record.topic in COORDINATOR_TOPICS:
            return _coordinator(record, is_key)
        return self._open(content, choice)

    def _open(self, content: bytes, choice: str) -> Opening:
        try:
            if choice == REGISTRY or (choice == AUTO and self._registry and content[:1] == b"\0"):
                if self._registry is None:
                    raise UnreadableError("the console was started without --schema-registry")
                return Opening(*self._registry.read(content))
            if choice in (AUTO, HEX):
                return _by_look(content) if choice == AUTO else Opening(HEX, hex_text(content))
            return _PLAIN[choice](content)
        except UnreadableError as fault:
            return Opening(HEX, hex_text(content), str(fault))

    def show(
        self, record: ConsumerRecord, choice: str, is_key: bool, limit: int, *, is_listed: bool
    ) -> Shown:
        content = record.key if is_key else record.value
        size_bytes = len(content) if content is not None else 0
        if content is not None and choice in (AUTO, HEX, "text") and size_bytes > 4 * limit:
            # No need to look at what nobody sees: a long value is cut before it is read.
            return self._show_start(record, choice, content, limit)
        opened = self.open(record, choice, is_key=is_key)
        text = opened.text(is_listed=is_listed)
        return Shown(opened.kind, text[:limit], size_bytes, len(text) > limit, opened.fault)

    def _show_start(self, record: ConsumerRecord, choice: str, content: bytes, limit: int) -> Shown:
        start = content[: 4 * limit]
        text = _text(start)
        if choice != HEX and text is not None:
            return Shown("text", text[:limit], len(content), True)
        rows = limit // 4 // HEX_ROW * HEX_ROW
        return Shown(HEX, hex_text(content[: max(rows, HEX_ROW)]), len(content), True)

    def opened_by(self, topic: str, key_choice: str, value_choice: str) -> OpenedContents | None:
        """For filters; None where all that is shown is the stored bytes."""
        plain = ("text", "json", *(() if self.has_registry else (AUTO,)))
        if topic not in COORDINATOR_TOPICS and key_choice in plain and value_choice in plain:
            return None
        return OpenedContents(self, key_choice, value_choice)


class OpenedContents:
    """What filters see of records whose bytes say something else than they show."""

    def __init__(self, decoders: Decoders, key_choice: str, value_choice: str) -> None:
        self._decoders = decoders
        self._choices = {True: key_choice, False: value_choice}
        self.unreadable = 0
        self.fault = ""
        """Of the first that could not be read."""

    def __call__(self, record: ConsumerRecord, is_key: bool) -> Any:
        choice = self._choices[is_key]
        opening = self._decoders.open(record, choice, is_key=is_key)
        if opening.fault:
            self.unreadable += 1
            self.fault = self.fault or opening.fault
        is_hex = opening.kind == HEX and choice != HEX
        return MISSING if is_hex or opening.kind in ("null", "text", "JSON") else opening.value


def _coordinator(record: ConsumerRecord, is_key: bool) -> Opening:
    content = record.key if is_key else record.value
    assert content is not None, "nulls were shown before"
    try:
        if record.key is None:
            raise DecodeError("the key is missing")
        read = read_record(COORDINATOR_TOPICS[record.topic], record.key, record.value)
        if is_key:
            return Opening("coordinator", as_json(read.key, read.kind))
        return Opening("coordinator", value_json(read))
    except UnknownKind as fault:
        return Opening(HEX, hex_text(content), f"records of kind {fault.args[0]} are not known")
    except DecodeError as fault:
        return Opening(HEX, hex_text(content), str(fault))


def _by_look(content: bytes) -> Opening:
    text = _text(content)
    if text is None:
        return Opening(HEX, hex_text(content))
    if text[:1] in "{[" and text.strip()[:1]:
        try:
            return Opening("JSON", json.loads(text))
        except (ValueError, RecursionError):
            pass
    return Opening("text", text)


def _text(content: bytes) -> str | None:
    """None if it is none, or has bytes that no text has. A letter may be cut off at the end."""
    try:
        text = content.decode()
    except UnicodeDecodeError as fault:
        if fault.start < len(content) - 3 or fault.reason != "unexpected end of data":
            return None
        text = content[: fault.start].decode()
    return None if any(letter < " " and letter not in "\t\n\r" for letter in text) else text


def _as_text(content: bytes) -> Opening:
    return Opening("text", content.decode(errors="backslashreplace"))


def _as_json(content: bytes) -> Opening:
    try:
        return Opening("JSON", json.loads(content.decode()))
    except (ValueError, RecursionError) as fault:
        raise UnreadableError(f"it is no JSON: {fault}") from None


def _as_number(name: str) -> Callable[[bytes], Opening]:
    code = struct.Struct(_NUMBERS[name])

    def read(content: bytes) -> Opening:
        if len(content) != code.size:
            raise UnreadableError(f"{name} has {code.size} bytes, and these are {len(content)}")
        return Opening(name, code.unpack(content)[0])

    return read


_PLAIN: dict[str, Callable[[bytes], Opening]] = {
    "text": _as_text,
    "json": _as_json,
    **{name: _as_number(name) for name in _NUMBERS},
}


def hex_text(content: bytes) -> str:
    """Rows of sixteen: where they start, the bytes, and the letters among them."""
    rows = []
    for start in range(0, len(content), HEX_ROW):
        row = content[start : start + HEX_ROW]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        rows.append(f"{start:06x}  {row.hex(' '):<{3 * HEX_ROW}} {letters}")
    return "\n".join(rows)


def _json_word(value: Any) -> str:
    """What Avro has and JSON has not."""
    return value.hex() if isinstance(value, bytes) else str(value)
