"""What a user asked for when a table was named: topics, the moment, the formats. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from moldau.model.names import TopicPartition
from moldau.tables.table_faults import TableError

if TYPE_CHECKING:
    from moldau.tables.value_formats import ValueFormat

Moment = datetime | str | int | Mapping[Any, int]


@dataclass(frozen=True, slots=True)
class TableSpec:
    topics: tuple[str, ...]
    settings: Mapping[str, str]
    """Kafka's own, with `bootstrap.servers`."""
    time_ms: int | None = None
    """As of this time."""
    offsets: Mapping[TopicPartition, int] | None = None
    """As of these offsets: the first that is not there yet."""
    is_latest: bool = False
    key: ValueFormat | None = None
    value: ValueFormat | None = None

    @property
    def bootstrap(self) -> str:
        return self.settings["bootstrap.servers"]


def moment_of(
    given: Moment | None, topics: tuple[str, ...]
) -> tuple[int | None, Mapping[TopicPartition, int] | None]:
    """A time in milliseconds since 1970, or the offset where each partition ends."""
    if given is None:
        return None, None
    if isinstance(given, Mapping):
        return None, {_partition(place, topics): _offset(each) for place, each in given.items()}
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            raise TableError(
                f"as_of cannot be {given!r}: write a time like 2026-11-20T12:30:00+00:00"
            ) from None
    if isinstance(given, datetime):
        return round(given.timestamp() * 1000), None
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given, None
    hint = "a date has no hour" if isinstance(given, date) else "give a time or offsets"
    raise TableError(f"as_of cannot be {given!r}: {hint}")


def _partition(place: Any, topics: tuple[str, ...]) -> TopicPartition:
    if isinstance(place, tuple) and len(place) == 2:
        return TopicPartition(*place)
    if isinstance(place, int) and len(topics) == 1:
        return TopicPartition(topics[0], place)
    raise TableError(
        f"as_of cannot have {place!r}: its keys are partitions, or (topic, partition) where there"
        " are several topics"
    )


def _offset(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise TableError(f"as_of cannot have {given!r}: an offset is a whole number from 0 on")
    return given
