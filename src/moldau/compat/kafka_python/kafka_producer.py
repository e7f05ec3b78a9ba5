"""`KafkaProducer` as kafka-python has it: `send(...).get(timeout=10)`, callbacks, strict types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from moldau import Producer
from moldau import RecordMetadata as Stored
from moldau.client.producer.record_future import RecordFuture
from moldau.client.shared.background_loop import run
from moldau.client.shared.user_callbacks import call
from moldau.compat.kafka_python.kafka_configs import BOOTSTRAP_TIMEOUT_MS, checked, translated
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.errors import IllegalStateError, KafkaTimeoutError, RetriableError
from moldau.model.names import TopicPartition

OWN = frozenset({"key_serializer", "value_serializer", "partitioner"})
BYTES = (bytes, bytearray, memoryview, type(None))


class RecordMetadata(NamedTuple):
    """Where a record went, with kafka-python's fields."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class FutureRecordMetadata:
    """What `send` gives back: `get`, or callbacks."""

    def __init__(self, future: RecordFuture, sizes: tuple[int, int, int]) -> None:
        self._future = future
        self._sizes = sizes

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for up to `timeout` seconds."""
        return self._metadata(self._future.result(timeout))

    @property
    def is_done(self) -> bool:
        return self._future.done()

    @property
    def value(self) -> RecordMetadata | None:
        return self._metadata(self._future.result()) if self.succeeded() else None

    @property
    def exception(self) -> BaseException | None:
        return self._future.exception() if self.is_done else None

    def succeeded(self) -> bool:
        return self.is_done and self._future.exception() is None

    def failed(self) -> bool:
        return self.is_done and self._future.exception() is not None

    def retriable(self) -> bool:
        return isinstance(self.exception, RetriableError)

    def add_callback(
        self, f: Callable[..., object], *args: Any, **kwargs: Any
    ) -> FutureRecordMetadata:
        """Call `f(*args, metadata)` once the record is stored."""
        f = partial(f, *args, **kwargs)

        def tell(future: Any) -> None:
            if future.exception() is None:
                call("A callback", f, self._metadata(future.result()))

        self._future.add_done_callback(tell)
        return self

    def add_errback(
        self, f: Callable[..., object], *args: Any, **kwargs: Any
    ) -> FutureRecordMetadata:
        """Call `f(*args, exception)` if the record is not stored."""
        f = partial(f, *args, **kwargs)

        def tell(future: Any) -> None:
            if future.exception() is not None:
                call("An errback", f, future.exception())

        self._future.add_done_callback(tell)
        return self

    def add_both(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call it either way."""
        return self.add_callback(f, *args, **kwargs).add_errback(f, *args, **kwargs)

    def _metadata(self, stored: Stored) -> RecordMetadata:
        place = TopicPartition(stored.topic, stored.partition)
        return RecordMetadata(
            *(stored.topic, stored.partition, place, stored.offset, stored.timestamp),
            None,
            *self._sizes,
        )


class KafkaProducer:
    """kafka-python's producer; settings are keywords, times are milliseconds unless said.

    >>> producer = KafkaProducer(bootstrap_servers="localhost:9092")
    >>> producer.send("orders", b"1 tea").get(timeout=10)
    """

    def __init__(self, **configs: Any) -> None:
        settings = translated(ProducerConfig, configs, OWN, refusal=ValueError)
        settings.setdefault("linger.ms", 0)
        if configs.get("partitioner") is not None:
            settings["partitioner.class"] = _Partitioner(configs["partitioner"])
        self._serialize_key = configs.get("key_serializer")
        self._serialize_value = configs.get("value_serializer")
        self._producer: Producer = checked(Producer, settings)
        self._is_closed = False
        timeout_ms = configs.get("bootstrap_timeout_ms") or BOOTSTRAP_TIMEOUT_MS
        core = self._producer._core
        try:
            run(core.cluster.refresh_brokers(timeout_ms=timeout_ms), core)
        except KafkaTimeoutError:
            self.close()
            raise KafkaTimeoutError(
                f"Unable to bootstrap from {configs.get('bootstrap_servers')}"
            ) from None

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: list[tuple[str, bytes]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Hand a record over; TypeError for what is not bytes after its serializer."""
        if self._is_closed:
            raise IllegalStateError("KafkaProducer already closed!")
        if value is None and key is None:
            raise ValueError("Need at least one: key or value")
        pairs = [] if headers is None else headers
        _check_headers(pairs)
        key = _serialized(self._serialize_key, topic, pairs, key, "key")
        value = _serialized(self._serialize_value, topic, pairs, value, "value")
        future = self._producer.send(topic, value, key, pairs, partition, timestamp_ms)
        header_size = sum(len(name.encode()) + len(content) for name, content in pairs)
        sizes = (-1 if key is None else len(key), -1 if value is None else len(value))
        return FutureRecordMetadata(future, (*sizes, header_size if pairs else -1))

    def flush(self, timeout: float | None = None) -> None:
        """Wait up to `timeout` seconds until everything is stored or given up."""
        self._producer.flush(timeout)

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        """Flush for up to `timeout` seconds and let go of everything."""
        self._is_closed = True
        self._producer.close(timeout)

    def partitions_for(self, topic: str) -> set[int]:
        """The numbers of the topic's partitions."""
        return {row.partition for row in self._producer.partitions_for(topic)}

    def bootstrap_connected(self) -> bool:
        """Whether a broker has answered; the constructor waits for that."""
        return not self._is_closed

    def metrics(self, raw: bool = False) -> dict[str, dict[str, int]]:
        """Counters under Kafka's names."""
        return {"producer-metrics": self._producer.metrics()}

    def init_transactions(self) -> None:
        """Fence earlier producers of the transactional id."""
        self._producer.init_transactions()

    def begin_transaction(self) -> None:
        """What is sent from now on is visible at once, or never."""
        self._producer.begin_transaction()

    def send_offsets_to_transaction(self, offsets: Mapping[Any, Any], group_metadata: Any) -> None:
        """Commit consumed positions with the transaction."""
        self._producer.send_offsets_to_transaction(offsets, group_metadata)

    def commit_transaction(self) -> None:
        """Make everything of the transaction visible."""
        self._producer.commit_transaction()

    def abort_transaction(self) -> None:
        """Let nobody who reads committed records see it."""
        self._producer.abort_transaction()

    def __enter__(self) -> KafkaProducer:
        return self

    def __exit__(self, *outcome: object) -> None:
        self.close()


class _Partitioner:
    """kafka-python's are called with key, all partitions and those with a leader."""

    def __init__(self, choose: Callable[..., int]) -> None:
        self._choose = choose

    def partition(self, topic: Any, key: bytes | None, value: bytes | None) -> int:
        every = list(range(topic.partition_count))
        return self._choose(key, every, list(topic.available) or every)


def _check_headers(headers: Any) -> None:
    if not isinstance(headers, list):
        raise TypeError("headers must be list-type")
    for item in headers:
        is_pair = isinstance(item, tuple) and len(item) == 2
        if not is_pair or not isinstance(item[0], str) or not isinstance(item[1], bytes):
            raise TypeError("All headers items must be (str, bytes) tuples")


def _serialized(given: Any, topic: str, headers: list[Any], data: Any, part: str) -> Any:
    """A serializer is a function of the data, or has `serialize(topic, headers, data)`."""
    if given is not None:
        if hasattr(given, "serialize"):
            data = given.serialize(topic, headers, data)
        else:
            data = given(data)
    if type(data) not in BYTES:
        raise TypeError(f"Unsupported type for serialized {part}: {type(data)}")
    return data
