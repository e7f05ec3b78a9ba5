"""The clients for asyncio: the same names as in `moldau`, whose methods are awaited.

from moldau import aio

async with aio.Admin(bootstrap_servers="localhost:9092") as admin:
    print(await admin.list_topics())

A client belongs to the event loop that first uses it.
"""

from __future__ import annotations

from moldau.client.admin.asyncio_admin import Admin
from moldau.client.consumer.asyncio_consumer import Consumer
from moldau.client.producer.asyncio_producer import Producer
from moldau.client.producer.record_future import BulkAwaitable, RecordAwaitable

__all__ = [
    "Admin",
    "BulkAwaitable",
    "Consumer",
    "Producer",
    "RecordAwaitable",
]
