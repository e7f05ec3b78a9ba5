"""A mirror that runs: topics are followed, records copied, groups and access rules with them.

Nothing is kept here that the target does not have: a mirror that is killed is simply run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Self

from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.admin_results import ConfigResource
from moldau.client.admin.own.mirrors_admin import TopicToMirror
from moldau.client.shared.client_errors import KafkaError, UnsupportedVersionError
from moldau.mirroring.access_following import AccessFollowing
from moldau.mirroring.copying import Lane
from moldau.mirroring.group_following import GroupFollowing
from moldau.mirroring.mirror_faults import MirrorFault
from moldau.mirroring.mirror_file import MirrorFile
from moldau.mirroring.source_cluster import SourceCluster, own_settings
from moldau.mirroring.topic_judgement import (
    Action,
    Configure,
    Follow,
    Grow,
    Make,
    RaiseEpochs,
    Stop,
    Target,
    judge,
)
from moldau.mirroring.topic_mirrors import TopicMirrors

Say = Callable[[str], None]
SAID_MAX = 1_000
LOOK_S = 0.1


class Mirror:
    def __init__(self, file: MirrorFile, say: Say) -> None:
        """`say(sentence)` is told what an operator should know, once."""
        self.file = file
        self.mirrors = TopicMirrors()
        self.source = SourceCluster(file.source)
        self.target = AdminCore({**file.target, "enable.metrics.push": "false"})
        self._say = say
        self._said: set[str] = set()
        self._lanes: dict[int, asyncio.Task[None]] = {}
        self.groups = GroupFollowing(file, self.source, self.target, self.mirrors)
        self.access = AccessFollowing(file, self.source, self.target, self.mirrors)
        self._target_id = ""
        self.has_judged = False
        """Whether topics were looked at."""

    async def __aenter__(self) -> Self:
        is_open = False
        try:
            await self.source.__aenter__()
            self._target_id = (await self.target.describe_cluster()).cluster_id or ""
            if self._target_id == self.source.cluster_id:
                raise MirrorFault("source and target are the same cluster")
            await self._check_target()
            is_open = True
        finally:
            if not is_open:
                await self._close()
        return self

    async def __aexit__(self, *_: object) -> None:
        lanes = list(self._lanes.values())
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
        await self._close()

    async def _close(self) -> None:
        await self.source.__aexit__()
        await self.target.close()

    async def _check_target(self) -> None:
        try:
            await self.target.describe_mirrors()
        except UnsupportedVersionError:
            reason = "the target keeps no mirrors: it must be a Moldau broker that stands alone"
            raise MirrorFault(reason) from None

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Until that is so, or something happens that no mirror can go on with."""
        await self.keep_producers_apart()
        while not is_over():
            try:
                await self._round()
            except KafkaError as error:
                self._tell(f"One of the clusters does not answer: {error.message}")
            await self._until_next(is_over)
        self._tell_stopped()

    async def keep_producers_apart(self) -> None:
        try:
            producer_id = await self.source.producer_id()
        except KafkaError as error:
            raise MirrorFault(
                "the source gives no producer id, so nobody knows which ones it may give later:"
                f" {error.message}"
            ) from None
        await self.target.begin_mirrors([], source_producer_id=producer_id)

    async def _round(self) -> None:
        for action in await self.judged():
            await self._do(action)
        self.has_judged = True
        self._watch_lanes()
        if "groups" in self.file.copies:
            await self._copy_groups()
        if "acls" in self.file.copies:
            await self.access.round()
            if self.access.trouble:
                self._tell(self.access.trouble)

    async def judged(self) -> list[Action]:
        file, source = self.file, self.source
        names = [name for name in await source.names() if file.wants(name)]
        topics = await source.topics(names)
        mirrors = await self.target.describe_mirrors()
        await self.target._try(None, self.target.cluster.refresh_all)
        own = [info.name for info in mirrors.values() if info.name]
        target = Target(
            self._target_id,
            frozenset(self.target.cluster.topics),
            mirrors,
            await own_settings(self.target, own) if "settings" in file.copies else {},
        )
        return judge(file, source.cluster_id, topics, target)

    async def _do(self, action: Action) -> None:
        match action:
            case Follow(topic, info):
                self.mirrors.follow(topic, info)
            case Make(name, source, topic):
                configs = topic.configs if "settings" in self.file.copies else {}
                wanted = TopicToMirror(
                    name, topic.topic_id, source.text, configs, topic.leader_epochs
                )
                await self._make(wanted)
            case Grow(name, count):
                self._check(await self.target.create_partitions({name: count}), name)
            case Configure(name, changes):
                resource = ConfigResource.topic(name)
                outcome = await self.target.incremental_alter_configs({resource: changes})
                self._check(outcome, f"The settings of topic {name}")
            case RaiseEpochs(info, epochs):
                await self.target.raise_mirror_epochs(info.topic_id, info.source, epochs)
            case Stop(topic_name, reason):
                if self.mirrors.stop(topic_name, reason):
                    self._say(f"Topic {topic_name} is not mirrored: {reason}.")

    async def _make(self, wanted: TopicToMirror) -> None:
        """With its own settings, or without them if the target does not take them."""
        try:
            await self.target.begin_mirrors([wanted])
        except KafkaError as error:
            if error.retriable:
                raise
            self._tell(f"Topic {wanted.name} is made without its settings: {error.message}")
            try:
                await self.target.begin_mirrors([wanted._replace(configs={})])
            except KafkaError as second:
                if second.retriable:
                    raise
                if self.mirrors.stop(wanted.name, second.message):
                    self._say(f"Topic {wanted.name} cannot be made: {second.message}")
                return
        (info,) = (await self.target.describe_mirrors([wanted.name])).values()
        found = await self.source.topics([wanted.source.rpartition("/")[2]])
        for topic in found.values():
            if topic.topic_id == wanted.topic_id:
                self.mirrors.follow(topic, info)

    def _check(self, outcomes: Mapping[Any, KafkaError | None], what: str) -> None:
        for outcome in outcomes.values():
            if isinstance(outcome, KafkaError):
                self._tell(f"{what} cannot be as at the source: {outcome.message}")

    def _tell(self, sentence: str) -> None:
        if sentence not in self._said and len(self._said) < SAID_MAX:
            self._said.add(sentence)
            self._say(sentence)

    # Lanes

    def _watch_lanes(self) -> None:
        leaders = {self.source.leader(each.place) for each in self.mirrors.partitions()}
        for node in leaders - self._lanes.keys() - {-1}:
            lane = Lane(node, self.source, self.target, self.mirrors)
            self._lanes[node] = asyncio.create_task(lane.run())
        for lane_task in self._lanes.values():
            if lane_task.done():
                # It ends by a fault alone: the mirror does too.
                lane_task.result()

    async def _until_next(self, is_over: Callable[[], bool]) -> None:
        deadline = asyncio.get_running_loop().time() + self.file.refresh_ms / 1000
        while asyncio.get_running_loop().time() < deadline and not is_over():
            self._watch_lanes()
            self._tell_stopped()
            await asyncio.sleep(LOOK_S)

    def _tell_stopped(self) -> None:
        for partition in self.mirrors.partitions():
            if partition.stopped and partition.place.topic not in self.mirrors.stopped:
                self._tell(f"{partition.place} is not mirrored any more: {partition.stopped}.")

    async def copy_groups_once_more(self) -> None:
        """When all records are there: groups that stood at their end do so here."""
        if "groups" in self.file.copies:
            try:
                await self._copy_groups()
            except KafkaError as error:
                self._tell(f"The offsets of groups may not be the last: {error.message}")

    async def _copy_groups(self) -> None:
        await self.groups.round()
        for group, reason in self.groups.not_copied.items():
            self._tell(f"The offsets of group {group} are not copied: {reason}")
