"""Who wants to know about which node; shared by the stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable

WATCHES_PER_PATH_MAX = 1000


class WatchHandle:
    __slots__ = ("_listener", "_path", "_watches")

    def __init__(self, watches: Watches, path: str, listener: Callable[[str], None]) -> None:
        self._watches = watches
        self._path = path
        self._listener = listener

    def cancel(self) -> None:
        self._watches.remove(self._path, self)

    def tell(self) -> None:
        self._listener(self._path)


class Watches:
    __slots__ = ("_by_path",)

    def __init__(self) -> None:
        self._by_path: dict[str, list[WatchHandle]] = {}

    def add(self, path: str, listener: Callable[[str], None]) -> WatchHandle:
        handles = self._by_path.setdefault(path, [])
        assert len(handles) < WATCHES_PER_PATH_MAX, f"{path} is watched {len(handles)} times"
        handle = WatchHandle(self, path, listener)
        handles.append(handle)
        return handle

    def remove(self, path: str, handle: WatchHandle) -> None:
        handles = self._by_path.get(path, [])
        if handle in handles:
            handles.remove(handle)
            if not handles:
                del self._by_path[path]

    def tell(self, paths: Iterable[str]) -> None:
        for path in paths:
            # A copy: a listener may cancel its watch or add another.
            for handle in tuple(self._by_path.get(path, ())):
                handle.tell()

    def tell_all(self) -> None:
        self.tell(self.paths())

    def paths(self) -> list[str]:
        return list(self._by_path)
