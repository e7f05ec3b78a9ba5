"""What a test asks of a foreign client, the same words for all of them.

Each client is wrapped once (`confluent.py`, `kafka_python.py`, `aio.py`, `program.py`) and every
test runs over all of them. A wrapper adds nothing of its own: what a test sees is what the client
library decoded. A refusal by the broker is raised as `Refused` with Kafka's error code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
REQUEST_BYTES_MAX = 4 * 1024 * 1024
"""Every client may send and fetch this much at once, so that a 1 MB record passes."""
SECONDS_MAX = 90
READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int
    partition: int = 0


class Received(NamedTuple):
    record: Record
    offset: int


class Partition(NamedTuple):
    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Refused(Exception):
    """The broker answered with an error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"error code {code}: {message}")
        self.code = code


class Client(Protocol):
    name: str
    writes_null_headers: bool
    """False where the library itself refuses a header without a value."""
    alters_incrementally: bool
    """False where the library has AlterConfigs only, which resets what it does not name."""
    checks_delete_offsets_itself: bool
    """True where the library never sends a DeleteRecords beyond the end of the log."""

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all"
    ) -> list[int]:
        """Offsets in the order of `records`; idempotent when acks is "all", -1s when it is "0"."""

    def consume(
        self, topic: str, counts: Mapping[int, int], *, isolation: str = READ_UNCOMMITTED
    ) -> list[Received]:
        """By assignment from the beginning: as many records of each partition as `counts` says."""

    def create_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> None: ...

    def topics(self) -> set[str]: ...

    def describe_topic(self, topic: str) -> list[Partition]: ...

    def configs(self, topic: str) -> dict[str, str | None]: ...

    def alter_configs(self, topic: str, changes: Mapping[str, str]) -> None: ...

    def create_partitions(self, topic: str, total: int) -> None: ...

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None: ...

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """Log start and log end."""

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The first offset whose timestamp is at or after this one."""

    def delete_topic(self, topic: str) -> None: ...

    def close(self) -> None: ...
