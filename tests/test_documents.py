"""What documents say of the source, where it can be looked up: commands, methods, files."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from moldau import Admin
from moldau.cli.catalogue import COMMANDS

PROJECT = Path(__file__).parent.parent
PAGES = [
    PROJECT / "README.md",
    PROJECT / "ARCHITECTURE.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted((PROJECT / "docs").glob("*.md")),
]
SOURCES = sorted((PROJECT / "src").rglob("*.py"))
FOLDERS = ("src", "tests", "benchmarks", "docs", "examples")
FILES = {path.as_posix() for folder in FOLDERS for path in (PROJECT / folder).rglob("*.py")}


def missing_files(text: str) -> list[str]:
    """Python files that a text names in backticks and that stand nowhere under that name."""
    named = re.findall(r"`([\w/]+\.py)`", text)
    return [name for name in named if not any(path.endswith(f"/{name}") for path in FILES)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_names_only_files_that_are_there(path: Path) -> None:
    assert not missing_files(path.read_text())


def test_comments_and_docstrings_name_only_files_that_are_there() -> None:
    found = {path.name: missing_files(path.read_text()) for path in SOURCES}
    assert not {name: names for name, names in found.items() if names}


def test_a_file_that_is_gone_is_noticed() -> None:
    assert missing_files("see `storage/log/drawer.py`") == ["storage/log/drawer.py"]


def test_the_page_of_commands_has_them_all() -> None:
    page = (PROJECT / "docs" / "commands.md").read_text()
    words = set(re.findall(r"[a-z][a-z0-9-]+", " ".join(re.findall(r"`([^`]+)`", page))))
    assert not set(COMMANDS) - words


def test_the_page_of_the_client_library_has_every_method_of_administration() -> None:
    page = (PROJECT / "docs" / "client.md").read_text()
    table = page[page.index("| subject | methods |") : page.index("A request that the broker does")]
    methods = {name for name, _ in inspect.getmembers(Admin, inspect.isfunction)}
    assert set(re.findall(r"`([a-z_]+)`", table)) == {
        name for name in methods if not name.startswith("_") and name != "close"
    }


def test_every_decision_has_a_number_of_its_own() -> None:
    pages = sorted((PROJECT / "docs" / "decisions").glob("*.md"))
    headings = [page.read_text(encoding="utf-8").split(".", 1)[0] for page in pages]
    assert headings == [f"# {int(page.name[:4])}" for page in pages]
    assert headings == [f"# {number}" for number in range(1, len(pages) + 1)]


def test_the_readme_has_the_numbers_that_were_measured() -> None:
    measured = table_of((PROJECT / "docs" / "benchmarks.md").read_text(encoding="utf-8"))
    told = table_of((PROJECT / "README.md").read_text(encoding="utf-8"))
    rows = {label: cells for label, cells in told.items() if label in measured}
    assert len(rows) >= 5
    for label, cells in rows.items():
        medians = [cell.partition(" (")[0] for cell in measured[label][:2]]
        assert cells == medians, label


def table_of(text: str) -> dict[str, list[str]]:
    """The rows of all tables of a page by their first cell; the first of a name counts."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("|"):
            label, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            found.setdefault(label, cells)
    return found
