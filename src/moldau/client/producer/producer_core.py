"""What both producers do: start and close, flush, transactions, waiting for metadata and room.

Runs on one event loop: the user's (`asyncio_producer.py`) or the background loop of the process
(`blocking_producer.py`). The path of a record is in `record_append.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from time import monotonic
from typing import Any

from moldau.client.network.cluster_metadata import Cluster, PartitionInfo
from moldau.client.network.network_client import OTHER_LOOP, Network, NetworkSettings
from moldau.client.producer.produce_responses import Answers
from moldau.client.producer.produce_sender import Sender, SenderSettings, learn_topic
from moldau.client.producer.producer_batch import OnDelivery, ProducerBatch
from moldau.client.producer.producer_identity import Identity
from moldau.client.producer.producer_transactions import Transactions
from moldau.client.producer.record_accumulator import Accumulator
from moldau.client.producer.record_append import F, Pipeline
from moldau.client.producer.sequence_numbers import SequenceBook
from moldau.client.producer.transaction_manager import TransactionMachine
from moldau.client.producer.transactional_producer import TransactionalProducer
from moldau.client.shared.background_loop import tell_when_lost
from moldau.client.shared.client_errors import (
    BufferExhaustedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    error_for,
)
from moldau.client.shared.interceptors import ProducerRecord
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.model.errors import Error
from moldau.records.compression import Codec

log = logging.getLogger("moldau.client")

ROOM_CHECK_S = 0.05
"""A sender without memory looks again this often, even if too little was freed to be woken."""
_numbers = count(1)


class ProducerCore(TransactionalProducer[F]):
    """`future` is what is made for each record, of the kind that the face gives its user."""

    def __init__(
        self,
        future: Callable[[ProducerBatch, int, int], F],
        config: Mapping[str, Any] | None = None,
        /,
        **settings: Any,
    ) -> None:
        parsed, remarks = ProducerConfig.parse(config, **settings)
        for remark in remarks:
            log.warning("producer: %s", remark)
        self.config: ProducerConfig = parsed
        transactional_id = parsed.transactional_id
        name = transactional_id or next(_numbers)
        self.client_id = parsed.client_id or f"producer-{name}"
        self.counters: Counter[str] = Counter()
        self.book = SequenceBook(is_transactional=transactional_id is not None)
        self.machine = None if transactional_id is None else TransactionMachine(transactional_id)
        accumulator = Accumulator(
            batch_size_bytes=parsed.batch_size,
            linger_ms=parsed.linger_ms,
            buffer_memory_bytes=parsed.buffer_memory,
            delivery_timeout_ms=parsed.delivery_timeout_ms,
            # Who has set a size wants that size.
            growth_bytes_max=0 if "batch.size" in parsed.given else parsed.max_request_size // 4,
        )
        self.pipeline = Pipeline(parsed, accumulator, self.machine, future)
        self.accumulator = accumulator
        self.on_room: Callable[[], None] = self._let_in
        self._network: Network | None = None
        self._room_bytes = accumulator.buffer_memory_bytes // 4
        self._starved: set[asyncio.Future[None]] = set()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._is_inherited = False
        # Fails early where the setting is wrong, not on the loop later.
        self._bootstrap = Network(
            parsed.bootstrap_servers,
            client_id=self.client_id,
            settings=NetworkSettings.of(parsed, "producer"),
        )

    async def start(self) -> None:
        """Bind to the running loop; done by the first call that needs it."""
        self.pipeline.check()
        if self._network is not None:
            self._check_loop()
            return
        self.loop = asyncio.get_running_loop()
        tell_when_lost(self)
        config, pipeline = self.config, self.pipeline
        network = self._network = self._bootstrap
        cluster = self.cluster = Cluster(network, metadata_max_age_ms=config.metadata_max_age_ms)
        self.transactions = None
        if self.machine is not None:
            self.transactions = Transactions(
                self.machine,
                self.book,
                cluster,
                transaction_timeout_ms=config.transaction_timeout_ms,
                enable_two_phase_commit=config.transaction_two_phase_commit_enable,
            )
        identity = None
        if config.enable_idempotence:
            identity = Identity(self.book, cluster, self.transactions)
        answers = Answers(
            pipeline=pipeline,
            cluster=cluster,
            identity=identity,
            retries=config.retries,
            counters=self.counters,
            on_room=lambda: self.on_room(),
        )
        self.sender = Sender(
            _sender_settings(config),
            network=network,
            cluster=cluster,
            pipeline=pipeline,
            identity=identity,
            answers=answers,
            counters=self.counters,
        )
        pipeline.wake = self.sender.wake

    async def send_record(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> F:
        args: tuple[Any, ...] = (*record, on_delivery)
        if self.pipeline.has_stages:
            args = self.pipeline.prepare(record, on_delivery)
        deadline = self._deadline()
        future = None
        if not self.pipeline.missing_partition(args[0], args[4]):
            future = self.pipeline.place(*args)
        while future is None:
            await self.wait_for_place(args[0], args[4], deadline)
            future = self.pipeline.place(*args)
        return future

    async def send_many(
        self, topic: str, values: Sequence[Any], keys: Sequence[Any] | None
    ) -> tuple[list[ProducerBatch], int]:
        """The batches that the values are in, and how many they are."""
        await self.start()
        values = as_list(values)
        batches: dict[ProducerBatch, None] = {}
        if keys is not None or self.pipeline.has_stages:
            given = [None] * len(values) if keys is None else as_list(keys)
            for value, key in zip(values, given, strict=True):
                future = await self.send_record(ProducerRecord(topic, value, key), None)
                batches[future._batch] = None
            return list(batches), len(values)
        filled: list[ProducerBatch] = []
        index, end = 0, len(values)
        deadline = self._deadline()
        while (taken := self.pipeline.place_many(topic, values, index, filled)) < end:
            if taken > index:
                deadline = self._deadline()
            index = taken
            await self.wait_for_place(topic, None, deadline)
        return filled, end

    def _deadline(self) -> float:
        return monotonic() + self.config.max_block_ms / 1000

    async def wait_for_place(self, topic: str, partition: int | None, deadline: float) -> None:
        """Until there may be a place for a record; raises when max.block.ms has passed."""
        await self.open_topic(topic, partition, deadline)
        if self.accumulator.free_bytes < self._room_bytes:
            await self._wait_for_room(deadline)

    async def open_topic(self, topic: str, partition: int | None, deadline: float) -> None:
        """Have the topic's metadata, and that partition in them."""
        await self.start()
        self.pipeline.check()
        left_ms = max(0, int((deadline - monotonic()) * 1000))
        if topic not in self.pipeline.lanes:
            await self.cluster.partitions_for(topic, left_ms)
            learn_topic(self.pipeline, self.cluster, topic)
        if self.pipeline.missing_partition(topic, partition):
            await self.cluster.refresh([topic], timeout_ms=left_ms)
            learn_topic(self.pipeline, self.cluster, topic)
        if self.pipeline.missing_partition(topic, partition):
            known = self.pipeline.lanes[topic].view.partition_count
            raise error_for(
                Error.UNKNOWN_TOPIC_OR_PARTITION,
                f"Partition {partition} of topic {topic} with partition count {known} is not "
                "present in metadata",
            )

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        await self.start()
        return await self.cluster.partitions_for(topic, self.config.max_block_ms)

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until all of it is stored or given up."""
        try:
            async with asyncio.timeout(timeout):
                await self._flush()
        except TimeoutError:
            raise KafkaTimeoutError(
                f"Flushing was not done within {timeout} s: {self.unsent()} records are under way"
            ) from None

    async def close(self, timeout: float | None = None) -> None:
        """Flush, then let go of everything; what is not sent within `timeout` seconds fails."""
        if self._is_inherited or (self.pipeline.refusal is not None and self._network is None):
            return
        self._check_loop()
        if self._network is not None:
            try:
                async with asyncio.timeout(timeout):
                    await self._flush()
            except TimeoutError:
                log.warning("producer %s closes before all records were sent", self.client_id)
        self.pipeline.refusal = IllegalStateError(
            "Cannot perform operation after producer has been closed"
        )
        network, self._network = self._network, None
        if network is not None:
            self.sender.drop_everything(KafkaError("Producer is closed forcefully."))
            self.sender.stop()
            await network.close()
        self.pipeline.close()
        self.on_room()

    def unsent(self) -> int:
        """How many records there are whose outcome is open. From any thread."""
        batches = list(self.accumulator.incomplete)
        return sum(b.record_count or len(b.values) for b in batches if not b.is_done)

    def lost(self, error: IllegalStateError, *, is_forked: bool) -> None:
        """The loop is gone: nothing is accepted from now on, and what waits will not be sent."""
        self._is_inherited = is_forked
        self.pipeline.refusal = error
        batches = list(self.accumulator.incomplete)
        if is_forked:
            for batch in batches:
                batch.disown(error)
            return
        if left := self.unsent():
            log.warning("producer %s: %d records were not sent. %s", self.client_id, left, error)
        for batch in batches:
            batch.fail(error)
            batch.tell()

    def metrics(self) -> dict[str, int]:
        """Counters under Kafka's names."""
        names = (
            "record-send-total", "record-error-total", "record-retry-total", "byte-total",
            "batch-split-total", "request-total", "response-total",
        )  # fmt: skip
        return {
            **{name: self.counters[name] for name in names},
            "buffer-total-bytes": self.accumulator.buffer_memory_bytes,
            "buffer-available-bytes": self.accumulator.free_bytes,
            "requests-in-flight": 0 if self._network is None else self.sender.in_flight_count,
        }

    async def _flush(self) -> None:
        self._check_loop()
        if self._network is None:
            return
        landed = asyncio.get_running_loop().create_future()
        with self.pipeline.lock:
            self.accumulator.hurries += 1
            batches = list(self.accumulator.incomplete)
        left = len(batches)

        def one_done() -> None:
            nonlocal left
            left -= 1
            if not left and not landed.done():
                landed.set_result(None)

        try:
            self.sender.wake()
            for batch in batches:
                batch.when_done(one_done)
            if batches:
                await landed
        finally:
            with self.pipeline.lock:
                self.accumulator.hurries -= 1

    async def _wait_for_room(self, deadline: float) -> None:
        if monotonic() >= deadline:
            raise buffer_exhausted(self.config.max_block_ms)
        waiter = asyncio.get_running_loop().create_future()
        self._starved.add(waiter)
        with self.pipeline.lock:
            self.accumulator.hurries += 1
        self.sender.wake()
        try:
            await asyncio.wait([waiter], timeout=min(ROOM_CHECK_S, deadline - monotonic()))
        finally:
            self._starved.discard(waiter)
            with self.pipeline.lock:
                self.accumulator.hurries -= 1

    def _check_loop(self) -> None:
        if self._network is not None and asyncio.get_running_loop() is not self.loop:
            self.pipeline.check()
            raise IllegalStateError(OTHER_LOOP)

    def _let_in(self) -> None:
        """Memory was freed; enough of it to be worth waking those who wait."""
        if self._starved and self.accumulator.free_bytes >= self._room_bytes:
            starved, self._starved = self._starved, set()
            for waiter in starved:
                if not waiter.done():
                    waiter.set_result(None)


def as_list(column: Any) -> Sequence[Any]:
    """A column of an Arrow table as Python values; a sequence as it is."""
    values: Sequence[Any] = column.to_pylist() if hasattr(column, "to_pylist") else column
    return values


def buffer_exhausted(max_block_ms: int) -> BufferExhaustedError:
    return BufferExhaustedError(
        f"Failed to allocate memory for a record within the configured max blocking time "
        f"{max_block_ms} ms: buffer.memory is full of records that are not sent yet"
    )


def _sender_settings(config: ProducerConfig) -> SenderSettings:
    codec = Codec[config.compression_type.upper()]
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return SenderSettings(
        acks=config.required_acks,
        request_timeout_ms=config.request_timeout_ms,
        max_request_bytes=config.max_request_size,
        in_flight_max=config.max_in_flight_requests_per_connection,
        codec=codec,
        level=levels.get(codec),
        topic_idle_max_ms=config.metadata_max_idle_ms,
        transactional_id=config.transactional_id,
    )
