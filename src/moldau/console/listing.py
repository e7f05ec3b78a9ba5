"""Long tables in parts: found by a word, sorted by a column, one page at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moldau.console.page import Asked

T = TypeVar("T")
ROWS = 50
ROWS_MAX = 20_000
FIND_MAX = 249


@dataclass(frozen=True, slots=True)
class Listing:
    """How a table is shown now; `parts.html` makes the header, the search and the pager of it."""

    path: str
    sort: str
    descends: bool
    find: str
    page: int
    pages: int
    rows: int
    found: int
    """Rows on all pages."""
    total: int
    """Rows without the search."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Words of the query that stay when the order or the page changes."""

    @staticmethod
    def first_order(key: str) -> str:
        """Names begin with the first letter, numbers with the largest."""
        return "asc" if key == "name" else "desc"


def list_rows(
    asked: Asked,
    path: str,
    rows: Sequence[T],
    keys: Mapping[str, Callable[[T], Any]],
    *,
    sort: str = "name",
    kept: Mapping[str, str] | None = None,
) -> tuple[Listing, list[T]]:
    """The part of `rows` that is asked for. `keys` has what each column sorts by; the one called
    "name" is searched. What has no value (None) comes last in either order."""
    find = asked.query.get("find", "").strip()[:FIND_MAX]
    by = asked.query.get("sort", sort)
    by = by if by in keys else sort
    order = asked.query.get("order") or Listing.first_order(by)
    name, key, needle = keys["name"], keys[by], find.lower()
    chosen = [row for row in rows if needle in str(name(row)).lower()] if needle else list(rows)
    known = [row for row in chosen if key(row) is not None]
    unknown = [row for row in chosen if key(row) is None]
    known.sort(key=name)
    known.sort(key=key, reverse=order == "desc")
    chosen = known + unknown
    size = asked.number("rows", ROWS, least=1, most=ROWS_MAX)
    pages = max(1, -(-len(chosen) // size))
    page = min(asked.number("page", 1, least=1), pages)
    listing = Listing(
        path,
        by,
        order == "desc",
        find,
        page,
        pages,
        size,
        len(chosen),
        len(rows),
        {**(kept or {}), **({} if size == ROWS else {"rows": str(size)})},
    )
    return listing, chosen[(page - 1) * size : page * size]
