"""Somebody makes topics, writes to them at once and deletes some of them, all the while.

Names are used again when nothing of the earlier topic can be on its way any more. What was
acknowledged has to stay in every topic that nobody has deleted.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from moldau.metadata import paths
from moldau.metadata.znode_tree import ZnodeTree
from moldau.model.errors import Error
from moldau.model.names import TopicId, TopicPartition
from moldau.net.peers import PeerUnreachable
from moldau.records.batch_codec import Record, encode_batch
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from moldau.wire.schema import Message
from tests.sim.client import Client
from tests.sim.invariants import Invariants, place_of

BROKERS = 3
CLIENTS = 4
NAMES = 4
"""For each client."""
BATCHES_MAX = 3
UNTIMELY = frozenset({Error.INVALID_REPLICA_ASSIGNMENT, Error.INVALID_REPLICATION_FACTOR})
"""A broker that should get a replica is down."""


class Topics:
    def __init__(self, client: Client, invariants: Invariants, tree: ZnodeTree) -> None:
        self._client = client
        self._invariants = invariants
        self._tree = tree
        self.kept: dict[str, TopicId] = {}
        """Those that should be there in the end."""
        self.is_ending = False
        self.created = 0
        self.acknowledged = 0

    async def run(self, number: int, chance: random.Random) -> None:
        names = [f"c{number}-{name}" for name in range(NAMES)]
        given_up: set[str] = set()
        while not self.is_ending:
            await asyncio.sleep(chance.uniform(0.002, 0.2))
            name = chance.choice(names)
            if name in given_up:
                continue
            if name not in self.kept:
                if self._tree.find(paths.topic_path(name)) is None:
                    await self._create(name, chance)
            elif chance.random() < 0.4:
                del self.kept[name]
                if not await self._delete(name):
                    # A request that got no answer may come later: the name is not used again.
                    given_up.add(name)
            else:
                await self._write(name, chance.randint(1, BATCHES_MAX))

    async def _create(self, name: str, chance: random.Random) -> None:
        replicas = chance.sample(range(BROKERS), chance.choice([1, 1, 2, 3]))
        row = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[row]
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=2_000)
        await self._ask(request, 7, lambda answer: answer.topics[0].error_code, name, True)
        node = self._tree.find(paths.topic_path(name))
        if node is None:
            self._client.world.fail(f"{name} was created and is gone")
            return
        self.created += 1
        self.kept[name] = paths.decode_topic(node.data).topic_id
        self._client.forget_topic(name)
        self._client.world.note(f"{name} is created on {replicas}")
        await self._write(name, 1)

    async def _delete(self, name: str) -> bool:
        """False if it took more than one request."""
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=2_000)
        attempts = await self._ask(
            request, 5, lambda answer: answer.responses[0].error_code, name, False
        )
        self._client.world.note(f"{name} is deleted")
        return attempts == 1

    async def _ask(
        self, request: Message, version: int, code_of: Any, name: str, is_there: bool
    ) -> int:
        """Until the topic is there, or is not; how many requests it took. A controller that was
        replaced and does not know it answers from what it knew: it is asked again."""
        client, attempts = self._client, 0
        done = {Error.TOPIC_ALREADY_EXISTS, Error.UNKNOWN_TOPIC_OR_PARTITION}
        path = paths.topic_path(name)
        while True:
            try:
                answer = await client.call(client.any_broker(), request, version, f"topics/{name}")
            except PeerUnreachable:
                attempts += 1
                await client.pause()
                continue
            code = code_of(answer)
            if code != Error.NOT_CONTROLLER:
                attempts += 1
            is_so = (self._tree.find(path) is not None) is is_there
            if code == Error.NONE or (code in done and is_so):
                return attempts
            if code not in UNTIMELY and code not in done:
                client.should_retry(code, f"{type(request).__name__} of {name}")
            await client.pause()

    async def _write(self, name: str, count: int) -> None:
        client = self._client
        for _ in range(count):
            self.acknowledged += 1
            value = b"%s/%d" % (name.encode(), self.acknowledged)
            batch = encode_batch([Record(0, 1_600_000_000_000, None, value)])
            data = PartitionProduceData(index=0, records=batch)
            request = ProduceRequest(
                acks=-1,
                timeout_ms=1_500,
                topic_data=[TopicProduceData(name=name, partition_data=[data])],
            )
            while True:
                leader = await client.leader(name, 0)
                try:
                    answer = await client.call(leader, request, 11, f"w/{name}")
                except PeerUnreachable:
                    await client.forget_leader(name, 0)
                    continue
                row = answer.responses[0].partition_responses[0]
                if row.error_code == 0:
                    break
                client.should_retry(row.error_code, f"{value!r} at b{leader}")
                await client.forget_leader(name, 0)
            place = place_of(TopicPartition(name, 0), self.kept[name])
            client.world.note(f"b{leader} acknowledges {place}@{row.base_offset} {value!r}")
            self._invariants.acknowledged(place, row.base_offset, value)

    def differences(self, leads: Any) -> list[str]:
        """What is wrong in the end; `leads(place)` gives where the log of its leader ends."""
        found = []
        for name, topic_id in self.kept.items():
            node = self._tree.find(paths.topic_path(name))
            if node is None or paths.decode_topic(node.data).topic_id != topic_id:
                found.append(f"{name} is gone")
                continue
            committed = self._invariants.truth(
                place_of(TopicPartition(name, 0), topic_id)
            ).offset_end
            end = leads(TopicPartition(name, 0), topic_id)
            if end is None or end < committed:
                found.append(f"{name} ends at {end}, {committed} were committed")
        return found
