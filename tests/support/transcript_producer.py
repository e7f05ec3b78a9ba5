"""A producer that does in a small world what a transcript says, step by step."""

from __future__ import annotations

from typing import Any

from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.transactions.transaction_commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    ProducerGranted,
)
from moldau.transactions.transaction_facts import VERSION_1, VERSION_2
from tests.support.transaction_world import World

PLACE = TopicPartition("Topic-Test", 0)


class Producer:
    """Adds the partition, then writes to it; asks again while a transaction is completed."""

    def __init__(self, world: World, transactional_id: str, version: int = VERSION_1) -> None:
        self.world = world
        self.transactional_id = transactional_id
        self.version = version
        self.id = self.epoch = -1

    def init_transactions(self) -> None:
        for _ in range(5):
            command = InitProducer(self.transactional_id, 60_000)
            outcome = self.world.ask(command)
            if isinstance(outcome, ProducerGranted):
                self.id, self.epoch = outcome
                return
            assert outcome.error == Error.CONCURRENT_TRANSACTIONS
        raise AssertionError("no end of concurrent transactions")

    def recover(self) -> Any:
        """Begin anew as the same producer (KIP-360)."""
        outcome = self.world.ask(InitProducer(self.transactional_id, 60_000, self.id, self.epoch))
        if isinstance(outcome, ProducerGranted):
            self.id, self.epoch = outcome
        return outcome

    def send(self, payload: str, sequence: int = 0) -> None:
        places = frozenset({PLACE})
        added = self.world.ask(
            AddPartitions(
                self.transactional_id,
                self.id,
                self.epoch,
                places,
                client_version=self.version,
            )
        )
        assert added == {PLACE: Error.NONE}
        self.world.partitions[PLACE].append(self.id, self.epoch, sequence, payload)

    def end(self, committed: bool) -> Any:
        outcome = self.world.ask(
            EndTransaction(
                self.transactional_id,
                self.id,
                self.epoch,
                committed,
                self.version,
            )
        )
        if isinstance(outcome, ProducerGranted) and self.version == VERSION_2:
            self.id, self.epoch = outcome
        return outcome
