"""A client of ZooKeeper for tests on a busy machine: what a lost connection leaves open is asked
again, as long as the session lives."""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient


class PatientZooKeeper(KazooClient):  # type: ignore[misc]
    """Only what may be done twice. A deletion that was done, and is asked for again because its
    answer was lost, ends with NoNodeError: whoever deletes something that others delete as well
    expects that anyway."""

    def get(self, *args: Any, **named: Any) -> Any:
        return self.retry(super().get, *args, **named)

    def get_children(self, *args: Any, **named: Any) -> Any:
        return self.retry(super().get_children, *args, **named)

    def exists(self, *args: Any, **named: Any) -> Any:
        return self.retry(super().exists, *args, **named)

    def delete(self, *args: Any, **named: Any) -> Any:
        return self.retry(super().delete, *args, **named)
