"""Transactions and the producers behind them: look, fence, abort what hangs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.client.admin.admin_requests import AdminRequests, by_topic, check_top, value_or_error
from moldau.client.admin.admin_results import Outcomes, checked
from moldau.client.admin.group_admin_results import (
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from moldau.client.network.cluster_metadata import CoordinatorKind
from moldau.client.shared.client_errors import error_for
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TopicRequest,
)
from moldau.wire.messages.transactions import (
    InitProducerIdRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

TRANSACTION = CoordinatorKind.TRANSACTION
FENCING_TIMEOUT_MS = 1


class TransactionsAdmin(AdminRequests):
    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, list[ProducerState]]:
        """The producers that a partition's leader remembers, or the replica on `broker_id`.

        admin.describe_producers([TopicPartition("orders", 0)]).check()
        """

        async def send(node_id: int, part: list[TopicPartition]) -> Mapping[TopicPartition, Any]:
            request = DescribeProducersRequest(
                topics=[
                    TopicRequest(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(part).items()
                ]
            )
            response = await self.network.call(node_id, request)
            return {
                TopicPartition(topic.name, row.partition_index): value_or_error(
                    row,
                    [
                        ProducerState(
                            state.producer_id,
                            state.producer_epoch,
                            state.last_sequence,
                            state.last_timestamp,
                            state.coordinator_epoch,
                            state.current_txn_start_offset,
                        )
                        for state in row.active_producers
                    ],
                )
                for topic in response.topics
                for row in topic.partitions
            }

        if broker_id is None:
            return await self._from_leaders(partitions, send, timeout_ms)
        wanted = [TopicPartition(*tp) for tp in partitions]
        await self._try(timeout_ms, self.cluster.refresh_brokers)
        found: Outcomes[TopicPartition, Any] = {}
        await self._ask_each({broker_id: wanted}, send, found)
        return found

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, TransactionDescription]:
        """State, producer and partitions of each.

        admin.describe_transactions(["billing-1"]).check()["billing-1"].state
        """

        async def send(node_id: int, part: list[str]) -> Mapping[str, Any]:
            request = DescribeTransactionsRequest(transactional_ids=part)
            response = await self.network.call(node_id, request)
            return {
                row.transactional_id: value_or_error(
                    row,
                    TransactionDescription(
                        node_id,
                        row.transaction_state,
                        row.producer_id,
                        row.producer_epoch,
                        row.transaction_timeout_ms,
                        row.transaction_start_time_ms,
                        [
                            TopicPartition(t.topic, index)
                            for t in row.topics
                            for index in t.partitions
                        ],
                    ),
                )
                for row in response.transaction_states
            }

        return await self._from_coordinators(transactional_ids, TRANSACTION, send, timeout_ms)

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int = -1,
        id_pattern: str | None = None,
        timeout_ms: int | None = None,
    ) -> dict[int, list[TransactionListing]]:
        """The transactions of each coordinator by its node id, filtered where asked: by state
        (`"Ongoing"`), producer id, longer open than `duration_ms`, or a pattern of the id.

            admin.list_transactions(states=["Ongoing"])
        """
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=duration_ms,
            transactional_id_pattern=id_pattern,
        )
        version_min = 2 if id_pattern is not None else 1 if duration_ms >= 0 else 0

        async def ask(node_id: int) -> list[TransactionListing]:
            response = check_top(await self.network.call(node_id, request, version_min=version_min))
            return [
                TransactionListing(row.transactional_id, row.producer_id, row.transaction_state)
                for row in response.transaction_states
            ]

        return checked(await self._from_all(ask, timeout_ms))

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Write an abort marker by hand, for a transaction that hangs in one partition: one that
        `describe_producers` shows and no coordinator knows. See `moldau transactions`."""
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_result=False,
            topics=[
                WritableTxnMarkerTopic(
                    name=partition.topic, partition_indexes=[partition.partition]
                )
            ],
        )

        async def send(node_id: int, part: list[TopicPartition]) -> Mapping[TopicPartition, Any]:
            request = WriteTxnMarkersRequest(markers=[marker])
            response = await self.network.call(node_id, request)
            return {
                TopicPartition(topic.name, row.partition_index): value_or_error(row, None)
                for answer in response.markers
                for topic in answer.topics
                for row in topic.partitions
            }

        checked(await self._from_leaders([partition], send, timeout_ms))

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, ProducerIdAndEpoch]:
        """Abort what these producers have open, and refuse whatever they send from now on.

        admin.fence_producers(["billing-1"]).check()
        """

        async def send(node_id: int, part: list[str]) -> Mapping[str, Any]:
            found: dict[str, Any] = {}
            for name in part:
                request = InitProducerIdRequest(
                    transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS
                )
                row = await self.network.call(node_id, request)
                if row.error_code == Error.INVALID_PRODUCER_EPOCH:
                    found[name] = error_for(Error.PRODUCER_FENCED)
                else:
                    pair = ProducerIdAndEpoch(row.producer_id, row.producer_epoch)
                    found[name] = value_or_error(row, pair)
            return found

        return await self._from_coordinators(transactional_ids, TRANSACTION, send, timeout_ms)

    async def force_terminate_transaction(
        self, transactional_id: str, *, timeout_ms: int | None = None
    ) -> None:
        """End whatever this id has open, its producer with it."""
        checked(await self.fence_producers([transactional_id], timeout_ms=timeout_ms))
