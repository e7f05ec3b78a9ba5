"""The loads with which clients are compared: each moves every record it claims to have moved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import clients
from benchmarks.client_loads import LOADS, Reading, Work
from benchmarks.control import Control
from moldau.testing.broker_process import BrokerProcess

# kafka-python reads its schemas in a way that Python 3.11 calls old.
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated")

RECORDS = 3000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("loads")) as running:
        yield running


def work_on(broker: BrokerProcess, topic: str) -> Work:
    return Work(broker.bootstrap, topic, clients.PARTITIONS, RECORDS, 100)


@pytest.mark.parametrize("load", clients.PRODUCERS, ids=lambda load: load.name)
def test_a_producer_writes_all_records(broker: BrokerProcess, load: clients.Load) -> None:
    with Control(broker.port) as control:
        control.create_topic(load.name, clients.PARTITIONS)
        assert LOADS[load.name](work_on(broker, load.name)).records == RECORDS - 1
        ends = [control.end_offset(load.name, number) for number in range(clients.PARTITIONS)]
    assert sum(end or 0 for end in ends) == RECORDS


@pytest.mark.parametrize("load", clients.CONSUMERS, ids=lambda load: load.name)
def test_a_consumer_reads_all_records(broker: BrokerProcess, load: clients.Load) -> None:
    topic = f"read-by-{load.name}"
    with Control(broker.port) as control:
        control.create_topic(topic, clients.PARTITIONS)
    LOADS["moldau_send_many"](work_on(broker, topic))
    outcome = LOADS[load.name](work_on(broker, topic))
    assert 0 < outcome.records < RECORDS
    assert outcome.seconds > 0


def test_records_of_another_size_are_told() -> None:
    reading = Reading(Work("", "", 1, 10, 100))
    with pytest.raises(ValueError, match="999 bytes are not 10 records"):
        reading.add(10, 999)


def test_the_first_record_comes_alone_however_many_polls_bring_nothing() -> None:
    reading = Reading(Work("", "", 1, 10, 100))
    for _ in range(2):
        assert reading.limit(5000) == 1
        assert reading.add(0, 0)
    assert reading.limit(5000) == 1
    assert reading.add(1, 100)
    assert reading.limit(5000) == 5000
    assert not reading.add(9, 900)
    assert reading.outcome.records == 9


def test_the_report_says_which_target_is_missed() -> None:
    values = {
        clients.key(pair_side, 100): rate
        for pair_side, rate in (
            ("moldau_poll_arrow", 500.0),
            ("confluent_consume", 100.0),
            ("confluent_tuned", 250.0),
        )
    }
    told = [line for line in clients.report([{"Moldau": values}]).splitlines() if "100 B" in line]
    assert len(told) == 2
    assert "5.00" in told[0]
    assert "≥ 3× met" in told[0]
    assert "≥ 3× missed" in told[1]


def test_whoever_was_first_goes_last_in_the_next_round() -> None:
    first, *rest = clients.CONSUMERS
    assert list(clients.in_turn(clients.CONSUMERS, 1)) == [*rest, first]
    assert set(clients.in_turn(clients.CONSUMERS, 17)) == set(clients.CONSUMERS)
