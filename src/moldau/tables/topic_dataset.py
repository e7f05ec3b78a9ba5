"""A table as a dataset of Arrow: what DuckDB and Polars take, and hand filters and columns to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.dataset

if TYPE_CHECKING:
    from moldau.tables.topic_table import TopicTable


class TopicDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """Those who read datasets call `schema` and `scanner`, and nothing else of it."""

    def __init__(self, table: TopicTable) -> None:
        # Arrow's own constructor refuses; nothing of it is used here.
        self._table = table

    @property
    def schema(self) -> pyarrow.Schema:
        return self._table.schema

    def scanner(
        self, columns: Any = None, filter: Any = None, **_hints: Any
    ) -> pyarrow.dataset.Scanner:
        """`_hints`: sizes and threads, which the topic's own batches decide."""
        return self._table.scanner(columns, filter)
