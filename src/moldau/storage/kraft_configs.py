"""Topic settings out of the metadata log of a KRaft broker, `__cluster_metadata-0`.

Only that is read: its newest snapshot (`<offset>-<epoch>.checkpoint`) and the segments, whose
records each hold a frame version, a type, a version and a message (KIP-631).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from moldau.records.batch import whole_headers
from moldau.records.codec import Record, decode_batch
from moldau.storage.files import LOG_SUFFIX, read_whole

CONFIG_RECORD = 4
TOPIC_RESOURCE = 2
CHECKPOINT_SUFFIX = ".checkpoint"


def topic_configs(directory: str) -> dict[str, dict[str, str]]:
    """Overrides by topic; also of topics that are gone since."""
    names = sorted(os.listdir(directory))
    snapshots = [name for name in names if name.endswith(CHECKPOINT_SUFFIX)]
    configs: dict[str, dict[str, str]] = {}
    for name in [*snapshots[-1:], *(name for name in names if name.endswith(LOG_SUFFIX))]:
        for record in _records(read_whole(os.path.join(directory, name)) or b""):
            _apply(configs, record.value or b"")
    return configs


def _records(content: bytes) -> Iterator[Record]:
    view = memoryview(content)
    for position, header in whole_headers(view):
        if not header.is_control:
            yield from decode_batch(view[position : position + header.size_bytes])


def _apply(configs: dict[str, dict[str, str]], value: bytes) -> None:
    frame = _Frame(value)
    frame.varint()
    kind = frame.varint()
    frame.varint()
    if kind != CONFIG_RECORD or frame.byte() != TOPIC_RESOURCE:
        return
    topic, key, setting = frame.text(), frame.text(), frame.text()
    if topic is None or key is None:
        return
    if setting is None:
        configs.get(topic, {}).pop(key, None)
    else:
        configs.setdefault(topic, {})[key] = setting


class _Frame:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str | None:
        length = self.varint() - 1
        if length < 0:
            return None
        self._at += length
        return self._content[self._at - length : self._at].decode()
