"""Making a snapshot of a cluster: the controller's broker has all brokers take their moments.

Every broker takes its moment in one step of its loop and from then on lets nothing leave until all
have taken theirs. So the moments together are one that could have been: no broker's has a
consequence of something that another one's lacks. A transaction whose end is decided in it is
ended by whoever starts there, as after a crash of all brokers at once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum

from moldau.cluster.snapshots.snapshot_part import SnapshotPart, Whole
from moldau.cluster.snapshots.tree_copy import TreeCopy, copy_tree
from moldau.metadata.embedded import FILE_NAME
from moldau.metadata.paths import PRODUCER_ID_BLOCK
from moldau.metadata.store import MetadataStore, StoreError
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, Millis, TopicPartition
from moldau.net.peers import HOLDERS_LANE, PeerCalls, PeerUnreachable
from moldau.storage.snapshots.snapshot_files import Manifest
from moldau.wire.messages.snapshots import (
    LedPartition,
    LedTopic,
    PartDescription,
    TakeSnapshotPartRequest,
    TakeSnapshotPartResponse,
)

log = logging.getLogger("moldau.snapshots")

TRIES = 3
PAUSE_SECONDS = 0.3
STEP_TIMEOUT_MS: Millis = 2_000
FINISH_TIMEOUT_MS: Millis = 600_000


class Step(IntEnum):
    PREPARE = 0
    TAKE = 1
    RELEASE = 2
    FINISH = 3
    DROP = 4
    LIST = 5


def again(reason: str) -> ApiError:
    """The cluster changed just then: another moment may do."""
    return ApiError(Error.REQUEST_TIMED_OUT, f"{reason}: try again")


def _refusal(fault: ApiError | StoreError) -> ApiError:
    return fault if isinstance(fault, ApiError) else again(str(fault))


class ClusterSnapshots:
    def __init__(
        self,
        node_id: BrokerId,
        part: SnapshotPart,
        store: MetadataStore,
        peers: PeerCalls,
        brokers: Callable[[], Collection[BrokerId]],
    ) -> None:
        """`brokers()` are those that are in the cluster now."""
        self.part = part
        self._node_id = node_id
        self._store = store
        self._peers = peers
        self._brokers = brokers
        self._turn = asyncio.Lock()

    async def create(self, name: str) -> PartDescription:
        """Raises ApiError."""
        if self._turn.locked():
            raise again("another snapshot is being made")
        async with self._turn:
            await self._tidy()
            for tries_left in reversed(range(TRIES)):
                uid = f"{self._node_id}-{secrets.token_hex(8)}"
                brokers = sorted(self._brokers())
                try:
                    return await self._create(name, uid, brokers)
                except (ApiError, StoreError) as fault:
                    await self._drop(name, uid, brokers)
                    refusal = _refusal(fault)
                    if refusal.error is not Error.REQUEST_TIMED_OUT or not tries_left:
                        raise refusal from fault
                    log.info("The snapshot %s begins anew: %s", name, fault)
                    await asyncio.sleep(PAUSE_SECONDS)
            raise AssertionError("a try returns or raises")

    async def describe(self) -> list[PartDescription]:
        """The snapshots that are whole. Raises ApiError."""
        parts = await self._list()
        return [each for each in parts if each.is_whole]

    async def delete(self, name: str) -> None:
        """The part that makes it whole goes first. Raises ApiError."""
        found = [each for each in await self._list() if each.name == name]
        if not any(each.is_whole for each in found):
            raise ApiError(Error.RESOURCE_NOT_FOUND, f"there is no snapshot {name}")
        for each in sorted(found, key=lambda each: not each.is_whole):
            await self._ask(each.node_id, Step.DROP, name, each.uid, timeout_ms=FINISH_TIMEOUT_MS)
        log.info("Deleted the snapshot %s", name)

    async def _create(self, name: str, uid: str, brokers: list[BrokerId]) -> PartDescription:
        await self._all(brokers, Step.PREPARE, name, uid)
        before = await copy_tree(self._store)
        taken = await self._all(brokers, Step.TAKE, name, uid, raises=False)
        released = await self._all(brokers, Step.RELEASE, name, uid, raises=False)
        if len(taken) < len(brokers) or len(released) < len(brokers):
            raise again("not every broker took its moment in time")
        held_us = max(answer.held_us for answer in released.values())
        after = await copy_tree(self._store)
        _check(before, after, taken.values())
        others = [broker for broker in brokers if broker != self._node_id]
        finished = await self._all(others, Step.FINISH, name, uid, timeout_ms=FINISH_TIMEOUT_MS)
        rows = [answer.parts[0] for answer in finished.values()]
        members = tuple(
            {"node_id": row.node_id, "directories": list(row.directories)}
            | {"partitions": row.partitions, "size_bytes": row.size_bytes}
            for row in rows
        )
        members += ({"node_id": self._node_id, "directories": list(self.part.directories)},)
        # Ids of producers are taken from blocks: one that was taken since may be in use.
        ids = {path: after.nodes[path] for path in (PRODUCER_ID_BLOCK,) if path in after.nodes}
        metadata = TreeCopy(before.topics, {**before.nodes, **ids}).as_file()
        whole = Whole((FILE_NAME, metadata), members, held_us)
        manifest = await self.part.finish(uid, whole)
        log.info(
            "Created the snapshot %s of %d brokers; answers were held back for %.1f ms",
            *(name, len(brokers), held_us / 1000),
        )
        return described(manifest)

    async def _tidy(self) -> dict[BrokerId, TakeSnapshotPartResponse]:
        """What every broker has that answers. Removed is what can become no snapshot any more:
        its maker lives and does not know of it, or it was not even finished when its maker died."""
        brokers = sorted(self._brokers())
        answers = await self._all(brokers, Step.LIST, "", "", raises=False)
        known = {part.uid for answer in answers.values() for part in answer.parts if part.is_whole}
        known |= {answer.under_way for maker, answer in answers.items() if _is_of(answer, maker)}
        for broker, answer in answers.items():
            lost = [part for part in answer.parts if part.uid not in known]
            for part in lost:
                if part.uid and maker_of(part.uid) in answers:
                    answer.parts.remove(part)
                    await self._drop(part.name, part.uid, [broker])
            uid = answer.under_way
            if uid and uid not in known and (maker_of(uid) in answers or _is_gone(uid, brokers)):
                await self._drop("", uid, [broker])
        return answers

    async def _list(self) -> list[PartDescription]:
        answers = await self._tidy()
        return [part for answer in answers.values() for part in answer.parts]

    async def _drop(self, name: str, uid: str, brokers: list[BrokerId]) -> None:
        await self._all(brokers, Step.DROP, name, uid, raises=False)

    async def _all(
        self,
        brokers: list[BrokerId],
        step: Step,
        name: str,
        uid: str,
        *,
        timeout_ms: Millis = STEP_TIMEOUT_MS,
        raises: bool = True,
    ) -> dict[BrokerId, TakeSnapshotPartResponse]:
        """At all of them at once, this broker last: its own steps take no way."""
        ordered = sorted(brokers, key=lambda broker: broker == self._node_id)
        calls = [self._ask(broker, step, name, uid, timeout_ms=timeout_ms) for broker in ordered]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        answers: dict[BrokerId, TakeSnapshotPartResponse] = {}
        for broker, outcome in zip(ordered, outcomes, strict=True):
            if isinstance(outcome, TakeSnapshotPartResponse):
                answers[broker] = outcome
            elif raises or not isinstance(outcome, ApiError):
                raise outcome
            else:
                log.info("Broker %d, %s of %s: %s", broker, step.name, name, outcome.message)
        return answers

    async def _ask(
        self,
        broker: BrokerId,
        step: Step,
        name: str,
        uid: str,
        *,
        timeout_ms: Millis = STEP_TIMEOUT_MS,
    ) -> TakeSnapshotPartResponse:
        """Raises ApiError."""
        request = TakeSnapshotPartRequest(step=step, name=name, uid=uid)
        if broker == self._node_id:
            return await serve(self.part, request)
        try:
            # As a task, for what a handler does is none.
            call = self._peers.call(broker, request, timeout_ms=timeout_ms, lane=HOLDERS_LANE)
            answer = await asyncio.create_task(call)
        except PeerUnreachable as fault:
            raise ApiError(Error.REQUEST_TIMED_OUT, str(fault)) from None
        assert isinstance(answer, TakeSnapshotPartResponse)
        if answer.error_code:
            reason = f"broker {broker}: {answer.error_message}"
            raise ApiError(Error(answer.error_code), reason)
        return answer


def maker_of(uid: str) -> BrokerId:
    """The broker that makes, or made, the snapshot."""
    number = uid.partition("-")[0]
    return int(number) if number.isdigit() else -1


def _is_of(answer: TakeSnapshotPartResponse, maker: BrokerId) -> bool:
    return bool(answer.under_way) and maker_of(answer.under_way) == maker


def _is_gone(uid: str, brokers: Collection[BrokerId]) -> bool:
    return maker_of(uid) not in brokers


def _check(before: TreeCopy, after: TreeCopy, taken: Iterable[TakeSnapshotPartResponse]) -> None:
    """Raises ApiError if a topic came or went meanwhile, or nobody led one of its partitions."""
    if before.topics != after.topics:
        raise again("topics changed")
    led = {
        (topic.name, row.partition_index)
        for answer in taken
        for topic in answer.led
        for row in topic.partitions
    }
    if missing := sorted(before.partitions() - led):
        topic, number = missing[0]
        raise again(f"no broker leads {topic}-{number}")


async def serve(part: SnapshotPart, request: TakeSnapshotPartRequest) -> TakeSnapshotPartResponse:
    """One step, at the broker that is asked. Raises ApiError."""
    answer = TakeSnapshotPartResponse()
    match request.step:
        case Step.PREPARE:
            await part.prepare(request.name, request.uid)
        case Step.TAKE:
            answer.led = _rows(part.take(request.uid))
        case Step.RELEASE:
            answer.held_us = part.release(request.uid)
        case Step.FINISH:
            answer.parts = [described(await part.finish(request.uid))]
        case Step.DROP:
            await part.drop(request.name, request.uid)
        case Step.LIST:
            answer.under_way = part.under_way
            answer.parts = await part.parts(described)
        case _:
            raise ApiError(Error.INVALID_REQUEST, f"there is no step {request.step}")
    return answer


def described(manifest: Manifest) -> PartDescription:
    """Of a whole snapshot: with what the others have."""
    others = [row for row in manifest.members if row["node_id"] != manifest.node_id]
    return PartDescription(
        name=manifest.name,
        uid=manifest.uid,
        is_whole=bool(manifest.members) or not manifest.uid,
        created_ms=manifest.created_ms,
        cluster_id=manifest.cluster_id,
        node_id=manifest.node_id,
        partitions=len(manifest.partitions) + sum(int(row["partitions"]) for row in others),
        size_bytes=manifest.size_bytes + sum(int(row["size_bytes"]) for row in others),
        directories=list(manifest.directories),
        held_us=manifest.held_us,
    )


def _rows(led: Mapping[TopicPartition, int]) -> list[LedTopic]:
    topics: dict[str, list[LedPartition]] = {}
    for (topic, number), epoch in led.items():
        row = LedPartition(partition_index=number, leader_epoch=epoch)
        topics.setdefault(topic, []).append(row)
    return [LedTopic(name=name, partitions=rows) for name, rows in topics.items()]
