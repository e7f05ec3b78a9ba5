"""What a transactional producer says to its coordinator, and how it reads the answers.

On the loop. The rules are in transaction_manager.py; here every request is repeated until it is
answered for good: the coordinator is looked up again when it has moved, a busy one is asked again
after a pause. Under transaction version 2 (KIP-890) brokers add partitions and groups themselves
and every end of a transaction hands out the next epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moldau.client.consumer.consumer_records import ConsumerGroupMetadata, OffsetAndMetadata
from moldau.client.network.cluster_metadata import Cluster, CoordinatorKind
from moldau.client.producer.sequence_numbers import SequenceBook
from moldau.client.producer.transaction_manager import (
    Remedy,
    TransactionMachine,
    coordinator_error,
    remedy_for,
)
from moldau.client.shared.client_errors import AuthenticationError, KafkaError
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.wire.schema import Message

log = logging.getLogger("moldau.client")

PRODUCER_ID_SET = "ProducerId set to %d with epoch %d"
OF_TRANSACTIONS = f"[Producer clientId=%s, transactionalId=%s] {PRODUCER_ID_SET}"
ADD_PARTITIONS_VERSION_MAX = 3
"""Later ones are spoken between brokers."""
END_VERSION_LAST_V1 = 4
OFFSETS_VERSION_LAST_V1 = 4
CONCURRENT_PAUSE_S = 0.02
END_TXN, PRODUCE = 26, 0

Codes = Callable[[Any], Iterable[int]]


class Transactions:
    def __init__(
        self,
        machine: TransactionMachine,
        book: SequenceBook,
        cluster: Cluster,
        *,
        transaction_timeout_ms: int,
        enable_two_phase_commit: bool = False,
    ) -> None:
        self.machine = machine
        self.book = book
        self._cluster = cluster
        self._timeout_ms = transaction_timeout_ms
        self._two_phase = enable_two_phase_commit
        self._adding = asyncio.Lock()
        """Held while the coordinator is told of partitions."""

    async def initialize(self) -> None:
        """A producer id and an epoch that fences everybody who had the transactional id before."""
        self.machine.begin_initializing()
        # Kafka's producers say so: none, until the coordinator has given one.
        self._say(-1, -1)
        await self._new_epoch(is_first=True)

    async def learn_version(self) -> None:
        """Whether the coordinator speaks transactions of version 2."""
        node_id = await self._cluster.coordinator(
            self.machine.transactional_id, CoordinatorKind.TRANSACTION
        )
        connection = await self._cluster.network.connection(node_id)
        answer = connection.api_versions
        levels = (
            {}
            if answer is None
            else {row.name: row.max_version_level for row in answer.finalized_features}
        )
        self.machine.is_v2 = (
            levels.get("transaction.version", 0) >= 2
            and connection.version_for(END_TXN) > END_VERSION_LAST_V1
            and connection.version_for(PRODUCE) > 11
        )

    async def add_partitions(self) -> None:
        """Tell the coordinator of partitions that are about to be written to (version 1)."""
        async with self._adding:
            new = sorted(self.machine.new_partitions)
            if new:
                await self._add(new)

    async def _add(self, new: list[TopicPartition]) -> None:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, partition in new:
            row = topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic))
            row.partitions.append(partition)

        def request() -> Message:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.machine.transactional_id,
                v3_and_below_producer_id=self.book.producer_id,
                v3_and_below_producer_epoch=self.book.producer_epoch,
                v3_and_below_topics=list(topics.values()),
            )

        def codes(response: Any) -> Iterable[int]:
            found = [
                row.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ]
            # The partition that is at fault says more than those that were not tried for it.
            return sorted(found, key=lambda code: code == Error.OPERATION_NOT_ATTEMPTED)

        try:
            await self._ask(request, codes, version_max=ADD_PARTITIONS_VERSION_MAX)
        except KafkaError:
            return  # The machine knows; the user hears of it from the next call.
        self.machine.partitions_added(new)

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None:
        machine = self.machine
        machine.check_send()
        if not offsets:
            return
        if not machine.is_v2:
            await self._ask(
                lambda: AddOffsetsToTxnRequest(
                    transactional_id=machine.transactional_id,
                    producer_id=self.book.producer_id,
                    producer_epoch=self.book.producer_epoch,
                    group_id=group.group_id,
                ),
                _own_code,
            )
        machine.is_started = True
        request = self._offsets_request(offsets, group)
        await self._ask(
            lambda: request,
            lambda response: [
                row.error_code for topic in response.topics for row in topic.partitions
            ],
            version_max=None if machine.is_v2 else OFFSETS_VERSION_LAST_V1,
            group_id=group.group_id,
        )

    async def end(self, *, is_commit: bool) -> None:
        """After everything was sent and answered; a transaction without content ends silently."""
        machine = self.machine
        async with self._adding:
            # Whoever is aborted may still be adding partitions. Only afterwards is it known whether
            # the coordinator has a transaction to end; it must not be left to the next one.
            pass
        lost_mapping = (
            isinstance(machine.last_error, KafkaError)
            and machine.last_error.code == Error.INVALID_PRODUCER_ID_MAPPING
        )
        if machine.is_started and not lost_mapping:
            response = await self._ask(
                lambda: EndTxnRequest(
                    transactional_id=machine.transactional_id,
                    producer_id=self.book.producer_id,
                    producer_epoch=self.book.producer_epoch,
                    committed=is_commit,
                ),
                _own_code,
                version_max=None if machine.is_v2 else END_VERSION_LAST_V1,
            )
            if machine.is_v2 and response.producer_id >= 0:
                self.book.set_identity(response.producer_id, response.producer_epoch)
                self.book.restart_all()
        # Records that were dropped while under way may still arrive: under version 1 only a new
        # epoch keeps them out of the next transaction, and tells which sequence is next.
        is_unsure = not machine.is_v2 and self.book.has_unresolved
        if machine.needs_new_epoch or lost_mapping or is_unsure:
            machine.begin_new_epoch()
            await self._new_epoch(is_first=False)
        else:
            machine.ended()

    async def _new_epoch(self, *, is_first: bool) -> None:
        machine, book = self.machine, self.book
        await self.learn_version()
        response = await self._ask(
            lambda: InitProducerIdRequest(
                transactional_id=machine.transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=-1 if is_first else book.producer_id,
                producer_epoch=-1 if is_first else book.producer_epoch,
                enable2_pc=self._two_phase,
            ),
            _own_code,
        )
        book.set_identity(response.producer_id, response.producer_epoch)
        self._say(response.producer_id, response.producer_epoch)
        book.restart_all()
        machine.initialized()

    def _say(self, producer_id: int, epoch: int) -> None:
        who = (self._cluster.network.client_id, self.machine.transactional_id)
        log.info(OF_TRANSACTIONS, *who, producer_id, epoch)

    def _offsets_request(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> TxnOffsetCommitRequest:
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, partition), position in offsets.items():
            row = topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic))
            row.partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=position.offset,
                    committed_leader_epoch=position.leader_epoch,
                    committed_metadata=position.metadata,
                )
            )
        return TxnOffsetCommitRequest(
            transactional_id=self.machine.transactional_id,
            group_id=group.group_id,
            producer_id=self.book.producer_id,
            producer_epoch=self.book.producer_epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=list(topics.values()),
        )

    async def _ask(
        self,
        make: Callable[[], Message],
        codes: Codes,
        *,
        version_max: int | None = None,
        group_id: str | None = None,
    ) -> Any:
        """The answer without an error; raises, and tells the machine, what no retry mends."""
        key, kind = self.machine.transactional_id, CoordinatorKind.TRANSACTION
        if group_id is not None:
            key, kind = group_id, CoordinatorKind.GROUP
        cluster, failures = self._cluster, 0
        while True:
            response = None
            try:
                node_id = await cluster.coordinator(key, kind)
                response = await cluster.network.call(node_id, make(), version_max=version_max)
                code = next((code for code in codes(response) if code), 0)
            except AuthenticationError as fault:
                self.machine.fail(fault, is_fatal=True)
                raise
            except KafkaError as fault:
                code = int(fault.code)
                if fault.retriable:
                    code = int(Error.NOT_COORDINATOR)
            if not code:
                return response
            remedy = remedy_for(code)
            if remedy is Remedy.FIND_COORDINATOR:
                cluster.forget_coordinator(key, kind)
            elif remedy is not Remedy.RETRY:
                error = coordinator_error(code)
                self.machine.fail(error, is_fatal=remedy is Remedy.GIVE_UP)
                raise error
            failures += 1
            if code == Error.CONCURRENT_TRANSACTIONS:
                await asyncio.sleep(CONCURRENT_PAUSE_S)
            else:
                await cluster.network.pause(failures)


def _own_code(response: Any) -> Iterable[int]:
    return (response.error_code,)
