"""Topics as tables: for Arrow, DuckDB, Polars, pandas and Spark, read where they are.

    orders = moldau.table("orders", bootstrap="127.0.0.1:9092")
    orders.to_duckdb().aggregate("partition, count(*)").show()

Nothing is read before something asks for rows; what a filter rules out is not fetched. pyarrow is
an extra (`pip install 'moldau[arrow]'`), DuckDB and Polars are another (`'moldau[sql]'`); each is
loaded when first used.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from moldau.tables.avro_format import Avro as Avro
    from moldau.tables.protobuf_format import Protobuf as Protobuf
    from moldau.tables.table_faults import TableError as TableError
    from moldau.tables.topic_table import TopicTable as TopicTable
    from moldau.tables.topic_table import table as table
    from moldau.tables.value_formats import Json as Json
    from moldau.tables.value_formats import Number as Number
    from moldau.tables.value_formats import Text as Text

__all__ = ["Avro", "Json", "Number", "Protobuf", "TableError", "Text", "TopicTable", "table"]

_HOMES = {
    "moldau.tables.avro_format": ("Avro",),
    "moldau.tables.protobuf_format": ("Protobuf",),
    "moldau.tables.table_faults": ("TableError",),
    "moldau.tables.topic_table": ("TopicTable", "table"),
    "moldau.tables.value_formats": ("Json", "Number", "Text"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(home), name)
            return found
    raise AttributeError(f"module 'moldau.tables' has no attribute {name!r}")
