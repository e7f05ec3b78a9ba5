"""Transactions with every client that has them: seen whole or never, and one producer per id."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.compat.clients.catalogue import TRANSACTIONAL_NAMES, TRANSACTIONS, Clients
from tests.compat.clients.port import READ_COMMITTED, Client, Record
from tests.compat.clients.transaction_port import Fenced, Producer, TransactionClient
from tests.compat.conftest import Broker
from tests.compat.records import START_MS
from tests.compat.stored import LogRow, last_stable_offset, log_rows
from tests.compat.waiting import eventually

NewName = Callable[[str], str]
Produce = Callable[[str], Producer]


@pytest.fixture(params=TRANSACTIONAL_NAMES)
def transactions(request: pytest.FixtureRequest, clients: Clients) -> TransactionClient:
    return TRANSACTIONS[request.param](clients[request.param])


@pytest.fixture
def client(transactions: TransactionClient) -> Client:
    return transactions.client


@pytest.fixture
def topic(client: Client, new_name: NewName) -> str:
    name = new_name("transactions")
    client.create_topic(name, partitions=2, configs={})
    return name


@pytest.fixture
def producer(transactions: TransactionClient) -> Iterator[Produce]:
    """Producers by transactional id, all let go of when the test ends."""
    made: list[Producer] = []

    def make(transactional_id: str) -> Producer:
        made.append(transactions.producer(transactional_id))
        return made[-1]

    yield make
    for one in made:
        one.close()


def numbered(name: str, count: int) -> list[bytes]:
    return [b"%s-%d" % (name.encode(), number) for number in range(count)]


def read(client: Client, topic: str, counts: dict[int, int]) -> dict[int, list[bytes | None]]:
    """What a reader of committed records gets, by partition."""
    found: dict[int, list[bytes | None]] = {partition: [] for partition in counts}
    for row in client.consume(topic, counts, isolation=READ_COMMITTED):
        found[row.record.partition].append(row.record.value)
    return found


def test_a_transaction_over_topics_and_partitions_is_seen_whole_once_it_is_committed(
    client: Client, producer: Produce, topic: str, new_name: NewName, bootstrap: str
) -> None:
    other = new_name("transactions")
    client.create_topic(other, partitions=1, configs={})
    places = [(topic, 0), (topic, 1), (other, 0)]
    one = producer(new_name("id"))

    one.begin()
    for place in places:
        one.send(place[0], numbered(f"{place}", 10), place[1])
    assert [last_stable_offset(bootstrap, *place) for place in places] == [0, 0, 0]
    one.commit()

    for place in places:
        eventually(lambda place=place: last_stable_offset(bootstrap, *place) == 11)
        rows = read(client, place[0], {place[1]: 10})
        assert rows[place[1]] == numbered(f"{place}", 10)


def test_aborted_records_are_never_seen_among_committed_and_plain_ones(
    client: Client, producer: Produce, topic: str, new_name: NewName
) -> None:
    one, other = producer(new_name("id")), producer(new_name("id"))
    expected = []
    for number in range(4):
        kept, dropped = numbered(f"kept-{number}", 5), numbered(f"dropped-{number}", 5)
        plain = b"plain-%d" % number
        # The two are open at once, so their records lie between one another's.
        one.begin()
        other.begin()
        one.send(topic, dropped[:3])
        other.send(topic, kept[:2])
        client.produce(topic, [Record(None, plain, (), START_MS)])
        one.send(topic, dropped[3:])
        other.send(topic, kept[2:])
        one.abort()
        other.commit()
        expected += [*kept[:2], plain, *kept[2:]]
        one, other = other, one
    client.produce(topic, [Record(None, b"the end", (), START_MS)])

    rows = read(client, topic, {0: len(expected) + 1})

    assert rows[0] == [*expected, b"the end"]
    everything = client.consume(topic, {0: len(expected) + 4 * 5 + 1})
    assert len(everything) == len(expected) + 4 * 5 + 1


def test_an_open_transaction_withholds_what_comes_after_it(
    client: Client, producer: Produce, topic: str, new_name: NewName, bootstrap: str
) -> None:
    early, late = producer(new_name("id")), producer(new_name("id"))
    early.begin()
    early.send(topic, [b"early"])
    late.begin()
    late.send(topic, [b"late"])
    late.commit()
    eventually(lambda: client.offsets(topic, 0)[1] == 3)
    assert last_stable_offset(bootstrap, topic) == 0

    early.commit()

    assert read(client, topic, {0: 2})[0] == [b"early", b"late"]


def test_a_second_producer_with_the_id_fences_the_first(
    client: Client, producer: Produce, topic: str, new_name: NewName
) -> None:
    transactional_id = new_name("id")
    first = producer(transactional_id)
    first.begin()
    first.send(topic, numbered("first", 3))

    second = producer(transactional_id)
    second.begin()
    second.send(topic, numbered("second", 3))
    second.commit()
    with pytest.raises(Fenced):
        first.commit()

    assert read(client, topic, {0: 3})[0] == numbered("second", 3)


def test_offsets_become_committed_with_their_transaction_alone(
    transactions: TransactionClient, producer: Produce, topic: str, new_name: NewName
) -> None:
    if not transactions.sends_offsets_alone:
        pytest.skip("the library sends offsets for members only")
    group = new_name("group")
    one = producer(new_name("id"))

    one.begin()
    one.send(topic, [b"kept"])
    one.send_offsets(group, topic, {0: 5, 1: 7})
    one.commit()
    eventually(lambda: transactions.committed(group, topic) == {0: 5, 1: 7})
    one.begin()
    one.send(topic, [b"dropped"])
    one.send_offsets(group, topic, {0: 50})
    one.abort()
    one.begin()
    one.send_offsets(group, topic, {1: 8})
    one.commit()

    eventually(lambda: transactions.committed(group, topic) == {0: 5, 1: 8})


def two_producers(
    producer: Produce, topic: str, broker: Broker, one_id: str, other_id: str
) -> list[LogRow]:
    """The seeds' demonstration: one sends, another sends and commits; what the log then holds."""
    if broker.data is None:
        pytest.skip("MOLDAU_TEST_DATA does not say where the broker under test keeps its files")
    data = broker.data
    first = producer(one_id)
    first.begin()
    first.send(topic, [b"thisIsMessageValue1"])
    second = producer(other_id)
    second.begin()
    second.send(topic, [b"thisIsMessageValue2"])
    second.commit()
    eventually(lambda: log_rows(data, topic)[-1].text == "COMMIT")
    return log_rows(data, topic)


def test_two_producers_with_one_id_leave_rising_epochs_and_an_abort_marker(
    producer: Produce, topic: str, broker: Broker, new_name: NewName
) -> None:
    transactional_id = new_name("id")

    rows = two_producers(producer, topic, broker, transactional_id, transactional_id)

    texts = ["thisIsMessageValue1", "ABORT", "thisIsMessageValue2", "COMMIT"]
    assert [row.text for row in rows] == texts
    first, abort, second, commit = (row.producer_epoch for row in rows)
    assert first < abort < second <= commit
    assert len({row.producer_id for row in rows}) == 1


def test_two_producers_with_two_ids_leave_no_abort_marker(
    producer: Produce, topic: str, broker: Broker, new_name: NewName
) -> None:
    rows = two_producers(producer, topic, broker, new_name("id"), new_name("id"))

    texts = ["thisIsMessageValue1", "thisIsMessageValue2", "COMMIT"]
    assert [row.text for row in rows] == texts
    assert rows[0].producer_id != rows[1].producer_id == rows[2].producer_id
