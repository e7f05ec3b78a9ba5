"""CRC-32C, the checksum of batches, from the crc32c package's extension module alone.

The package's own `__init__` loads a command line and its metadata, which costs a broker a fifth of
its start-up time; so the extension is found and loaded without it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from moldau.records.batch import Buffer


def _load() -> Callable[[Buffer], int]:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            function: Callable[[Buffer], int] = module.crc32c
            return function
    from crc32c import crc32c as packaged

    return packaged


crc32c = _load()
