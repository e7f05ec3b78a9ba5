"""What is to be done that the target's topics are as the source's: made, grown, set, or stopped.

Pure. Both sides as they were just read; what cannot go on without a guess is stopped with the
reason, and a topic is never deleted at the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.client.admin.own.mirrors_admin import MirroredInfo
from moldau.config.mirror_source import MirrorSource, MirrorState
from moldau.config.topic_config import MIRROR_SOURCE
from moldau.mirroring.mirror_file import MirrorFile
from moldau.mirroring.source_cluster import SourceTopic


class Follow(NamedTuple):
    """Everything is well: copy its records."""

    topic: SourceTopic
    info: MirroredInfo


class Make(NamedTuple):
    name: str
    source: MirrorSource
    topic: SourceTopic


class Grow(NamedTuple):
    name: str
    partitions: int


class Configure(NamedTuple):
    name: str
    changes: Mapping[str, str | None]


class RaiseEpochs(NamedTuple):
    info: MirroredInfo
    leader_epochs: Mapping[int, int]


class Stop(NamedTuple):
    """By the name in the source."""

    topic: str
    reason: str


Action = Follow | Make | Grow | Configure | RaiseEpochs | Stop


class Target(NamedTuple):
    """What the target has."""

    cluster_id: str
    names: frozenset[str]
    mirrors: Mapping[str, MirroredInfo]
    configs: Mapping[str, Mapping[str, str]]
    """Of its mirrors."""


def judge(
    file: MirrorFile, cluster_id: str, topics: Mapping[str, SourceTopic], target: Target
) -> list[Action]:
    actions: list[Action] = []
    for name in sorted(topics):
        actions += _judged(file, cluster_id, topics[name], target)
    for info in target.mirrors.values():
        source = MirrorSource.parse(info.source)
        if source is None or source.cluster_id != cluster_id or source.topic in topics:
            continue
        if file.wants(source.topic) and file.target_name(source.topic) == info.name:
            actions.append(Stop(source.topic, "the source has no such topic any more"))
    return actions


def _judged(
    file: MirrorFile, cluster_id: str, topic: SourceTopic, target: Target
) -> Sequence[Action]:
    name = file.target_name(topic.name)
    wanted = MirrorSource(cluster_id, topic.topic_id, topic.name)
    repeats = MirrorSource.parse(topic.repeats)
    is_named = topic.name.removeprefix(file.strip) in file.topics
    if repeats is not None and (not is_named or repeats.cluster_id == target.cluster_id):
        # Otherwise two clusters that mirror each other would never come to an end.
        return ()
    info = target.mirrors.get(name)
    if info is None:
        if name in target.names:
            reason = f"the target has a topic {name} that is no mirror, or was promoted"
            return (Stop(topic.name, reason),)
        return (Make(name, wanted, topic),)
    fault = _fault(info, wanted, len(topic.leader_epochs))
    if fault:
        return (Stop(topic.name, fault),)
    return _followed(file, topic, info, target.configs.get(name, {}))


def _fault(info: MirroredInfo, wanted: MirrorSource, partitions: int) -> str:
    found = MirrorSource.parse(info.source)
    if found is None or found.original != wanted:
        if found is not None and found._replace(topic_id=wanted.topic_id).original == wanted:
            return (
                "the source's topic was deleted and made anew: the target's repeats the old one"
                " until it is promoted or deleted"
            )
        return f"the target's topic {info.name} repeats {info.source}"
    if found.state is not MirrorState.MIRRORED:
        return f"the target's topic {info.name} is {found.state} just now, or was left so"
    if len(info.partitions) > partitions:
        return (
            f"the target's topic {info.name} has {len(info.partitions)} partitions, the source's"
            f" {partitions}"
        )
    return ""


def _followed(
    file: MirrorFile, topic: SourceTopic, info: MirroredInfo, configs: Mapping[str, str]
) -> Sequence[Action]:
    actions: list[Action] = []
    if len(info.partitions) < len(topic.leader_epochs):
        actions.append(Grow(info.name, len(topic.leader_epochs)))
    if "settings" in file.copies:
        changes: dict[str, str | None] = {
            key: text for key, text in topic.configs.items() if configs.get(key) != text
        }
        changes.update(dict.fromkeys(configs.keys() - topic.configs.keys() - {MIRROR_SOURCE}))
        if changes:
            actions.append(Configure(info.name, changes))
    newer = {
        number: epoch
        for number, (epoch, place) in enumerate(
            zip(topic.leader_epochs, info.partitions, strict=False)
        )
        if epoch > place.leader_epoch
    }
    if newer:
        actions.append(RaiseEpochs(info, newer))
    return (*actions, Follow(topic, info))
