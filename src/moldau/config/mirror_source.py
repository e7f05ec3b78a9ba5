"""What a mirrored topic repeats, as its setting `mirror.source` says it: one line of text.

A topic that has the setting is written to by mirroring alone. Before the cluster, the id and the
name of the original may stand what is being done to it: such a topic takes records from nobody.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from moldau.model.names import TopicId, uuid_from_text, uuid_text


class MirrorState(StrEnum):
    MIRRORED = ""
    """Follows its original."""
    PROMOTING = "promoting"
    """Becomes a topic of its own: transactions that are open are aborted."""
    CUTTING = "cutting"
    """Becomes a mirror: what the original does not have goes."""


class MirrorSource(NamedTuple):
    cluster_id: str
    topic_id: TopicId
    topic: str
    state: MirrorState = MirrorState.MIRRORED

    @classmethod
    def parse(cls, text: str) -> MirrorSource | None:
        """None if it is none."""
        state, _, rest = text.rpartition(" ")
        parts = rest.split("/")
        if len(parts) != 3 or not all(parts) or state not in set(MirrorState):
            return None
        try:
            return cls(parts[0], uuid_from_text(parts[1]), parts[2], MirrorState(state))
        except ValueError:
            return None

    @property
    def text(self) -> str:
        where = f"{self.cluster_id}/{uuid_text(self.topic_id)}/{self.topic}"
        return f"{self.state} {where}" if self.state else where

    @property
    def original(self) -> MirrorSource:
        """The same, whatever is being done to the mirror."""
        return self._replace(state=MirrorState.MIRRORED)
