"""Who reads which setting, found in the source: for the test that no setting is ignored.

A setting is read where its typed attribute is taken from an object that is called a
configuration, or where the tables themselves resolve one setting into another. Names alone would
not do: `port` and `listeners` are attributes of many things.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from moldau.config.setting_definition import Setting, Settings

SOURCE = Path(__file__).parent.parent.parent / "src" / "moldau"
CONFIG = SOURCE / "config"
HOLDERS = ("config", "settings", "parsed")
"""What a variable, attribute or call that gives a configuration ends in."""
CHECK = "_cross_check"
"""Compares settings with one another, which gives none of them an effect."""
RESOLVED = "values"
"""What the tables call the typed values while one is worked out from another."""


def read_names(*, without: str | None = None) -> frozenset[str]:
    """Names of attributes that are taken from a configuration anywhere in the source, or outside
    one package: a client's setting may have the name of a broker's."""
    names: set[str] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] == without:
            continue
        tree = ast.parse(path.read_text())
        inside = CONFIG in path.parents
        names.update(_attributes(tree, own_tables=inside))
        if inside:
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef) and function.name != CHECK:
                    names.update(_resolved(function))
    return frozenset(names)


def _attributes(tree: ast.AST, *, own_tables: bool) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            holder = _last_word(node.value)
            if holder.endswith(HOLDERS) or (own_tables and holder in ("self", "broker")):
                yield node.attr


def _last_word(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _last_word(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr.lower()
    return node.id.lower() if isinstance(node, ast.Name) else ""


def _resolved(function: ast.FunctionDef) -> set[str]:
    """Settings that are worked into others here. One that is only filled in is not read yet."""
    found: dict[type[ast.expr_context], set[str]] = {ast.Load: set(), ast.Store: set()}
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id == RESOLVED
            and isinstance(node.slice, ast.Constant)
        ):
            found[type(node.ctx)].add(str(node.slice.value))
    return found[ast.Load] - found[ast.Store]


def undeclared(table: type[Settings], read: frozenset[str], *users: type[Settings]) -> list[str]:
    """Keys that nobody reads and that do not say so. `users` are tables that take their defaults
    from this one: a setting that one of their read rows takes its default from is read too."""
    passed_on = {row.synonym for user in users for row in user.rows.values() if row.name in read}
    return [
        row.key
        for row in table.rows.values()
        if not (row.name in read or row.key in passed_on or _says_so(row))
    ]


def _says_so(row: Setting) -> bool:
    """Without effect, refused, or with one allowed value, so that any other is refused."""
    return row.no_effect is not None or row.refused is not None or len(row.one_of) == 1
