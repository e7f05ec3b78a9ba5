"""The clients for asyncio: the same names as in `moldau`, whose methods are awaited.

from moldau import aio

async with aio.Admin(bootstrap_servers="localhost:9092") as admin:
    print(await admin.list_topics())
"""

from __future__ import annotations

from moldau.client.admin import AsyncAdmin as Admin
from moldau.client.consumer_async import AsyncConsumer as Consumer
from moldau.client.producer_async import Producer

__all__ = ["Admin", "Consumer", "Producer"]
