"""Transactions as the producer offers them, and its identity for other processes.

`TransactionalProducer` is the base class of `ProducerCore`. Each call waits up to
max.block.ms and may be repeated after a time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, Self

from moldau.client.consumer.consumer_records import ConsumerGroupMetadata, OffsetAndMetadata
from moldau.client.producer.producer_batch import ProducerBatch
from moldau.client.producer.producer_session import ProducerSession
from moldau.client.producer.producer_transactions import Transactions
from moldau.client.producer.record_append import F, Pipeline
from moldau.client.producer.sequence_numbers import SequenceBook
from moldau.client.producer.transaction_manager import TransactionMachine
from moldau.client.shared.client_errors import IllegalStateError, KafkaError, KafkaTimeoutError
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.model.names import TopicPartition


class TransactionalProducer(Generic[F]):
    config: ProducerConfig
    pipeline: Pipeline[F]
    book: SequenceBook
    machine: TransactionMachine | None
    transactions: Transactions | None

    def __init__(
        self,
        future: Callable[[ProducerBatch, int, int], F],
        config: Mapping[str, Any] | None = None,
        /,
        **settings: Any,
    ) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        raise NotImplementedError

    async def _flush(self) -> None:
        raise NotImplementedError

    async def init_transactions(self) -> None:
        """Fence earlier producers of the transactional id and end what they left open."""
        transactions = await self._transactions()
        async with self._max_block("InitProducerId"):
            await transactions.initialize()

    async def begin_transaction(self) -> None:
        (await self._transactions()).machine.begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit consumed positions with the transaction.

        `group` is what `consumer.group_metadata()` says, or the group's name."""
        transactions = await self._transactions()
        who = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        rows = {TopicPartition(*tp): _position(given) for tp, given in offsets.items()}
        async with self._max_block("TxnOffsetCommit"):
            await transactions.send_offsets(rows, who)

    async def commit_transaction(self) -> None:
        """Flush, then make everything of the transaction visible at once."""
        transactions = await self._transactions()
        transactions.machine.begin_commit()
        async with self._max_block("EndTxn(true)"):
            await self._flush()
            transactions.machine.raise_error()
            await transactions.end(is_commit=True)

    async def abort_transaction(self) -> None:
        """Drop what was not sent, and have readers of committed records skip the rest."""
        transactions = await self._transactions()
        transactions.machine.begin_abort()
        async with self._max_block("EndTxn(false)"):
            await self._flush()
            await transactions.end(is_commit=False)

    @property
    def is_fenced(self) -> bool:
        """Nothing can be ended any more, neither by commit nor by abort."""
        return self.machine is not None and self.machine.is_fatal

    @property
    def producer_id(self) -> int:
        """-1 until the first record is sent or `init_transactions` is done."""
        return self.book.producer_id

    @property
    def producer_epoch(self) -> int:
        return self.book.producer_epoch

    @property
    def sequences(self) -> dict[TopicPartition, int]:
        """The next sequence of every partition written to in this epoch."""
        return self.book.next_sequences()

    def session(self) -> ProducerSession:
        """Who this producer is now, for `attach` and `adopt` in other processes. Flush first."""
        machine = self.machine
        return ProducerSession(
            None if machine is None else machine.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.sequences,
            () if machine is None else tuple(sorted(machine.partitions)),
            machine is not None and machine.is_v2,
        )

    @classmethod
    def attach(
        cls,
        future: Callable[[ProducerBatch, int, int], F],
        session: ProducerSession,
        config: Mapping[str, Any] | None = None,
        /,
        **settings: Any,
    ) -> Self:
        """A producer that writes in another one's transaction, as that one.

        It may send and flush; who began the transaction ends it, after `adopt`ing the sessions of
        all who wrote."""
        if session.transactional_id is not None:
            settings["transactional.id"] = session.transactional_id
        producer = cls(future, config, **settings)
        producer.adopt(session, is_new=True)
        return producer

    def adopt(self, session: ProducerSession, *, is_new: bool = False) -> None:
        """Go on where another process stopped that writes with this producer's id and epoch."""
        identity = (session.producer_id, session.producer_epoch)
        if not is_new and identity != (self.producer_id, self.producer_epoch):
            raise IllegalStateError(
                f"The session is of producer id {identity[0]}, epoch {identity[1]}; this producer "
                f"has {self.producer_id} and {self.producer_epoch}"
            )
        self.book.set_identity(*identity)
        self.book.adopt({TopicPartition(*tp): n for tp, n in session.sequences.items()})
        machine = self.machine
        if machine is not None:
            partitions = [TopicPartition(*tp) for tp in session.partitions]
            if is_new:
                machine.is_v2 = session.is_v2
                machine.attach(partitions)
            else:
                machine.join(partitions)

    async def _transactions(self) -> Transactions:
        await self.start()
        self.pipeline.check()
        if self.transactions is None:
            raise IllegalStateError(
                "Transactional method invoked on a non-transactional producer: set transactional.id"
            )
        return self.transactions

    @asynccontextmanager
    async def _max_block(self, what: str) -> AsyncIterator[None]:
        limit_ms = self.config.max_block_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                yield
        except TimeoutError as fault:
            if isinstance(fault, KafkaError):
                raise
            raise KafkaTimeoutError(
                f"Timeout expired after {limit_ms}ms while awaiting {what}"
            ) from None


def _position(given: Any) -> OffsetAndMetadata:
    return given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(int(given))
