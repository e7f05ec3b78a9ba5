"""Watches on a changing set of nodes: one for each, while it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moldau.metadata.store import MetadataStore, Watch


class NodeWatches:
    def __init__(self, store: MetadataStore, listener: Callable[[str], None]) -> None:
        self._store = store
        self._listener = listener
        self._watches: dict[str, Watch] = {}

    def keep(self, paths: Iterable[str]) -> list[str]:
        """Watch these nodes and no others; those that were not watched before."""
        wanted = dict.fromkeys(paths)
        for path in self._watches.keys() - wanted.keys():
            self._watches.pop(path).cancel()
        new = [path for path in wanted if path not in self._watches]
        for path in new:
            self._watches[path] = self._store.watch(path, self._listener)
        return new
