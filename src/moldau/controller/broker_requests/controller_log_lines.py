"""What an operator reads of the controller of a cluster: facts in Kafka's sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moldau.controller.cluster_facts import DeletionsQueued, LivenessChanged, PreferredElected
from moldau.model.names import BrokerId


def lines(facts: Iterable[object], controller: BrokerId) -> Iterator[str]:
    for fact in facts:
        match fact:
            case LivenessChanged(liveness, joined, gone, bounced) if joined or gone or bounced:
                yield (
                    f"Newly added brokers: {_ids(joined)}, deleted brokers: {_ids(gone)}, "
                    f"bounced brokers: {_ids(bounced)}, "
                    f"all live brokers: {_ids(sorted(liveness.brokers))}"
                )
                if gone:
                    yield f"Broker failure callback for {_ids(gone)}"
                if joined:
                    yield f"New broker startup callback for {_ids(joined)}"
            case LivenessChanged(liveness) if liveness.shutting_down:
                yield f"Shutting down broker {_ids(sorted(liveness.shutting_down))}"
            case DeletionsQueued(topics):
                yield f"Starting topic deletion for topics {','.join(topics)}"
            case PreferredElected(leaders):
                for place, leader in leaders.items():
                    yield (
                        f"Partition {place} completed preferred replica leader election. "
                        f"New leader is {leader}"
                    )


def _ids(brokers: Iterable[BrokerId]) -> str:
    return ",".join(map(str, brokers))
