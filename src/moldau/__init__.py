"""Moldau: the event streaming platform for people who live in Python.

    from moldau import Producer, Consumer, Admin

These block; their twins for asyncio are in `moldau.aio`. Names are loaded when first used, so
`import moldau` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from moldau.client.admin import Admin as Admin
    from moldau.client.admin_results import NewTopic as NewTopic
    from moldau.client.cluster import PartitionInfo as PartitionInfo
    from moldau.client.errors import KafkaError as KafkaError
    from moldau.config.client_admin import AdminConfig as AdminConfig
    from moldau.config.client_consumer import ConsumerConfig as ConsumerConfig
    from moldau.config.client_producer import ProducerConfig as ProducerConfig
    from moldau.model.names import TopicPartition as TopicPartition

_HOMES = {
    "Admin": "moldau.client.admin",
    "AdminConfig": "moldau.config.client_admin",
    "ConsumerConfig": "moldau.config.client_consumer",
    "KafkaError": "moldau.client.errors",
    "NewTopic": "moldau.client.admin_results",
    "PartitionInfo": "moldau.client.cluster",
    "ProducerConfig": "moldau.config.client_producer",
    "TopicPartition": "moldau.model.names",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("aio", "errors"):
        return import_module("moldau.client.errors" if name == "errors" else "moldau.aio")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'moldau' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "aio", "errors"])
