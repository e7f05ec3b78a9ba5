"""Somebody moves replicas about and asks for preferred leaders, while everything else goes on."""

from __future__ import annotations

import asyncio
import random

from moldau.model.errors import Error
from moldau.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.sim.client import Client

BROKERS = 3
UNTIMELY = frozenset({Error.INVALID_REPLICA_ASSIGNMENT, Error.INVALID_REPLICATION_FACTOR})
"""A broker that should get a replica is down."""


class Moves:
    def __init__(self, client: Client, topic: str, partitions: int) -> None:
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self.is_ending = False

    async def run(self, chance: random.Random) -> None:
        while not self.is_ending:
            await asyncio.sleep(chance.uniform(0.5, 3))
            if chance.random() < 0.3:
                await self._elect()
            else:
                replicas = chance.sample(range(BROKERS), chance.choice([2, 2, 3]))
                await self._move(chance.randrange(self._partitions), replicas)
        for partition in range(self._partitions):
            replicas = chance.sample(range(BROKERS), BROKERS)
            while not await self._move(partition, replicas):
                await self._client.pause()

    async def _elect(self) -> None:
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=2_000)
        await self._client.ask_any(request, 2, "moves")

    async def _move(self, partition: int, replicas: list[int]) -> bool:
        row = ReassignablePartition(partition_index=partition, replicas=replicas)
        topic = ReassignableTopic(name=self._topic, partitions=[row])
        request = AlterPartitionReassignmentsRequest(timeout_ms=2_000, topics=[topic])
        answer = await self._client.ask_any(request, 0, "moves")
        code = answer.error_code or answer.responses[0].partitions[0].error_code
        if code in UNTIMELY or (code and self._client.should_retry(code, f"a move to {replicas}")):
            return False
        self._client.world.note(f"{self._topic}-{partition} is to move to {replicas}")
        return True
