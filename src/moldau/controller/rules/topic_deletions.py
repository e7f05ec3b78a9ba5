"""Topics on their way out: asked for in the tree, gone when every replica is.

Pure. Brokers forget the topic at once and delete its replicas when they are told to; those on a
broker that is down wait until it is back. When all have answered, the topic's nodes go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moldau.controller.broker_requests.announcements import EPOCH_DURING_DELETE
from moldau.controller.cluster_commands import ConfirmDeleted
from moldau.controller.cluster_facts import (
    DeletionsDropped,
    DeletionsQueued,
    Replica,
    ReplicasDeleted,
)
from moldau.controller.cluster_state import ClusterState, has_state
from moldau.controller.controller_facts import TopicDeleted
from moldau.engine.machine import Volatile
from moldau.model.errors import Error


def found(state: ClusterState, names: Iterable[str], is_enabled: bool) -> Iterator[object]:
    """The tree asks for these; what cannot or must not be deleted is crossed out there."""
    new = [name for name in names if name not in state.deleting]
    queued = tuple(name for name in new if is_enabled and name in state.cluster.topics)
    dropped = tuple(name for name in new if name not in queued)
    if queued:
        yield Volatile(DeletionsQueued(queued))
    if dropped:
        yield DeletionsDropped(dropped)


def owed(state: ClusterState) -> Iterator[tuple[Replica, int]]:
    """Replicas that should be gone and that nobody has confirmed as gone, with the leader epoch
    that says so. Their brokers are told again when they come back."""
    for rest in state.deleting.values():
        yield from ((replica, EPOCH_DURING_DELETE) for replica in rest)
    yield from state.leftovers.items()


def confirmed(state: ClusterState, command: ConfirmDeleted) -> Iterator[object]:
    broker, outcomes = command
    gone = tuple(
        place
        for place, error in outcomes.items()
        if error is Error.NONE
        and (place.topic in state.deleting or (place, broker) in state.leftovers)
    )
    if not gone:
        return
    yield Volatile(ReplicasDeleted(broker, gone))
    rows = {(place, broker) for place in gone}
    for name in dict.fromkeys(place.topic for place in gone):
        if name in state.deleting and state.deleting[name] <= rows:
            yield _deleted(state, name)


def _deleted(state: ClusterState, name: str) -> TopicDeleted:
    topic = state.cluster.topics[name]
    stateless = (n for n, partition in enumerate(topic.partitions) if not has_state(partition))
    return TopicDeleted(name, topic.id, len(topic.partitions), True, frozenset(stateless))
