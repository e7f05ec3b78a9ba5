"""Every foreign client by name; those that need Node, Go or Maven carry the `compat` mark."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compat.clients.aio import AioKafka
from tests.compat.clients.aio_groups import AioGroups
from tests.compat.clients.aio_transactions import AioTransactions
from tests.compat.clients.confluent import ConfluentKafka
from tests.compat.clients.confluent_groups import ConfluentGroups
from tests.compat.clients.confluent_transactions import ConfluentTransactions
from tests.compat.clients.group_port import GroupClient
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.clients.kafka_python_groups import KafkaPythonGroups
from tests.compat.clients.kafka_python_transactions import KafkaPythonTransactions
from tests.compat.clients.port import Client
from tests.compat.clients.program import franz_go, java, kafkajs
from tests.compat.clients.program_groups import ProgramGroups, ProgramTransactions
from tests.compat.clients.transaction_port import TransactionClient

LIBRARIES: dict[str, Callable[[str], Client]] = {
    "confluent-kafka": ConfluentKafka,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}
PROGRAMS: dict[str, Callable[[str], Client]] = {
    "kafkajs": kafkajs,
    "franz-go": franz_go,
    "java": java,
}
CLIENTS = LIBRARIES | PROGRAMS
NAMES = [*LIBRARIES, *(pytest.param(name, marks=pytest.mark.compat) for name in PROGRAMS)]

GROUPS: dict[str, Callable[..., GroupClient]] = {
    "confluent-kafka": ConfluentGroups,
    "kafka-python": KafkaPythonGroups,
    "aiokafka": AioGroups,
    **dict.fromkeys(PROGRAMS, ProgramGroups),
}
"""The consumer groups of a client, made from the client."""
TRANSACTIONS: dict[str, Callable[..., TransactionClient]] = {
    "confluent-kafka": ConfluentTransactions,
    "kafka-python": KafkaPythonTransactions,
    "aiokafka": AioTransactions,
    "franz-go": ProgramTransactions,
    "java": ProgramTransactions,
}
"""The transactions of a client, made from the client."""
TRANSACTIONAL_NAMES = [
    name if name in LIBRARIES else pytest.param(name, marks=pytest.mark.compat)
    for name in TRANSACTIONS
]


class Clients:
    """Makes each client on its first use and closes all at the end."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.made: dict[str, Client] = {}

    def __getitem__(self, name: str) -> Client:
        if name not in self.made:
            self.made[name] = CLIENTS[name](self.bootstrap)
        return self.made[name]

    def close(self) -> None:
        for client in self.made.values():
            client.close()
