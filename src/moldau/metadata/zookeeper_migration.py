"""Protects a tree that was open, or opens one that was protected, while brokers use it.

As Apache Kafka's tool: the root, then everything below the places that are Kafka's, parents first.
Nodes that come and go meanwhile are passed over; who makes them protects them. It may be run again
after it was broken off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from moldau.metadata.zookeeper_access import acls_of
from moldau.metadata.zookeeper_nodes import CONTROLLER, ROOTS

if TYPE_CHECKING:
    from kazoo.client import KazooClient

BATCH = 500
"""Nodes that are asked about at one time."""
ANSWER_SECONDS_MAX = 30.0


def missing_roots(client: KazooClient) -> list[str]:
    return [path for path in ROOTS if client.exists(path) is None]


def migrate(client: KazooClient, *, is_protected: bool) -> int:
    """How many nodes were changed. Raises KazooException and KazooTimeoutError."""
    changed = _set(client, ["/"], is_protected)
    for root in ROOTS:
        if root != CONTROLLER and client.exists(root) is None:
            _make(client, root, is_protected)
        layer = [root]
        while layer:
            changed += _set(client, layer, is_protected)
            layer = list(_below(client, layer))
    return changed


def _make(client: KazooClient, path: str, is_protected: bool) -> None:
    from kazoo.exceptions import NodeExistsError

    acls = acls_of(path, is_protected=is_protected)
    try:
        client.create(path, None, acl=acls, makepath=True)
    except NodeExistsError:
        return


def _set(client: KazooClient, paths: Sequence[str], is_protected: bool) -> int:
    def ask(path: str) -> Any:
        return client.set_acls_async(path, acls_of(path, is_protected=is_protected))

    return sum(1 for _ in _asked(paths, ask))


def _below(client: KazooClient, paths: Sequence[str]) -> Iterator[str]:
    for path, names in _asked(paths, client.get_children_async):
        for name in names:
            yield f"{path}/{name}"


def _asked(paths: Sequence[str], ask: Callable[[str], Any]) -> Iterator[tuple[str, Any]]:
    """The answers, without those about nodes that are gone."""
    from kazoo.exceptions import NoNodeError

    for start in range(0, len(paths), BATCH):
        batch = paths[start : start + BATCH]
        for path, answer in [(path, ask(path)) for path in batch]:
            try:
                yield path, answer.get(timeout=ANSWER_SECONDS_MAX)
            except NoNodeError:
                continue
