"""Kernels that read numbers of variable length by themselves: each is compiled alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from moldau import records

RECORDS = Path(records.__file__ or "").parent


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        ("batch_kernel", "column_decoding", "_long_varint"),
        ("compaction_kernel", "old_formats/old_messages", "_varint"),
    ],
)
def test_kernels_read_numbers_alike(one: str, other: str, name: str) -> None:
    assert body_in(one, name) == body_in(other, name)


def body_in(kernel: str, name: str) -> str:
    """The function's source without its docstring."""
    module = ast.parse((RECORDS / f"{kernel}.py").read_text())
    (function,) = [
        each for each in module.body if isinstance(each, ast.FunctionDef) and each.name == name
    ]
    is_explained = ast.get_docstring(function) is not None
    return "\n".join(ast.unparse(line) for line in function.body[is_explained:])
