"""Which offsets of which partitions a scan reads: the moment, less what the filter rules out.

The ends are looked up before the starts, so a scan is of one moment per partition, and ends. With
`read_committed`, the default, an end is before the first transaction that is still open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.client.shared.background_loop import run
from moldau.config.setting_definition import suggestion
from moldau.model.names import TopicPartition
from moldau.pipelines.source.source_client import SourceClient
from moldau.pipelines.source.source_offsets import OffsetRange
from moldau.pipelines.source.source_options import SourceOptions, parse_options
from moldau.pipelines.source.source_plan import ADVICE
from moldau.tables.pushed_bounds import PushedFilter
from moldau.tables.table_faults import TableError
from moldau.tables.table_spec import TableSpec

Offsets = Mapping[TopicPartition, int]


def source_options(spec: TableSpec) -> SourceOptions:
    options = {"kafka.isolation.level": "read_committed", "kafka.client.id": "moldau-table"}
    options |= {f"kafka.{name}": value for name, value in spec.settings.items()}
    return parse_options({**options, "subscribe": ",".join(spec.topics)}, is_stream=False)


def told(fault: Exception) -> TableError:
    """What the source of pipelines says of its options, in the words of a table."""
    text = str(fault).replace(f": {ADVICE}", ": ask again")
    text = text.replace("check kafka.bootstrap.servers", "check the address")
    return TableError(text.replace("The option kafka.", "The setting "))


class ScanPlan:
    def __init__(self, spec: TableSpec, client: SourceClient) -> None:
        self._spec = spec
        self._client = client

    def ranges(self, pushed: PushedFilter | None) -> list[OffsetRange]:
        whole = self.whole()
        if pushed is None:
            return _ranges(whole)
        found = pushed.ranges(whole)
        if self._spec.is_latest:
            # What comes later may take the place of what is in the range.
            found = {tp: (first, whole[tp][1]) for tp, (first, _) in found.items()}
        first_ms = pushed.time_first_ms()
        if first_ms is not None and found:
            # Before the first record that is not older all are older, in whatever order they are.
            starts = self._client.at_timestamps(dict.fromkeys(found, first_ms))
            found = {
                tp: (max(first, starts[tp]) if starts[tp] >= 0 else end, end)
                for tp, (first, end) in found.items()
            }
        return _ranges(found)

    def whole(self) -> dict[TopicPartition, tuple[int, int]]:
        """The first and the end of every partition, as of the moment."""
        partitions = self._partitions()
        ends = self._client.latest(partitions)
        starts = self._client.earliest(partitions)
        spec = self._spec
        if spec.offsets is not None:
            ends = self._given(spec.offsets, starts, ends)
        if spec.time_ms is not None:
            # To a broker negative numbers are not times.
            after_ms = max(spec.time_ms + 1, 0)
            later = self._client.at_timestamps(dict.fromkeys(partitions, after_ms))
            ends = {tp: min(end, later[tp]) if later[tp] >= 0 else end for tp, end in ends.items()}
        return {tp: (starts[tp], max(ends[tp], starts[tp])) for tp in sorted(partitions)}

    def _partitions(self) -> set[TopicPartition]:
        found = self._client.partitions(must_exist=False)
        known = {tp.topic for tp in found}
        for topic in self._spec.topics:
            if topic not in known:
                raise self._missing(topic)
        return found

    def _missing(self, topic: str) -> TableError:
        admin = self._client.admin
        listed: Any = run(admin.list_topics(include_internal=True), admin)
        near = suggestion(topic, dict.fromkeys(listed)) or "; create it, or correct it"
        return TableError(f"There is no topic {topic} at {self._spec.bootstrap}{near}")

    def _given(self, given: Offsets, starts: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
        for tp in given:
            if tp not in ends:
                raise TableError(f"as_of names {tp}, and there is no such partition: leave it out")
        for tp, end in ends.items():
            if tp not in given:
                raise TableError(
                    f"as_of has no offset for {tp}, which now ends at {end}: give one for every"
                    " partition"
                )
            if not starts[tp] <= given[tp] <= end:
                raise TableError(
                    f"as_of cannot be offset {given[tp]} of {tp}, which holds offsets"
                    f" {starts[tp]} to {end}: choose one of those"
                )
        return dict(given)


def _ranges(found: Mapping[TopicPartition, tuple[int, int]]) -> list[OffsetRange]:
    return [OffsetRange(tp, first, end) for tp, (first, end) in found.items() if first < end]
