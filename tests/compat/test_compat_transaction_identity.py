"""Two clients share a transactional id and speak different versions of transactions.

The Java client of 4.3.1 has an epoch for every transaction (version 2), the other one keeps its
epoch from one transaction to the next (version 1). Apache Kafka 4.3.1 does not pass: it gives the
first producer the epoch in which the second still writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.compat.clients.catalogue import TRANSACTIONS, Clients
from tests.compat.clients.port import READ_COMMITTED, Refused
from tests.compat.clients.program import java_39
from tests.compat.clients.program_groups import ProgramTransactions
from tests.compat.clients.transaction_port import Fenced, Producer, TransactionClient

NewName = Callable[[str], str]

pytestmark = pytest.mark.compat


@pytest.fixture(params=["confluent-kafka", "java-3.9"])
def version_1(
    request: pytest.FixtureRequest, clients: Clients, bootstrap: str
) -> Iterator[TransactionClient]:
    if request.param != "java-3.9":
        yield TRANSACTIONS[request.param](clients[request.param])
        return
    program = java_39(bootstrap)
    yield ProgramTransactions(program)
    program.close()


def is_refused(step: Callable[[], None]) -> bool:
    try:
        step()
    except (Fenced, Refused):
        return True
    return False


def try_to_commit(producer: Producer, topic: str) -> None:
    producer.begin()
    producer.send(topic, [b"of the fenced one"])
    producer.commit()


def test_a_fenced_producer_does_not_get_the_identity_of_its_successor(
    clients: Clients, version_1: TransactionClient, new_name: NewName
) -> None:
    topic, transactional_id = new_name("identity"), new_name("id")
    client = clients["java"]
    client.create_topic(topic, partitions=1, configs={})
    old = TRANSACTIONS["java"](client).producer(transactional_id)
    new = version_1.producer(transactional_id)
    new.begin()
    new.send(topic, [b"first"])
    new.abort()

    # Its write is refused; then it asks for an end one epoch behind its successor's.
    old.begin()
    assert is_refused(lambda: old.send(topic, [b"of the fenced one"]))
    assert is_refused(old.abort), "the fenced producer was told that all is well"
    new.begin()
    new.send(topic, [b"half of a transaction"])
    assert is_refused(lambda: try_to_commit(old, topic))
    new.send(topic, [b"the other half"])
    new.abort()

    new.begin()
    new.send(topic, [b"last"])
    new.commit()
    rows = client.consume(topic, {0: 1}, isolation=READ_COMMITTED)
    assert [row.record.value for row in rows] == [b"last"]
    old.close()
    new.close()
