"""Changing over: every mirror that a file fills becomes a topic of its own.

First it is asked whether the source has more: to give that up is somebody's decision, not ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.own.mirrors_admin import MirroredInfo
from moldau.client.shared.client_errors import KafkaError, UnsupportedVersionError
from moldau.config.mirror_source import MirrorSource, MirrorState
from moldau.mirroring.mirror_faults import MirrorFault
from moldau.mirroring.mirror_file import MirrorFile
from moldau.mirroring.source_cluster import SourceCluster
from moldau.model.names import TopicPartition

SOURCE_PATIENCE_S = 15.0


async def promote_all(
    file: MirrorFile, say: Callable[[str], None], *, is_forced: bool = False
) -> dict[str, int]:
    """Topics, and how many open transactions of each were aborted. Raises MirrorFault, KafkaError;
    those that were promoted before stay so, and the rest may be asked for again."""
    target = AdminCore({**file.target, "enable.metrics.push": "false"})
    try:
        try:
            mirrors = await target.describe_mirrors()
        except UnsupportedVersionError:
            raise MirrorFault("the target keeps no mirrors") from None
        own = {name: info for name, info in mirrors.items() if filled(file, info) is not None}
        await _check_lag(file, own, say, is_forced)
        return {name: await target.promote_mirror(name) for name in sorted(own)}
    finally:
        await target.close()


def filled(file: MirrorFile, info: MirroredInfo) -> MirrorSource | None:
    """What the topic repeats, if it is this file that fills it."""
    source = MirrorSource.parse(info.source)
    if source is None or not file.wants(source.topic):
        return None
    return source if file.target_name(source.topic) == info.name else None


async def _check_lag(
    file: MirrorFile, own: Mapping[str, MirroredInfo], say: Callable[[str], None], is_forced: bool
) -> None:
    try:
        async with asyncio.timeout(SOURCE_PATIENCE_S):
            behind = await _behind(file, own)
    except (KafkaError, TimeoutError, OSError) as fault:
        reason = str(fault) or f"not within {SOURCE_PATIENCE_S:.0f} s"
        if not is_forced:
            raise MirrorFault(
                f"the source does not answer ({reason}), so nobody knows what is missing here:"
                " --now promotes all the same"
            ) from None
        say("The source does not answer: what it had not sent is not here.")
        return
    for place, count in behind.items():
        say(f"{place}: {count} records of the source are not here.")
    if behind and not is_forced:
        raise MirrorFault(
            f"{sum(behind.values())} records of the source are not mirrored yet: let the mirror"
            " run, or give them up with --now"
        )


async def _behind(file: MirrorFile, own: Mapping[str, MirroredInfo]) -> dict[TopicPartition, int]:
    async with SourceCluster(file.source) as source:
        names = set(await source.names())
        topics = await source.topics([name for name in names if file.wants(name)])
        behind = {}
        for info in own.values():
            mirrored = filled(file, info)
            assert mirrored is not None
            topic = topics.get(mirrored.topic)
            is_decided = mirrored.state is not MirrorState.MIRRORED
            if is_decided or topic is None or topic.topic_id != mirrored.topic_id:
                # It takes no more, or there is no more: this is all.
                continue
            for number, place in enumerate(info.partitions):
                at = TopicPartition(topic.name, number)
                _, end = await source.offsets(at)
                if end > place.offset_end:
                    behind[at] = end - place.offset_end
        return behind
