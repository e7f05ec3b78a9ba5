"""What a filter leaves to be fetched: the offsets of each partition, and the least time.

The filter is an expression of Arrow, which DuckDB and Polars make too, and only Arrow knows what
is in it. So Arrow is asked: may anything that is known to have these topics, partitions, offsets
and times pass? It answers as it does for the files of a dataset. The edges are found by halving.
What the filter says beyond that is looked at once the records are there. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.model.names import TopicPartition
from moldau.tables.table_faults import load

Range = tuple[int, int]
TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999."""


class PushedFilter:
    def __init__(self, expression: Any, schema: Any) -> None:
        self._pa = load("pyarrow", "arrow")
        self._ds = load("pyarrow.dataset", "arrow")
        fs = load("pyarrow.fs", "arrow")
        self._expression = expression
        self._schema = schema
        self._text = str(expression)
        self._format = self._ds.IpcFileFormat()
        self._nowhere = fs.LocalFileSystem()

    def columns(self) -> set[str]:
        """Those it looks at, and perhaps a few more."""
        return {name for name in self._schema.names if name in self._text}

    def ranges(self, whole: Mapping[TopicPartition, Range]) -> dict[TopicPartition, Range]:
        """Of each partition's offsets those that may pass; a partition that cannot is left out."""
        places = list(whole)
        may_pass = self._may_pass([self._place(tp) for tp in places])
        found = {tp: whole[tp] for index, tp in enumerate(places) if index in may_pass}
        if "offset" not in self._text:
            return found
        field = self._ds.field("offset")
        firsts = self._least(
            found, lambda tp, edge: self._place(tp) & (field >= found[tp][0]) & (field <= edge)
        )
        found = {tp: (firsts[tp], end) for tp, (_, end) in found.items() if firsts[tp] < end}
        mirrored = {tp: (0, end - first) for tp, (first, end) in found.items()}
        lasts = self._least(
            mirrored,
            lambda tp, edge: (
                self._place(tp) & (field >= found[tp][1] - 1 - edge) & (field < found[tp][1])
            ),
        )
        return {tp: (first, end - lasts[tp]) for tp, (first, end) in found.items()}

    def time_first_ms(self) -> int | None:
        """No record before the first that is not older than this can pass."""
        if "timestamp" not in self._text:
            return None
        kind = self._schema.field("timestamp").type
        field = self._ds.field("timestamp")
        only = TopicPartition("", 0)
        whole = {only: (0, TIME_MS_MAX)}
        found = self._least(whole, lambda _, edge: field <= self._pa.scalar(edge, kind))[only]
        return found or None

    def _place(self, tp: TopicPartition) -> Any:
        field = self._ds.field
        return (field("topic") == tp.topic) & (field("partition") == tp.partition)

    def _least(
        self,
        whole: Mapping[TopicPartition, Range],
        up_to: Callable[[TopicPartition, int], Any],
    ) -> dict[TopicPartition, int]:
        """For each the least edge with which something may pass; its end if nothing ever does."""
        low = {tp: first for tp, (first, _) in whole.items()}
        high = {tp: end for tp, (_, end) in whole.items()}
        while open_ones := [tp for tp in whole if low[tp] < high[tp]]:
            middles = {tp: (low[tp] + high[tp]) // 2 for tp in open_ones}
            may_pass = self._may_pass([up_to(tp, middles[tp]) for tp in open_ones])
            for index, tp in enumerate(open_ones):
                if index in may_pass:
                    high[tp] = middles[tp]
                else:
                    low[tp] = middles[tp] + 1
        return low

    def _may_pass(self, known: Sequence[Any]) -> set[int]:
        """Which of these descriptions leave the filter a chance. No file is ever looked for."""
        if not known:
            return set()
        fragments = [
            self._format.make_fragment(str(index), self._nowhere, partition_expression=each)
            for index, each in enumerate(known)
        ]
        asked = self._ds.FileSystemDataset(fragments, self._schema, self._format, self._nowhere)
        return {int(each.path) for each in asked.get_fragments(filter=self._expression)}
