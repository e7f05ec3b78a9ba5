"""Moldau: the event streaming platform for people who live in Python.

    from moldau import Producer, Consumer, Admin

These block; their twins for asyncio are in `moldau.aio`. Names are loaded when first used, so
`import moldau` costs nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
"""True to type checkers, who know the name; `typing` is too slow to import for one flag."""

if TYPE_CHECKING:
    from typing import Any

    from moldau import aio as aio
    from moldau import errors as errors
    from moldau.client.admin import Admin as Admin
    from moldau.client.admin_results import ConfigResource as ConfigResource
    from moldau.client.admin_results import NewPartitions as NewPartitions
    from moldau.client.admin_results import NewTopic as NewTopic
    from moldau.client.admin_results import OffsetSpec as OffsetSpec
    from moldau.client.assignors import Assignor as Assignor
    from moldau.client.cluster import PartitionInfo as PartitionInfo
    from moldau.client.consumer import Consumer as Consumer
    from moldau.client.consumer_group import ConsumerRebalanceListener as ConsumerRebalanceListener
    from moldau.client.errors import ConcurrentModificationError as ConcurrentModificationError
    from moldau.client.errors import KafkaError as KafkaError
    from moldau.client.interceptors import ConsumerInterceptor as ConsumerInterceptor
    from moldau.client.interceptors import ProducerInterceptor as ProducerInterceptor
    from moldau.client.partitioners import Partitioner as Partitioner
    from moldau.client.partitioners import RoundRobinPartitioner as RoundRobinPartitioner
    from moldau.client.producer import BulkDelivery as BulkDelivery
    from moldau.client.producer import Producer as Producer
    from moldau.client.producer import ProducerRecord as ProducerRecord
    from moldau.client.producer import RecordMetadata as RecordMetadata
    from moldau.client.producer_delivery import Delivery as Delivery
    from moldau.client.producer_session import ProducerSession as ProducerSession
    from moldau.client.records import ConsumerGroupMetadata as ConsumerGroupMetadata
    from moldau.client.records import ConsumerRecord as ConsumerRecord
    from moldau.client.records import ConsumerRecords as ConsumerRecords
    from moldau.client.records import OffsetAndMetadata as OffsetAndMetadata
    from moldau.client.records import OffsetAndTimestamp as OffsetAndTimestamp
    from moldau.client.records import TimestampType as TimestampType
    from moldau.client.serializers import Deserializer as Deserializer
    from moldau.client.serializers import LongDeserializer as LongDeserializer
    from moldau.client.serializers import LongSerializer as LongSerializer
    from moldau.client.serializers import Serializer as Serializer
    from moldau.client.serializers import StringDeserializer as StringDeserializer
    from moldau.client.serializers import StringSerializer as StringSerializer
    from moldau.config.client_admin import AdminConfig as AdminConfig
    from moldau.config.client_consumer import ConsumerConfig as ConsumerConfig
    from moldau.config.client_producer import ProducerConfig as ProducerConfig
    from moldau.model.names import TopicPartition as TopicPartition

    KafkaProducer = Producer
    KafkaConsumer = Consumer

_HOMES = {
    "moldau.client.admin": "Admin",
    "moldau.client.admin_results": "ConfigResource NewPartitions NewTopic OffsetSpec",
    "moldau.client.assignors": "Assignor",
    "moldau.client.cluster": "PartitionInfo",
    "moldau.client.consumer": "Consumer",
    "moldau.client.consumer_group": "ConsumerRebalanceListener",
    "moldau.client.errors": "ConcurrentModificationError KafkaError",
    "moldau.client.interceptors": "ConsumerInterceptor ProducerInterceptor",
    "moldau.client.partitioners": "Partitioner RoundRobinPartitioner",
    "moldau.client.producer": "BulkDelivery Producer ProducerRecord RecordMetadata",
    "moldau.client.producer_delivery": "Delivery",
    "moldau.client.producer_session": "ProducerSession",
    "moldau.client.records": (
        "ConsumerGroupMetadata ConsumerRecord ConsumerRecords OffsetAndMetadata "
        "OffsetAndTimestamp TimestampType"
    ),
    "moldau.client.serializers": (
        "Deserializer LongDeserializer LongSerializer Serializer StringDeserializer "
        "StringSerializer"
    ),
    "moldau.config.client_admin": "AdminConfig",
    "moldau.config.client_consumer": "ConsumerConfig",
    "moldau.config.client_producer": "ProducerConfig",
    "moldau.model.names": "TopicPartition",
}
_ALIASES = {"KafkaConsumer": "Consumer", "KafkaProducer": "Producer"}
_MODULES = {"aio": "moldau.aio", "errors": "moldau.errors"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    plain = _ALIASES.get(name, name)
    for home, names in _HOMES.items():
        if plain in names.split():
            found = globals()[name] = getattr(import_module(home), plain)
            return found
    raise AttributeError(f"module 'moldau' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *_ALIASES, *" ".join(_HOMES.values()).split()])
