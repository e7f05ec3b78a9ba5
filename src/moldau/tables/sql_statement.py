"""A statement of SQL and the tables it names, by DuckDB's own parser.

`orders AT (TIMESTAMP => …)` and `AT (VERSION => …)` are DuckDB's words for a moment, which it
leaves to whoever has the tables. Each table that is named is given to `resolve`, which answers
with the name of what is to be read in its place. Names that the statement itself gives to queries
(`with paid as …`) are left alone where they hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.tables.table_faults import TableError

if TYPE_CHECKING:
    import duckdb


class Named(NamedTuple):
    """A table as the statement names it: the parts of the name and the moment."""

    path: tuple[str, ...]
    unit: str = ""
    """TIMESTAMP or VERSION, empty without a moment."""
    moment: Any = None

    @property
    def text(self) -> str:
        return ".".join(self.path)


Resolve = Callable[[Named], str | None]
"""None leaves the name as it is."""


def resolved(connection: duckdb.DuckDBPyConnection, text: str, resolve: Resolve) -> str:
    """The statement with other names in it."""
    tree = _parsed(connection, text)
    if len(tree["statements"]) != 1:
        raise TableError("One statement at a time: leave out what follows the semicolon")
    _Walk(connection, resolve).query(tree["statements"][0]["node"], frozenset())
    found = connection.execute("select json_deserialize_sql(?::json)", [json.dumps(tree)])
    return str(_only(found))


def _parsed(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    found = connection.execute("select json_serialize_sql(?::varchar)", [text])
    tree: dict[str, Any] = json.loads(_only(found))
    if not tree["error"]:
        return tree
    reason = str(tree["error_message"]).partition("\n")[0]
    if "Only SELECT" in reason:
        raise TableError("Only questions can be asked: begin with select, from, with or describe")
    raise TableError(f"The statement cannot be read: {reason}")


def _only(found: Any) -> Any:
    return found.fetchall()[0][0]


class _Walk:
    def __init__(self, connection: duckdb.DuckDBPyConnection, resolve: Resolve) -> None:
        self._connection = connection
        self._resolve = resolve

    def query(self, node: Any, own: frozenset[str]) -> None:
        """Anything in the tree; `own` are names that the statement has given."""
        if isinstance(node, list):
            for each in node:
                self.query(each, own)
            return
        if not isinstance(node, dict):
            return
        if node.get("type") == "BASE_TABLE":
            self._table(node, own)
            return
        cte = node.get("cte_map")
        if isinstance(cte, dict):
            for entry in cte.get("map", ()):
                # A query may use the names of those before it.
                name = entry["key"].lower()
                is_recursive = entry["value"]["query_node"]["type"] == "RECURSIVE_CTE_NODE"
                self.query(entry["value"], own | {name} if is_recursive else own)
                own |= {name}
        for field, each in node.items():
            if field != "cte_map":
                self.query(each, own)

    def _table(self, node: dict[str, Any], own: frozenset[str]) -> None:
        path = tuple(node["qualified_name"]["path"])
        if len(path) == 1 and path[0].lower() in own:
            return
        at = node.get("at_clause")
        unit = "" if at is None else str(at["unit"])
        moment = None if at is None else self._value(at["expr"])
        name = self._resolve(Named(path, unit, moment))
        if name is None:
            return
        node["alias"] = node["alias"] or path[-1]
        node["at_clause"] = None
        node["catalog_name"] = node["schema_name"] = ""
        node["table_name"] = name
        node["qualified_name"] = {"path": [name]}

    def _value(self, expression: Any) -> Any:
        """What the words after => come to."""
        tree = _parsed(self._connection, "select 1")
        tree["statements"][0]["node"]["select_list"] = [expression]
        text = self._connection.execute("select json_deserialize_sql(?::json)", [json.dumps(tree)])
        return _only(self._connection.execute(str(_only(text))))
