"""Every text that docs/troubleshooting.md puts into Moldau's mouth stands in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli import doctor
from moldau.cli.catalogue import COMMANDS
from moldau.model.errors import Error
from tests.support.troubleshooting import KAFKA, MOLDAU, OPEN, PAGE, holds, texts_of

SOURCE = Path(__file__).parents[1] / "src" / "moldau"
FORMATS = re.compile(r"%[sdr]")


def said_in(path: Path) -> Iterator[str]:
    """The texts of a module and the names of its classes; what is filled in is left open."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else OPEN for each in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield FORMATS.sub(OPEN, node.value)


@pytest.fixture(scope="module")
def said() -> list[str]:
    texts = [text for path in SOURCE.rglob("*.py") for text in said_in(path)]
    return [*texts, *Error.__members__]


@pytest.mark.parametrize("text", sorted(texts_of(MOLDAU)))
def test_a_text_of_moldau_stands_in_its_source(text: str, said: list[str]) -> None:
    assert any(holds(each, text) for each in said), "nobody says so any more"


def test_most_texts_are_found_on_the_page(said: list[str]) -> None:
    assert len(texts_of(MOLDAU)) > 20 and len(texts_of(KAFKA)) > 10
    assert not any(holds(each, "Failed to acquire … of the moon") for each in said)


def test_the_doctor_leads_to_the_page() -> None:
    assert PAGE.relative_to(PAGE.parents[1]).as_posix() == doctor.PAGE


def test_every_command_of_the_page_is_there() -> None:
    named = set(re.findall(r"moldau ([a-z][a-z-]+)", PAGE.read_text()))
    assert named and not named - set(COMMANDS)


def test_every_entry_says_cause_and_remedy() -> None:
    entries = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    lacking = [each.splitlines()[0] for each in entries if each.count("**Cause.**") != 1]
    # One that is another face of the next leaves both to it.
    assert lacking == ["`The coordinator is not aware of this member.`"]
    assert all("**Remedy.**" in each for each in entries if "**Cause.**" in each)
