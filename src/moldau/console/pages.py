"""All pages and changes of the console, one row each. The menu lists those with a heading."""

from __future__ import annotations

from moldau.console.page import Change, Page
from moldau.console.views import overview

CLUSTER, DATA, ACCESS, CONSOLE = "Cluster", "Data", "Access", "Console"

PAGES: tuple[Page, ...] = (Page("/", overview.overview, "overview.html", "Overview", CLUSTER),)

CHANGES: tuple[Change, ...] = ()


def menu() -> dict[str, list[Page]]:
    """The pages under their headings, in the order of the rows."""
    found: dict[str, list[Page]] = {}
    for page in PAGES:
        if page.nav:
            found.setdefault(page.nav, []).append(page)
    return found
