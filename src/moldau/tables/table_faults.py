"""What goes wrong with tables, in one sentence that says what to do."""

from __future__ import annotations

from typing import Any


class TableError(Exception):
    """What a user can mend."""


def load(module: str, extra: str) -> Any:
    """An extra's module, or the sentence that says how to have it."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise TableError(
            f"This needs {name}: install it with pip install 'moldau[{extra}]'"
        ) from None
