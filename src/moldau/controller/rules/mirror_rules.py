"""The rules for topics that repeat those of another cluster: begun, followed, ended.

Pure. The setting says whether a topic is a mirror, and is changed together with the leader epochs:
whoever has read the one has read the other. All topics of a request change, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.config.topic_config import MIRROR_SOURCE
from moldau.controller.controller_facts import ConfigKind, ConfigsChanged
from moldau.controller.controller_state import ControllerState
from moldau.controller.rules.changed_partitions import ChangedPartitions
from moldau.engine.machine import Decision, Reply, Token
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicId

LEADER_EPOCH_LAST = 2**31 - 1


class MirrorChange(NamedTuple):
    topic: str
    topic_id: TopicId
    before: str
    """The setting as whoever asks has seen it; empty: it is no mirror."""
    after: str
    leader_epochs: Mapping[int, int]
    """By partition, at least this; a larger one stays."""


def changed(state: ControllerState, changes: Sequence[MirrorChange], token: Token) -> Decision:
    partitions = ChangedPartitions(state)
    facts: list[object] = []
    try:
        for change in changes:
            facts += _changed(state, partitions, change)
    except ApiError as refusal:
        return Decision.reply(token, refusal)
    return Decision((*facts, *partitions.facts()), replies=(Reply(token, None),))


def _changed(
    state: ControllerState, partitions: ChangedPartitions, change: MirrorChange
) -> Sequence[object]:
    topic = state.cluster.topics.get(change.topic)
    if topic is None or topic.id != change.topic_id:
        reason = f"The topic '{change.topic}' is not there any more."
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, reason)
    configs = state.cluster.topic_configs.get(change.topic, {})
    found = configs.get(MIRROR_SOURCE, "")
    if found != change.before:
        reason = f"{MIRROR_SOURCE} of topic '{change.topic}' is '{found}', not '{change.before}'."
        raise ApiError(Error.INVALID_REQUEST, reason)
    for number, epoch in change.leader_epochs.items():
        if not 0 <= number < len(topic.partitions) or epoch > LEADER_EPOCH_LAST:
            reason = f"There is no leader epoch {epoch} of {change.topic}-{number}."
            raise ApiError(Error.INVALID_REQUEST, reason)
        partitions.put_epoch(topic, number, epoch)
    if change.after == found:
        return ()
    after = {key: text for key, text in configs.items() if key != MIRROR_SOURCE}
    if change.after:
        after[MIRROR_SOURCE] = change.after
    return (ConfigsChanged(ConfigKind.TOPIC, change.topic, after),)
