"""SQL over a cluster: DuckDB in this process, with a table for every topic.

A name is looked for among the topics first, then among the tables that the cluster tells of itself;
`cluster.lag` and `latest.customers` say which is meant. A name with dots may be that of a topic.
What names a file is left to DuckDB. A topic is read by its filter and its columns only.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import closing
from datetime import date, datetime
from datetime import time as day_time
from typing import TYPE_CHECKING, Any

from moldau.client.admin.blocking_admin import Admin
from moldau.client.shared.client_errors import KafkaError
from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.config.setting_definition import suggestion
from moldau.tables.cluster_tables import KINDS, cluster_table
from moldau.tables.sql_statement import Named, resolved
from moldau.tables.table_faults import TableError, load
from moldau.tables.table_spec import Moment
from moldau.tables.topic_table import TopicTable, table
from moldau.tables.value_formats import ValueFormat

if TYPE_CHECKING:
    import pyarrow

CLUSTER, LATEST = "cluster", "latest"
ROWS_PER_BATCH = 1 << 16
_OWN_WORDS = re.compile(r"TableError: (.*)", re.DOTALL)
_KIND = re.compile(r"^[A-Z][A-Za-z ]+ (?:Error|Exception): ")
_FILE = re.compile(r"[/\\*?]|\.(csv|parquet|json|jsonl|ndjson)(\.gz|\.zst)?$", re.IGNORECASE)


class SqlSession:
    def __init__(
        self, settings: Mapping[str, str], formats: Mapping[str, ValueFormat] | None = None
    ) -> None:
        """`settings`: Kafka's own, with `bootstrap.servers`. `formats`: of values, by topic."""
        self._duckdb = load("duckdb", "sql")
        self._settings = dict(settings)
        self._formats = dict(formats or {})
        self._connection = self._duckdb.connect()
        # A name must never mean a variable of this program.
        self._connection.execute("set python_enable_replacements = false")
        self._registered: list[str] = []

    def close(self) -> None:
        self._connection.close()

    def ask(self, text: str) -> pyarrow.RecordBatchReader:
        """The answer, as it is made; it ends with the next question. Raises TableError, here and
        while it is read."""
        for name in self._registered:
            self._connection.unregister(name)
        self._registered = []
        known = {name: each for name, each in self._settings.items() if name in AdminConfig.rows}
        with closing(Admin({**known, "client.id": "moldau-sql"})) as admin:
            names = _Names(self, admin)
            try:
                statement = resolved(self._connection, text, names.find)
                reader = self._connection.sql(statement).to_arrow_reader(ROWS_PER_BATCH)
            except (self._duckdb.Error, KafkaError) as fault:
                raise told(fault) from None
        return self._told_while_read(reader)

    def _told_while_read(self, reader: Any) -> pyarrow.RecordBatchReader:
        pa = load("pyarrow", "arrow")

        def batches() -> Any:
            try:
                yield from reader
            except (self._duckdb.Error, pa.ArrowException, OSError) as fault:
                raise told(fault) from None

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def register(self, source: Any) -> str:
        name = f"moldau_table_{len(self._registered)}"
        self._connection.register(name, source)
        self._registered.append(name)
        return name

    def topic(self, name: str, moment: Moment | None, is_latest: bool) -> TopicTable:
        settings = {k: each for k, each in self._settings.items() if k != "bootstrap.servers"}
        return table(
            name,
            bootstrap=self._settings["bootstrap.servers"],
            as_of=moment,
            latest=is_latest,
            value=self._formats.get(name),
            settings=settings,
        )


class _Names:
    """What names mean, for one statement."""

    def __init__(self, session: SqlSession, admin: Admin) -> None:
        self._session = session
        self._admin = admin
        self._topics: frozenset[str] | None = None
        self._known: dict[str, str] = {}
        """What was registered, so that a table that is named twice is one."""

    def find(self, named: Named) -> str | None:
        known = self._known.get(repr(named))
        if known is None:
            source = self._source(named)
            if source is None:
                return None
            known = self._known[repr(named)] = self._session.register(source)
        return known

    def _source(self, named: Named) -> Any:
        topics = self._topic_names()
        whole, first, rest = named.text, named.path[0].lower(), ".".join(named.path[1:])
        if whole in topics:
            return self._session.topic(whole, _moment(named), False).dataset()
        if first == LATEST and rest in topics:
            return self._session.topic(rest, _moment(named), True).dataset()
        own = rest if first == CLUSTER else whole
        if own.lower() in KINDS:
            if named.unit:
                raise TableError(f"{own} is as of now only: leave AT out")
            return cluster_table(self._admin, own.lower())
        if _FILE.search(whole) or os.path.exists(whole) or first in ("information_schema", "main"):
            return None
        near = suggestion(rest if first == LATEST else whole, dict.fromkeys(topics, 0))
        bootstrap = self._session._settings["bootstrap.servers"]
        tables = ", ".join(KINDS)
        raise TableError(
            f"There is no topic {whole} at {bootstrap}{near or ', and no table of that name'}"
            + ("" if near else f": the cluster's own are {tables}")
        )

    def _topic_names(self) -> frozenset[str]:
        if self._topics is None:
            self._topics = frozenset(self._admin.list_topics(include_internal=True))
        return self._topics


def _moment(named: Named) -> Moment | None:
    given = named.moment
    if not named.unit:
        return None
    if named.unit.upper() == "TIMESTAMP":
        if isinstance(given, datetime | str):
            return given
        if isinstance(given, date):
            return datetime.combine(given, day_time())
        raise TableError(f"{named.text} cannot be as of {given!r}: write a time after TIMESTAMP =>")
    try:
        offsets = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        offsets = None
    if isinstance(offsets, int) and not isinstance(offsets, bool):
        return {0: offsets}
    if isinstance(offsets, dict) and all(str(each).isdecimal() for each in offsets):
        return {int(partition): offset for partition, offset in offsets.items()}
    raise TableError(
        f"{named.text} cannot be as of {given!r}: write offsets after VERSION => as"
        """ '{"0": 120, "1": 98}'"""
    )


def told(fault: Exception) -> TableError:
    """One sentence; our own words come back inside of DuckDB's."""
    text = str(fault)
    own = _OWN_WORDS.search(text)
    if own is not None:
        return TableError(own[1].partition("\n")[0].partition(". Detail: ")[0].strip())
    line = _KIND.sub("", text.partition("\n")[0]).strip()
    hint = re.search(r"Candidate bindings: (.*)", text)
    return TableError(f"{line} (columns: {hint[1].strip()})" if hint else line)
