"""Moldau: the event streaming platform for people who live in Python.

    from moldau import Producer, Consumer, Admin

These block; their twins for asyncio are in `moldau.aio`. What administration asks with and gets
back is in `moldau.admin`, serializers are in `moldau.serialization`, exceptions in `moldau.errors`.
Names are loaded when first used, so `import moldau` costs nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
"""True to type checkers, who know the name; `typing` is too slow to import for one flag."""

if TYPE_CHECKING:
    from typing import Any

    from moldau import admin as admin
    from moldau import aio as aio
    from moldau import errors as errors
    from moldau import serialization as serialization
    from moldau.client.admin.admin_results import ConfigResource as ConfigResource
    from moldau.client.admin.admin_results import NewPartitions as NewPartitions
    from moldau.client.admin.admin_results import NewTopic as NewTopic
    from moldau.client.admin.admin_results import OffsetSpec as OffsetSpec
    from moldau.client.admin.admin_results import Results as Results
    from moldau.client.admin.blocking_admin import Admin as Admin
    from moldau.client.consumer.assignment.partition_assignors import Assignment as Assignment
    from moldau.client.consumer.assignment.partition_assignors import Assignor as Assignor
    from moldau.client.consumer.assignment.partition_assignors import RangeAssignor as RangeAssignor
    from moldau.client.consumer.assignment.partition_assignors import (
        RebalanceProtocol as RebalanceProtocol,
    )
    from moldau.client.consumer.assignment.partition_assignors import (
        RoundRobinAssignor as RoundRobinAssignor,
    )
    from moldau.client.consumer.assignment.partition_assignors import Subscription as Subscription
    from moldau.client.consumer.assignment.sticky_assignors import (
        CooperativeStickyAssignor as CooperativeStickyAssignor,
    )
    from moldau.client.consumer.assignment.sticky_assignors import StickyAssignor as StickyAssignor
    from moldau.client.consumer.blocking_consumer import Consumer as Consumer
    from moldau.client.consumer.consumer_coordinator import (
        ConsumerRebalanceListener as ConsumerRebalanceListener,
    )
    from moldau.client.consumer.consumer_membership import MemberState as MemberState
    from moldau.client.consumer.consumer_records import (
        ConsumerGroupMetadata as ConsumerGroupMetadata,
    )
    from moldau.client.consumer.consumer_records import ConsumerRecord as ConsumerRecord
    from moldau.client.consumer.consumer_records import ConsumerRecords as ConsumerRecords
    from moldau.client.consumer.consumer_records import OffsetAndMetadata as OffsetAndMetadata
    from moldau.client.consumer.consumer_records import OffsetAndTimestamp as OffsetAndTimestamp
    from moldau.client.consumer.consumer_records import TimestampType as TimestampType
    from moldau.client.network.cluster_metadata import PartitionInfo as PartitionInfo
    from moldau.client.network.network_client import Node as Node
    from moldau.client.producer.blocking_producer import Producer as Producer
    from moldau.client.producer.partitioners import Partitioner as Partitioner
    from moldau.client.producer.partitioners import RoundRobinPartitioner as RoundRobinPartitioner
    from moldau.client.producer.partitioners import TopicView as TopicView
    from moldau.client.producer.producer_session import ProducerSession as ProducerSession
    from moldau.client.producer.record_future import BulkFuture as BulkFuture
    from moldau.client.producer.record_future import RecordFuture as RecordFuture
    from moldau.client.serialization.serializers import Deserializer as Deserializer
    from moldau.client.serialization.serializers import LongDeserializer as LongDeserializer
    from moldau.client.serialization.serializers import LongSerializer as LongSerializer
    from moldau.client.serialization.serializers import Serializer as Serializer
    from moldau.client.serialization.serializers import StringDeserializer as StringDeserializer
    from moldau.client.serialization.serializers import StringSerializer as StringSerializer
    from moldau.client.shared.client_errors import (
        ConcurrentModificationError as ConcurrentModificationError,
    )
    from moldau.client.shared.client_errors import KafkaError as KafkaError
    from moldau.client.shared.interceptors import ConsumerInterceptor as ConsumerInterceptor
    from moldau.client.shared.interceptors import ProducerInterceptor as ProducerInterceptor
    from moldau.client.shared.interceptors import ProducerRecord as ProducerRecord
    from moldau.client.shared.interceptors import RecordMetadata as RecordMetadata
    from moldau.config.client_settings.admin_settings import AdminConfig as AdminConfig
    from moldau.config.client_settings.consumer_settings import ConsumerConfig as ConsumerConfig
    from moldau.config.client_settings.producer_settings import ProducerConfig as ProducerConfig
    from moldau.model.names import TopicPartition as TopicPartition
    from moldau.tables.topic_table import TopicTable as TopicTable
    from moldau.tables.topic_table import table as table

__all__ = [
    "Admin",
    "AdminConfig",
    "Assignment",
    "Assignor",
    "BulkFuture",
    "ConcurrentModificationError",
    "ConfigResource",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerRecords",
    "CooperativeStickyAssignor",
    "Deserializer",
    "KafkaError",
    "LongDeserializer",
    "LongSerializer",
    "MemberState",
    "NewPartitions",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "PartitionInfo",
    "Partitioner",
    "Producer",
    "ProducerConfig",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerSession",
    "RangeAssignor",
    "RebalanceProtocol",
    "RecordFuture",
    "RecordMetadata",
    "Results",
    "RoundRobinAssignor",
    "RoundRobinPartitioner",
    "Serializer",
    "StickyAssignor",
    "StringDeserializer",
    "StringSerializer",
    "Subscription",
    "TimestampType",
    "TopicPartition",
    "TopicTable",
    "TopicView",
    "admin",
    "aio",
    "errors",
    "serialization",
    "table",
]

_HOMES = {
    "moldau.client.admin.admin_results": "ConfigResource NewPartitions NewTopic OffsetSpec Results",
    "moldau.client.admin.blocking_admin": "Admin",
    "moldau.client.consumer.assignment.partition_assignors": (
        "Assignment Assignor RangeAssignor RebalanceProtocol RoundRobinAssignor Subscription"
    ),
    "moldau.client.consumer.assignment.sticky_assignors": (
        "CooperativeStickyAssignor StickyAssignor"
    ),
    "moldau.client.consumer.blocking_consumer": "Consumer",
    "moldau.client.consumer.consumer_coordinator": "ConsumerRebalanceListener",
    "moldau.client.consumer.consumer_membership": "MemberState",
    "moldau.client.consumer.consumer_records": (
        "ConsumerGroupMetadata ConsumerRecord ConsumerRecords OffsetAndMetadata "
        "OffsetAndTimestamp TimestampType"
    ),
    "moldau.client.network.cluster_metadata": "PartitionInfo",
    "moldau.client.network.network_client": "Node",
    "moldau.client.producer.blocking_producer": "Producer",
    "moldau.client.producer.partitioners": "Partitioner RoundRobinPartitioner TopicView",
    "moldau.client.producer.producer_session": "ProducerSession",
    "moldau.client.producer.record_future": "BulkFuture RecordFuture",
    "moldau.client.serialization.serializers": (
        "Deserializer LongDeserializer LongSerializer Serializer StringDeserializer "
        "StringSerializer"
    ),
    "moldau.client.shared.client_errors": "ConcurrentModificationError KafkaError",
    "moldau.client.shared.interceptors": (
        "ConsumerInterceptor ProducerInterceptor ProducerRecord RecordMetadata"
    ),
    "moldau.config.client_settings.admin_settings": "AdminConfig",
    "moldau.config.client_settings.consumer_settings": "ConsumerConfig",
    "moldau.config.client_settings.producer_settings": "ProducerConfig",
    "moldau.model.names": "TopicPartition",
    "moldau.tables.topic_table": "TopicTable table",
}
_MODULES = {"admin", "aio", "errors", "serialization"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"moldau.{name}")
    for home, names in _HOMES.items():
        if name in names.split():
            found = globals()[name] = getattr(import_module(home), name)
            return found
    raise AttributeError(f"module 'moldau' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
