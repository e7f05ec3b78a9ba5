"""`moldau.table`: a relation over topics that reads when it is asked for rows.

Every way out of it, Arrow, DuckDB, Polars, pandas, begins at `scanned`: plan, fetch, decode, fold
to the latest values if that is wanted, type, filter. So all of them see the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moldau.client.shared.client_errors import KafkaError
from moldau.pipelines.source.source_client import SourceClient
from moldau.pipelines.source.source_options import SourceError
from moldau.tables.kafka_columns import kafka_schema
from moldau.tables.latest_state import latest
from moldau.tables.pushed_bounds import PushedFilter
from moldau.tables.range_scan import scan
from moldau.tables.scan_plan import ScanPlan, source_options, told
from moldau.tables.table_faults import TableError, load
from moldau.tables.table_spec import Moment, TableSpec, moment_of
from moldau.tables.typed_columns import TypedColumns
from moldau.tables.value_formats import ValueFormat

if TYPE_CHECKING:
    import duckdb
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow

STATE_COLUMNS = ("topic", "partition", "offset", "key", "value")
"""What the latest value of a key is decided by."""


def table(
    topics: str | Iterable[str],
    *,
    bootstrap: str,
    as_of: Moment | None = None,
    latest: bool = False,
    key: ValueFormat | None = None,
    value: ValueFormat | None = None,
    settings: Mapping[str, Any] | None = None,
) -> TopicTable:
    """One topic, or several, as a table.

    `as_of`: the moment, a time or the offset at which each partition ends. `latest`: the last
    value of each key, for compacted topics. `key` and `value`: their formats, where bytes are not
    enough. `settings`: Kafka's own, for instance for TLS."""
    names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    if not all(names) or not names:
        raise TableError("A table needs the name of a topic")
    given = {name: str(each) for name, each in (settings or {}).items()}
    time_ms, offsets = moment_of(as_of, names)
    spec = TableSpec(
        topics=names,
        settings={**given, "bootstrap.servers": bootstrap},
        time_ms=time_ms,
        offsets=offsets,
        is_latest=latest,
        key=key,
        value=value,
    )
    try:
        source_options(spec)
    except SourceError as fault:
        raise told(fault) from None
    return TopicTable(spec, TypedColumns(kafka_schema(), key, value))


class TopicTable:
    """A lazy relation: it reads when it is asked for rows, and anew each time."""

    def __init__(
        self,
        spec: TableSpec,
        typed: TypedColumns,
        columns: tuple[str, ...] | None = None,
        expression: Any = None,
    ) -> None:
        self._spec = spec
        self._typed = typed
        self._columns = columns
        self._filter = expression

    @property
    def schema(self) -> pyarrow.Schema:
        whole = self._typed.schema
        if self._columns is None:
            return whole
        return load("pyarrow", "arrow").schema([whole.field(name) for name in self._columns])

    def __repr__(self) -> str:
        return f"TopicTable({', '.join(self._spec.topics)} at {self._spec.bootstrap})"

    def select(self, *columns: str) -> TopicTable:
        """These columns only; what is not needed is not decoded."""
        for name in columns:
            if name not in self._typed.schema.names:
                known = ", ".join(self._typed.schema.names)
                raise TableError(f"There is no column {name}: the columns are {known}")
        return TopicTable(self._spec, self._typed, columns, self._filter)

    def filter(self, expression: pyarrow.compute.Expression) -> TopicTable:
        """The rows for which an expression of Arrow holds, as well as those before. What it says
        of topic, partition, offset and time is looked up, and the rest is never fetched."""
        both = expression if self._filter is None else self._filter & expression
        return TopicTable(self._spec, self._typed, self._columns, both)

    def as_of(self, moment: Moment) -> TopicTable:
        """The same as of another moment."""
        time_ms, offsets = moment_of(moment, self._spec.topics)
        spec = replace(self._spec, time_ms=time_ms, offsets=offsets)
        return TopicTable(spec, self._typed, self._columns, self._filter)

    def offsets(self) -> dict[tuple[str, int], int]:
        """Where each partition ends, as of the table's moment. Given as `as_of`, it is the same
        table for as long as the records are there."""
        with closing(SourceClient(source_options(self._spec))) as client:
            whole = _told(lambda: ScanPlan(self._spec, client).whole())
        return {(tp.topic, tp.partition): end for tp, (_, end) in whole.items()}

    # The ways out.

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """Record batches as they are read, with no more of them in memory than a few."""
        yield from self.reader()

    def reader(self) -> pyarrow.RecordBatchReader:
        """The same for whoever reads streams of Arrow."""
        return self.scanner().to_reader()

    def arrow(self) -> pyarrow.Table:
        pa = load("pyarrow", "arrow")
        return pa.Table.from_batches(list(self.reader()), self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        load("pandas", "sql")
        return self.arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        frame: polars.DataFrame = load("polars", "sql").from_arrow(self.arrow())
        return frame

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyRelation:
        """A relation of DuckDB, which hands its filters and columns down."""
        made = load("duckdb", "sql")
        return (connection or made.connect()).from_arrow(self.dataset())

    def dataset(self) -> pyarrow.dataset.Dataset:
        """For `duckdb.register`, `polars.scan_pyarrow_dataset` and others that take datasets."""
        from moldau.tables.topic_dataset import TopicDataset

        return TopicDataset(self)

    def spark(self, session: Any) -> Any:
        """A DataFrame of Spark, whose tasks read the partitions; filters are handed down."""
        from moldau.tables.spark_tables import frame

        return frame(self._spec, self._typed, self._columns, self._filter, session)

    # What all of them do.

    def scanner(
        self, columns: Sequence[str] | Any = None, expression: Any = None
    ) -> pyarrow.dataset.Scanner:
        """With columns and a filter besides the table's own."""
        dataset = load("pyarrow.dataset", "arrow")
        both = expression
        if self._filter is not None:
            both = self._filter if expression is None else self._filter & expression
        if columns is None:
            columns = list(self.schema.names)
        return dataset.Scanner.from_batches(
            self.scanned(columns, both), columns=columns, filter=both
        )

    def scanned(self, columns: Sequence[str] | Any, expression: Any) -> pyarrow.RecordBatchReader:
        """All rows that may be wanted, and the columns that are needed to tell."""
        pa = load("pyarrow", "arrow")
        pushed = PushedFilter(expression, self._typed.schema) if expression is not None else None
        names = set(columns) if isinstance(columns, list | tuple) else set(self._typed.schema.names)
        names |= pushed.columns() if pushed is not None else set()
        typed = self._typed.only(names)
        raw_names = typed.raw_names | (set(STATE_COLUMNS) if self._spec.is_latest else set())
        raw = pa.schema([field for field in kafka_schema() if field.name in raw_names])
        options = source_options(self._spec)
        with closing(SourceClient(options)) as client:
            ranges = _told(lambda: ScanPlan(self._spec, client).ranges(pushed))
        batches = scan(options, ranges, raw)
        if self._spec.is_latest:
            batches = latest(batches, raw)
        return pa.RecordBatchReader.from_batches(typed.schema, map(typed.convert, batches))


def _told(ask: Any) -> Any:
    try:
        return ask()
    except (SourceError, KafkaError) as fault:
        raise told(fault) from None
