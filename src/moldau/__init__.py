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

    from moldau.client.admin import Admin as Admin
    from moldau.client.admin_results import ConfigResource as ConfigResource
    from moldau.client.admin_results import NewPartitions as NewPartitions
    from moldau.client.admin_results import NewTopic as NewTopic
    from moldau.client.admin_results import OffsetSpec as OffsetSpec
    from moldau.client.cluster import PartitionInfo as PartitionInfo
    from moldau.client.errors import KafkaError as KafkaError
    from moldau.client.producer import Producer as Producer
    from moldau.client.producer import ProducerRecord as ProducerRecord
    from moldau.client.producer import RecordMetadata as RecordMetadata
    from moldau.client.records import ConsumerRecord as ConsumerRecord
    from moldau.client.records import OffsetAndMetadata as OffsetAndMetadata
    from moldau.client.records import OffsetAndTimestamp as OffsetAndTimestamp
    from moldau.config.client_admin import AdminConfig as AdminConfig
    from moldau.config.client_consumer import ConsumerConfig as ConsumerConfig
    from moldau.config.client_producer import ProducerConfig as ProducerConfig
    from moldau.model.names import TopicPartition as TopicPartition

_HOMES = {
    "moldau.client.admin": "Admin",
    "moldau.client.admin_results": "ConfigResource NewPartitions NewTopic OffsetSpec",
    "moldau.client.cluster": "PartitionInfo",
    "moldau.client.errors": "KafkaError",
    "moldau.client.producer": "Producer ProducerRecord RecordMetadata",
    "moldau.client.records": "ConsumerRecord OffsetAndMetadata OffsetAndTimestamp",
    "moldau.config.client_admin": "AdminConfig",
    "moldau.config.client_consumer": "ConsumerConfig",
    "moldau.config.client_producer": "ProducerConfig",
    "moldau.model.names": "TopicPartition",
}
_MODULES = {"aio": "moldau.aio", "errors": "moldau.client.errors"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    for home, names in _HOMES.items():
        if name in names.split():
            found = globals()[name] = getattr(import_module(home), name)
            return found
    raise AttributeError(f"module 'moldau' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *" ".join(_HOMES.values()).split()])
