"""Who a producer is to the brokers: its id, its sequences and its transaction, as the sender asks.

On the loop. An idempotent producer gets an id from any broker when it first sends; a transactional
one has it from `init_transactions`. What has to be said before records may go (an id to be asked
for, partitions to be added to a transaction) is handed to the sender as work.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from moldau.client.network.cluster_metadata import Cluster
from moldau.client.producer.producer_batch import ProducerBatch
from moldau.client.producer.producer_transactions import PRODUCER_ID_SET, Transactions
from moldau.client.producer.sequence_numbers import SequenceBook
from moldau.client.producer.transaction_manager import TransactionState
from moldau.client.shared.client_errors import (
    AuthenticationError,
    KafkaError,
    TransactionAbortedError,
    error_class,
    error_for,
)
from moldau.config.setting_definition import INT_MAX
from moldau.model.errors import Error
from moldau.wire.messages.transactions import InitProducerIdRequest

log = logging.getLogger("moldau.client")

_ENDING_BADLY = (
    TransactionState.ABORTING_TRANSACTION,
    TransactionState.ABORTABLE_ERROR,
    TransactionState.FATAL_ERROR,
)


class Identity:
    def __init__(
        self, book: SequenceBook, cluster: Cluster, transactions: Transactions | None
    ) -> None:
        self.book = book
        self.transactions = transactions
        self.fatal_error: BaseException | None = None
        self._cluster = cluster
        self._machine = None if transactions is None else transactions.machine

    @property
    def is_known(self) -> bool:
        return self.book.has_identity

    @property
    def is_v1(self) -> bool:
        """Whether brokers wait to be told which partitions a transaction writes to."""
        return self._machine is not None and not self._machine.is_v2

    def refusal(self) -> BaseException | None:
        """Why what waits must not be sent any more."""
        machine = self._machine
        if machine is None or machine.state not in _ENDING_BADLY:
            return self.fatal_error
        if machine.state is TransactionState.ABORTING_TRANSACTION:
            return TransactionAbortedError("Failing batch since transaction was aborted")
        return machine.last_error

    def work(self) -> tuple[str, Coroutine[Any, Any, None]] | None:
        """What has to be done before more can be sent."""
        if self.transactions is None:
            self.book.bump_if_broken()
            if not self.book.has_identity and self.fatal_error is None:
                return "producer id", self._ask_for_id()
        elif self.transactions.machine.new_partitions and not self.transactions.machine.has_error:
            return "transaction partitions", self.transactions.add_partitions()
        return None

    def may_send(self, batch: ProducerBatch) -> bool:
        machine = self._machine
        if machine is not None and not machine.may_send_to(batch.topic_partition):
            return False
        return self.book.may_send(batch)

    def assign(self, batch: ProducerBatch) -> None:
        self.book.assign(batch)

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        self.book.acked(batch, base_offset)

    def failed(self, batch: ProducerBatch, error: BaseException, *, is_refused: bool) -> None:
        machine = self._machine
        if machine is not None and not isinstance(error, TransactionAbortedError):
            known = error if isinstance(error, KafkaError) else KafkaError(str(error))
            if not machine.has_error:
                machine.batch_failed(known)
        elif isinstance(error, KafkaError) and error.code == Error.CLUSTER_AUTHORIZATION_FAILED:
            self.fatal_error = error
        self.book.failed(batch, is_refused=is_refused)

    async def _ask_for_id(self) -> None:
        """Any broker gives one to a producer without transactions."""
        failures = 0
        while not self.book.has_identity:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT_MAX)
            response = None
            try:
                response = await self._cluster.network.call_any(request)
                code = response.error_code
            except KafkaError as fault:
                if isinstance(fault, AuthenticationError):
                    self.fatal_error = fault
                    return
                code = fault.code
            if response is not None and code == Error.NONE:
                self.book.set_identity(response.producer_id, response.producer_epoch)
                log.info(PRODUCER_ID_SET, response.producer_id, response.producer_epoch)
            elif not error_class(code).retriable:
                self.fatal_error = error_for(code)
                return
            else:
                failures += 1
                await self._cluster.network.pause(failures)
