"""Objects that settings name: serializers, partitioners, interceptors, assignors.

A setting may hold the object itself, its class, or its dotted path ("package.module.Name" or
"package.module:Name"). A class is called without arguments.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any


def instance_of(given: Any) -> Any:
    """The object that is meant; functions are taken as they are."""
    found = load(given) if isinstance(given, str) else given
    return found() if inspect.isclass(found) else found


def load(path: str) -> Any:
    module_name, _, name = path.replace(":", ".").rpartition(".")
    if not module_name:
        raise ValueError(f"{path} is no known name and no dotted path to a class")
    try:
        return getattr(import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{path} cannot be loaded: {error}") from None
