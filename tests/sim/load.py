"""What clients do to the cluster meanwhile: write, read, commit offsets, run transactions.

Every writer keeps one batch at a time under way for a partition and sends it again, with the same
sequence number, until it is acknowledged. So each batch has to be in the log once, in order, and
for good when its acknowledgement came.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from moldau.metadata.znode_tree import ZnodeTree
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.net.peers import PeerUnreachable
from moldau.records.batch import whole_headers
from moldau.records.batch_codec import Record, encode_batch
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from moldau.wire.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from tests.sim.client import Client
from tests.sim.invariants import Batch, Invariants
from tests.sim.moves import Moves
from tests.sim.topics import CLIENTS as TOPIC_CLIENTS
from tests.sim.topics import Topics

TOPIC = "t"
PARTITIONS = 2
OFFSETS = TopicPartition("__consumer_offsets", 0)
TRANSACTIONS = TopicPartition("__transaction_state", 0)
BEHIND = frozenset({Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.OFFSET_OUT_OF_RANGE})
DISOWNED = frozenset({Error.INVALID_PRODUCER_ID_MAPPING, Error.INVALID_PRODUCER_EPOCH})
LATEST = -1
MOVES_RATIO = 0.4
"""Lives in which replicas are moved."""
TOPICS_RATIO = 0.5
"""Lives in which topics are made and deleted."""


class Load:
    def __init__(self, client: Client, invariants: Invariants, tree: ZnodeTree) -> None:
        self._client = client
        self._invariants = invariants
        self._tasks: list[asyncio.Task[None]] = []
        self.moves = Moves(client, TOPIC, PARTITIONS)
        self.with_moves = True
        self.topics = Topics(client, invariants, tree)
        self.with_topics = True
        self._coordinator: int | None = None
        """Of the transactions."""
        self.is_ending = False
        self.acknowledged = 0
        self.transactions = 0
        self.commits = 0
        self.batches_read = 0

    def start(self, min_insync: int, producers: int) -> None:
        self._client.loop.call_soon(self._start, min_insync, producers)

    def _start(self, min_insync: int, producers: int) -> None:
        self._tasks.append(self._client.loop.create_task(self._run(min_insync, producers)))

    async def _run(self, min_insync: int, producers: int) -> None:
        await self._client.create_topic(TOPIC, PARTITIONS, min_insync)
        works = [self._produce(number) for number in range(producers)]
        works += [self._read(partition) for partition in range(PARTITIONS)]
        works += [self._commit_offsets(), self._run_transactions()]
        chance = self._chance("moves")
        if self.with_moves and chance.random() < MOVES_RATIO:
            works.append(self.moves.run(chance))
        if self.with_topics and self._chance("topics").random() < TOPICS_RATIO:
            works += [
                self.topics.run(number, self._chance(f"topics/{number}"))
                for number in range(TOPIC_CLIENTS)
            ]
        self._tasks += [self._client.loop.create_task(work) for work in works]

    def end(self) -> None:
        """What is under way is finished, nothing new begins."""
        self.is_ending = self.moves.is_ending = self.topics.is_ending = True

    @property
    def is_over(self) -> bool:
        return bool(self._tasks) and all(task.done() for task in self._tasks)

    def unfinished(self) -> str:
        return ", ".join(
            str(getattr(task.get_coro(), "__qualname__", ""))
            for task in self._tasks
            if not task.done()
        )

    def _chance(self, name: str) -> random.Random:
        return self._client.world.chance(f"load/{name}")

    # Writing

    async def _produce(self, number: int) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        while True:
            answer = await self._client.ask_any(request, 4, f"init-{number}")
            if not answer.error_code:
                break
            self._client.should_retry(answer.error_code, "a producer id")
            await self._client.pause()
        works = [
            self._produce_to(partition, number, answer.producer_id)
            for partition in range(PARTITIONS)
        ]
        await asyncio.gather(*works)

    async def _produce_to(self, partition: int, number: int, producer_id: int) -> None:
        chance, sequence = self._chance(f"producer/{number}/{partition}"), 0
        while not self.is_ending:
            await asyncio.sleep(chance.uniform(0.005, 0.4))
            count = chance.randint(1, 3)
            value = b"p%d-%d-%d" % (number, partition, sequence)
            rows = [Record(0, 1_600_000_000_000, None, value) for _ in range(count)]
            batch = encode_batch(
                rows, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
            )
            await self._write(partition, batch, value, f"p{number}-{partition}")
            sequence += count

    async def _write(
        self, partition: int, batch: bytes, value: bytes, lane: str, transaction: str | None = None
    ) -> bool:
        """False if the transaction has to be aborted."""
        client = self._client
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            transactional_id=transaction,
            acks=-1,
            timeout_ms=1_500,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        while True:
            leader = await client.leader(TOPIC, partition)
            began_us = client.world.now_us
            try:
                answer = await client.call(leader, request, 11, lane)
            except PeerUnreachable:
                await client.forget_leader(TOPIC, partition)
                continue
            row = answer.responses[0].partition_responses[0]
            if row.error_code == 0:
                self.acknowledged += 1
                place = TopicPartition(TOPIC, partition)
                client.world.note(f"b{leader} acknowledges {place}@{row.base_offset} {value!r}")
                self._invariants.acknowledged(place, row.base_offset, value)
                return True
            if transaction is not None and self._aborts(row.error_code, began_us):
                return False
            if not self._may_retry(row.error_code, f"{value!r} at b{leader}", partition, leader):
                return False
            await client.forget_leader(TOPIC, partition)

    def _aborts(self, code: int, since_us: int) -> bool:
        """Whether the producer has to begin anew. A leader asks the transaction's coordinator about
        the write; if that one was cut off and replaced, it does not know of the producer, and says
        so as long as it does not know that either."""
        if code == Error.TRANSACTION_ABORTABLE:
            return True
        return code in DISOWNED and self._invariants.had_old_leader(TRANSACTIONS, since_us)

    def _may_retry(self, code: int, what: str, partition: int, leader: int) -> bool:
        """A client that wrote to the newest leader, or read from it, may be sent to one that was
        cut off before: its log is behind, and it has to refuse what does not follow."""
        is_newest = self._invariants.is_newest(TopicPartition(TOPIC, partition), leader)
        return (code in BEHIND and not is_newest) or self._client.should_retry(code, what)

    # Reading

    async def _read(self, partition: int) -> None:
        client, offset, latest = self._client, 0, 0
        while not self.is_ending:
            leader = await client.leader(TOPIC, partition)
            try:
                latest = await self._check_latest(leader, partition, latest)
                answer = await client.call(leader, _fetch(partition, offset), 12, f"r{partition}")
            except PeerUnreachable:
                await client.forget_leader(TOPIC, partition)
                continue
            row = answer.responses[0].partitions[0] if answer.responses else None
            if row is None or row.error_code:
                code = answer.error_code if row is None else row.error_code
                what = f"a fetch from {offset} at b{leader}"
                if code and not self._may_retry(code, what, partition, leader):
                    return
                await client.forget_leader(TOPIC, partition)
                continue
            content = bytes(row.records or b"")
            for position, header in whole_headers(content):
                piece = content[position : position + header.size_bytes]
                batch = Batch(header.base_offset, header.offset_end, piece)
                self._invariants.read(TopicPartition(TOPIC, partition), batch)
                self.batches_read += 1
                offset = header.offset_end
            await asyncio.sleep(0.2)

    async def _check_latest(self, leader: int, partition: int, latest: int) -> int:
        """The end that a reader was told of never goes back."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])]
        )
        answer = await self._client.call(leader, request, 7, f"r{partition}")
        row = answer.topics[0].partitions[0]
        if row.error_code:
            self._client.should_retry(row.error_code, f"the end of partition {partition}")
            return latest
        place = TopicPartition(TOPIC, partition)
        if row.offset < latest and self._invariants.is_newest(place, leader):
            self._client.world.fail(
                f"b{leader} names {row.offset} as the end of {TOPIC}-{partition} after {latest}"
            )
        return max(latest, int(row.offset))

    # Groups

    async def _commit_offsets(self) -> None:
        client, chance = self._client, self._chance("groups")
        number, offset = 0, 0
        while not self.is_ending:
            await asyncio.sleep(chance.uniform(0.1, 0.6))
            group = f"g{number}"
            offset += 1
            if await self._commit(group, offset):
                self.commits += 1
                await self._check_committed(group, offset)
            else:
                # An attempt of unknown fate may take effect later: it must not be taken for a
                # loss, so another group goes on.
                number, offset = number + 1, 0
        client.world.note(f"{self.commits} offsets were committed")

    async def _commit(self, group: str, offset: int) -> bool:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
        )
        node = await self._client.coordinator(group, 0)
        try:
            answer = await self._client.call(node, request, 8, "groups")
        except PeerUnreachable:
            return False
        code = answer.topics[0].partitions[0].error_code
        return not (code and self._client.should_retry(code, f"an offset of {group}"))

    async def _check_committed(self, group: str, offset: int) -> None:
        request = OffsetFetchRequest(
            group_id=group, topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
        )
        while True:
            node = await self._client.coordinator(group, 0)
            try:
                answer = await self._client.call(node, request, 7, "groups")
            except PeerUnreachable:
                continue
            if answer.error_code:
                self._client.should_retry(answer.error_code, f"the offsets of {group}")
                await self._client.pause()
                continue
            found = answer.topics[0].partitions[0].committed_offset
            if found == offset:
                return
            if self._invariants.is_newest(OFFSETS, node):
                self._client.world.fail(f"b{node} has {found} for {group}, not {offset}")
                return
            await self._client.pause()

    # Transactions

    async def _run_transactions(self) -> None:
        """One after the other; a producer whose transaction must be aborted begins anew."""
        chance = self._chance("transactions")
        while not self.is_ending:
            begin = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
            ids = await self._ask_coordinator(begin, 4, _code)
            sequences = [0] * PARTITIONS
            is_well = True
            while is_well and not self.is_ending:
                await asyncio.sleep(chance.uniform(0.1, 1.5))
                is_well = await self._run_transaction(ids, sequences, chance)

    async def _run_transaction(self, ids: Any, sequences: list[int], chance: random.Random) -> bool:
        partition = chance.randrange(PARTITIONS)
        producer = ids.producer_id, ids.producer_epoch
        adding = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=ids.producer_id,
            v3_and_below_producer_epoch=ids.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])],
        )
        await self._ask_coordinator(adding, 3, _first_code)
        self.transactions += 1
        value = b"x-%d" % self.transactions
        batch = encode_batch(
            [Record(0, 1_600_000_000_000, None, value)],
            producer_id=ids.producer_id,
            producer_epoch=ids.producer_epoch,
            base_sequence=sequences[partition],
            transactional=True,
        )
        sequences[partition] += 1
        is_written = await self._write(partition, batch, value, "transactions", "x")
        is_kept = is_written and chance.random() < 0.7
        end = EndTxnRequest(
            transactional_id="x",
            producer_id=ids.producer_id,
            producer_epoch=ids.producer_epoch,
            committed=is_kept,
        )
        self._invariants.fates[value] = is_kept
        await self._ask_coordinator(end, 3, _code)
        self._client.world.note(f"{value!r} of {producer} is {'kept' if is_kept else 'dropped'}")
        return is_written

    async def _ask_coordinator(self, request: Any, version: int, code_of: Any) -> Any:
        while True:
            # As every client does: with whom it went well last time it goes on.
            if self._coordinator is None:
                self._coordinator = await self._client.coordinator("x", 1)
            node = self._coordinator
            try:
                answer = await self._client.call(node, request, version, "transactions")
            except PeerUnreachable:
                self._coordinator = None
                await self._client.pause()
                continue
            code = code_of(answer)
            if not code:
                return answer
            self._coordinator = None
            if self._invariants.is_newest(TRANSACTIONS, node) and not self._client.should_retry(
                code, f"{type(request).__name__} at b{node}"
            ):
                return answer
            await self._client.pause()


def _code(answer: Any) -> int:
    return int(answer.error_code)


def _first_code(answer: Any) -> int:
    row = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
    return Error(row.partition_error_code)


def _fetch(partition: int, offset: int) -> FetchRequest:
    place = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=TOPIC, partitions=[place])],
    )
