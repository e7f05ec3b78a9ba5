"""What an application gives: its functions, its topics, and how often it wants full snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from moldau.client.consumer.consumer_records import ConsumerRecord
from moldau.client.shared.interceptors import ProducerRecord

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Application(Generic[S]):
    """The application as functions. They are called in one thread per partition.

    `apply(state, record)` changes the state and returns the records to write. It must give the
    same for the same state and record, and do nothing else: it is called again when a state is
    rebuilt, and then what it returns is dropped. `initial()` makes an empty state; `dump(state)`
    and `load(bytes)` turn one into bytes and back. `load` may raise ValueError for bytes that it
    does not know, for instance of an older version: then the state is rebuilt without them."""

    initial: Callable[[], S]
    apply: Callable[[S, ConsumerRecord], Iterable[ProducerRecord]]
    dump: Callable[[S], bytes]
    load: Callable[[bytes], S]
    wants_full: Callable[[ConsumerRecord], bool] | None = None
    """Whether a record is the command to take a full snapshot. It is applied as all others are."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The input, and where the two kinds of snapshots go: topics with at least as many partitions.

    Left out, they are called after the input, with `-increments` and `-fulls` at the end."""

    input: str
    increments: str = ""
    fulls: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "increments", self.increments or f"{self.input}-increments")
        object.__setattr__(self, "fulls", self.fulls or f"{self.input}-fulls")
        if len({self.input, self.increments, self.fulls}) < 3:
            raise ValueError(f"input, increments and fulls must be three topics, are {self}")


@dataclass(frozen=True, slots=True)
class FullSnapshots:
    """When a full snapshot is taken by itself: after so many records, or so many seconds in which
    there was at least one. One is also taken before a stop, and on a command."""

    records: int = 10_000
    seconds: float = 300.0

    def __post_init__(self) -> None:
        if self.records < 1 or self.seconds <= 0:
            raise ValueError(f"records and seconds must be above 0, are {self}")
