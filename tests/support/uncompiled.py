"""A compiled module's own source, run as plain Python beside it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def uncompiled(module: ModuleType) -> ModuleType:
    assert module.__file__ is not None
    name = module.__name__.rpartition(".")[2]
    path = Path(module.__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"uncompiled_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    return source
