"""The asyncio producer; the synchronous one is this one on the background loop.

    async with moldau.aio.Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("orders", b"1 tea", key=b"alice")
        metadata = await delivery

Everything that is not the path of a record is here: start and close, flush, transactions, waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from time import monotonic
from typing import Any, Self

from moldau.client.accumulator import Accumulator
from moldau.client.cluster import Cluster, PartitionInfo
from moldau.client.errors import (
    BufferExhaustedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    error_for,
)
from moldau.client.interceptors import ProducerRecord, RecordMetadata
from moldau.client.loop_thread import tell_when_lost
from moldau.client.network import OTHER_LOOP, Network, NetworkSettings
from moldau.client.producer_answers import Answers
from moldau.client.producer_batch import OnDelivery
from moldau.client.producer_delivery import Delivery
from moldau.client.producer_face import TransactionalFace
from moldau.client.producer_identity import Identity
from moldau.client.producer_pipeline import Pipeline
from moldau.client.producer_sequences import SequenceBook
from moldau.client.producer_transactions import Transactions
from moldau.client.sender import Sender, SenderSettings, learn_topic
from moldau.client.transaction_state import TransactionMachine
from moldau.config.client_producer import ProducerConfig
from moldau.model.errors import Error
from moldau.records.compression import Codec

log = logging.getLogger("moldau.client")

ROOM_CHECK_S = 0.05
"""A sender without memory looks again this often, even if too little was freed to be woken."""
_numbers = count(1)


class Producer(TransactionalFace):
    """Settings are Kafka's, as a mapping or as keywords with underscores for dots."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
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
        self.pipeline = Pipeline(parsed, accumulator, self.machine)
        self.accumulator = accumulator
        self.on_room: Callable[[], None] = self._let_in
        self._network: Network | None = None
        self._room_bytes = accumulator.buffer_memory_bytes // 4
        self._starved: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_inherited = False
        # Fails early where the setting is wrong, not on the loop later.
        self._bootstrap = Network(
            parsed.bootstrap_servers,
            client_id=self.client_id,
            settings=NetworkSettings.of(parsed),
        )

    async def start(self) -> None:
        """Bind to the running loop; done by the first call that needs it."""
        self.pipeline.check()
        if self._network is not None:
            self._check_loop()
            return
        self._loop = asyncio.get_running_loop()
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

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Hand a record over; waits only for metadata and room. Await the result for the rest."""
        pipeline = self.pipeline
        if asyncio.get_running_loop() is not self._loop:
            await self.start()
        if pipeline.has_stages or partition is not None:
            delivery = None
        else:
            delivery = pipeline.place(topic, value, key, headers, None, timestamp_ms, on_delivery)
        if delivery is None:
            record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
            delivery = await self._send_staged(record, on_delivery)
        if delivery.starts_batch:
            # Full batches leave while others are being filled.
            await asyncio.sleep(0)
        return delivery

    async def _send_staged(
        self, record: ProducerRecord, on_delivery: OnDelivery | None
    ) -> Delivery:
        args: tuple[Any, ...] = (*record, on_delivery)
        if self.pipeline.has_stages:
            args = self.pipeline.prepare(record, on_delivery)
        deadline = monotonic() + self.config.max_block_ms / 1000
        delivery = None
        if not self.pipeline.missing_partition(args[0], args[4]):
            delivery = self.pipeline.place(*args)
        while delivery is None:
            await self.wait_for_place(args[0], args[4], deadline)
            delivery = self.pipeline.place(*args)
        return delivery

    async def send_and_wait(self, topic: str, value: Any = None, **fields: Any) -> RecordMetadata:
        """Send one record and wait until it is stored."""
        return await (await self.send(topic, value, **fields))

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
            left = sum(len(b.values) for b in self.accumulator.incomplete)
            raise KafkaTimeoutError(
                f"Flushing was not done within {timeout} s: {left} records are under way"
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

    def lost(self, error: IllegalStateError, *, is_forked: bool) -> None:
        """The loop is gone: nothing is accepted from now on, and what waits will not be sent."""
        self._is_inherited = is_forked
        self.pipeline.refusal = error
        batches = list(self.accumulator.incomplete)
        if is_forked:
            for batch in batches:
                batch.disown(error)
            return
        left = sum(len(batch.values) for batch in batches)
        if left:
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

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *outcome: object) -> None:
        await self.close()

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
        if self._network is not None and asyncio.get_running_loop() is not self._loop:
            self.pipeline.check()
            raise IllegalStateError(OTHER_LOOP)

    def _let_in(self) -> None:
        """Memory was freed; enough of it to be worth waking those who wait."""
        if self._starved and self.accumulator.free_bytes >= self._room_bytes:
            starved, self._starved = self._starved, set()
            for waiter in starved:
                if not waiter.done():
                    waiter.set_result(None)


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
