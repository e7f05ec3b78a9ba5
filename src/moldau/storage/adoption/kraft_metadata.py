"""What the metadata log of a KRaft broker, `__cluster_metadata-0`, says about its topics.

Read are its newest snapshot (`<offset>-<epoch>.checkpoint`) and the segments, whose records each
hold a frame version, a type, a version and a message (KIP-631): topics, their partitions and their
settings, and how far producer ids were given out. What else of the cluster is kept there is only
counted, so that it can be named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from moldau.model.names import TopicId
from moldau.records.batch import whole_headers
from moldau.records.batch_codec import Record, decode_batch
from moldau.storage.log_files import LOG_SUFFIX, read_whole

TOPIC_RESOURCE = 2
CHECKPOINT_SUFFIX = ".checkpoint"
CONFIGS_OF = {4: "settings of brokers", 16: "client metrics subscriptions", 32: "group settings"}


class Kind(IntEnum):
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    TOPIC_REMOVED = 9
    TOKEN = 10
    SCRAM_USER = 11
    QUOTA = 14
    PRODUCER_IDS = 15
    ACL = 18
    ACL_REMOVED = 19
    SCRAM_USER_REMOVED = 22


class KraftMetadata(NamedTuple):
    configs: Mapping[str, Mapping[str, str]]
    """Overrides by topic; also of topics that are gone since."""
    partition_counts: Mapping[TopicId, int]
    """Of topics that are there, on whichever brokers."""
    producer_id_next: int
    """All ids before it have been given to brokers, to hand them out."""
    others: Mapping[str, int]
    """How many there are of what is not about topics, by a name for people."""


def read_kraft_metadata(directory: str) -> KraftMetadata:
    names = sorted(os.listdir(directory))
    snapshots = [name for name in names if name.endswith(CHECKPOINT_SUFFIX)]
    found = _Found()
    for name in [*snapshots[-1:], *(name for name in names if name.endswith(LOG_SUFFIX))]:
        for record in _records(read_whole(os.path.join(directory, name)) or b""):
            found.apply(record.value or b"")
    counts = {topic: len(partitions) for topic, partitions in found.partitions.items()}
    others = {name: len(keys) for name, keys in sorted(found.others.items()) if keys}
    return KraftMetadata(found.configs, counts, found.producer_id_next, others)


def _records(content: bytes) -> Iterator[Record]:
    view = memoryview(content)
    for position, header in whole_headers(view):
        if not header.is_control:
            yield from decode_batch(view[position : position + header.size_bytes])


class _Found:
    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.partitions: dict[TopicId, set[int]] = {}
        self.producer_id_next = 0
        self.others: dict[str, set[object]] = {}

    def apply(self, value: bytes) -> None:
        frame = _Frame(value)
        frame.varint()
        kind = frame.varint()
        frame.varint()
        match kind:
            case Kind.TOPIC:
                frame.text()
                self.partitions.setdefault(TopicId(frame.take(16)), set())
            case Kind.PARTITION:
                number = int.from_bytes(frame.take(4))
                self.partitions.setdefault(TopicId(frame.take(16)), set()).add(number)
            case Kind.TOPIC_REMOVED:
                self.partitions.pop(TopicId(frame.take(16)), None)
            case Kind.CONFIG:
                self._config(frame)
            case Kind.ACL | Kind.ACL_REMOVED:
                self._other("ACLs", frame.take(16), kind == Kind.ACL)
            case Kind.SCRAM_USER | Kind.SCRAM_USER_REMOVED:
                key = (frame.text(), frame.byte())
                self._other("passwords of users (SCRAM)", key, kind == Kind.SCRAM_USER)
            case Kind.QUOTA:
                self._quota(frame)
            case Kind.PRODUCER_IDS:
                # To which broker, in which epoch of it, and where the next block begins.
                frame.take(4 + 8)
                self.producer_id_next = int.from_bytes(frame.take(8))
            case Kind.TOKEN:
                self._other("delegation tokens", value, True)

    def _config(self, frame: _Frame) -> None:
        resource, name, key, setting = frame.byte(), frame.text(), frame.text(), frame.text()
        if resource != TOPIC_RESOURCE:
            of = CONFIGS_OF.get(resource, f"settings of resource type {resource}")
            self._other(of, (name, key), setting is not None)
        elif name is not None and key is not None:
            if setting is None:
                self.configs.get(name, {}).pop(key, None)
            else:
                self.configs.setdefault(name, {})[key] = setting

    def _quota(self, frame: _Frame) -> None:
        entity = []
        for _ in range(frame.varint() - 1):
            entity.append((frame.text(), frame.text()))
            frame.varint()
        key = frame.text()
        frame.take(8)
        self._other("quotas", (tuple(entity), key), frame.byte() == 0)

    def _other(self, name: str, key: object, is_there: bool) -> None:
        keys = self.others.setdefault(name, set())
        if is_there:
            keys.add(key)
        else:
            keys.discard(key)


class _Frame:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, count: int) -> bytes:
        self._at += count
        return self._content[self._at - count : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

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
        return self.take(length).decode()
