"""An abort leaves no transaction behind at the coordinator, whatever it comes in between."""

from __future__ import annotations

import threading

import pytest

import moldau.testing
from moldau.client.producer.transaction_manager import TransactionState
from tests.support.eventually import eventually


@pytest.mark.parametrize("version", [1, 2])
def test_an_abort_waits_for_partitions_that_are_being_added(version: int) -> None:
    with moldau.testing.broker() as broker:
        broker.create_topic("t")
        admin = broker.admin()
        admin.update_features({"transaction.version": version}, upgrade_type=2).check()
        producer = broker.producer(transactional_id="x", linger_ms=0)
        producer.init_transactions()
        adding = broker.faults.hold("AddPartitionsToTxn" if version == 1 else "Produce")
        producer.begin_transaction()
        producer.send("t", b"aborted")
        adding.wait()
        machine = producer._core.machine
        assert machine is not None
        aborting = threading.Thread(target=producer.abort_transaction)
        aborting.start()
        eventually(lambda: machine.state is TransactionState.ABORTING_TRANSACTION)
        adding.end()
        aborting.join(60)
        assert not aborting.is_alive()
        found = admin.describe_transactions(["x"]).check()["x"]
        assert found.state not in ("Ongoing", "PrepareAbort", "PrepareCommit")
        with producer.transaction():
            producer.send("t", b"committed").result(30)
        consumer = broker.consumer("t", isolation_level="read_committed")
        values = [record.value for record in consumer.poll(30)]
        assert values == [b"committed"]
