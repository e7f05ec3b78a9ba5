"""Writes state-change.log for a controller: what its facts do to partitions and replicas.

What is said depends on what was before, so sentences are made when facts are decided, and written
when they are durable. Nothing is made while nobody reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.controller.broker_requests.state_change_lines import StateChange
    from moldau.controller.cluster_facts import LivenessChanged
    from moldau.model.cluster import PartitionImage, TopicImage
    from moldau.model.names import BrokerId

log = logging.getLogger("state.change.logger")

CHANGES_MAX = 5_000
"""Told of one step of the controller; more would hold up everybody else."""


class StateChangeLog:
    def __init__(self, broker: BrokerId, epoch: int, topics: Mapping[str, TopicImage]) -> None:
        """`topics` are those that the controller knows, always as they are."""
        self._prefix = f"[Controller id={broker} epoch={epoch}]"
        self._topics = topics

    def changes(self, facts: Iterable[object]) -> Sequence[StateChange]:
        """Asked before the facts are applied."""
        if not log.isEnabledFor(logging.INFO):
            return ()
        from moldau.controller.broker_requests.state_change_lines import state_changes

        with_details = log.isEnabledFor(logging.DEBUG)
        return self._some(state_changes(facts, self._before, with_details=with_details))

    def brokers_changed(self, fact: LivenessChanged) -> None:
        if log.isEnabledFor(logging.DEBUG):
            from moldau.controller.broker_requests.state_change_lines import liveness_changes

            self.write(self._some(liveness_changes(fact, self._topics)))

    def write(self, changes: Iterable[StateChange]) -> None:
        for change in changes:
            level = logging.DEBUG if change.is_detail else logging.INFO
            log.log(level, f"%s {change.kind}", self._prefix, *change.values)

    def _before(self, topic: str) -> Sequence[PartitionImage]:
        found = self._topics.get(topic)
        return () if found is None else found.partitions

    def _some(self, changes: Iterable[StateChange]) -> list[StateChange]:
        some = list(islice(changes, CHANGES_MAX + 1))
        if len(some) > CHANGES_MAX:
            kind = "More than %d partitions and replicas changed at once; the others are not told"
            some[CHANGES_MAX] = some[0]._replace(is_detail=False, kind=kind, values=(CHANGES_MAX,))
        return some
