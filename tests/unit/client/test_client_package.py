"""What `import moldau` offers: everything by name, nothing before it is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import moldau
from moldau import aio


def test_every_name_is_there_and_known_to_type_checkers() -> None:
    tree = ast.parse(Path(moldau.__file__).read_text())
    declared = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("moldau")
        for alias in node.names
    }
    offered = {(home, name) for home, names in moldau._HOMES.items() for name in names.split()}
    assert declared == offered
    for _, name in offered:
        assert getattr(moldau, name).__name__ == name
    assert moldau.KafkaProducer is moldau.Producer
    assert moldau.KafkaConsumer is moldau.Consumer


def test_the_asyncio_twins_have_the_same_names() -> None:
    assert {aio.Admin, aio.Consumer, aio.Producer}.isdisjoint(
        {moldau.Admin, moldau.Consumer, moldau.Producer}
    )


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="Nonsense"):
        moldau.Nonsense  # noqa: B018


def test_importing_the_package_imports_nothing_else() -> None:
    program = (
        "import sys; before = set(sys.modules); import moldau; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert set(done.stdout.split()) <= {"moldau", "__future__"}
