"""The transaction log against bytes that Apache Kafka 4.3 wrote."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moldau.records.batch import read_header
from moldau.records.batch_codec import Record, decode_batch, encode_batch
from moldau.transactions.transaction_facts import (
    VERSION_2,
    Cause,
    Transaction,
    TransactionalIdExpired,
    TransactionMoved,
)
from moldau.transactions.transaction_records import TransactionCodec, key_bytes, value_bytes
from moldau.transactions.transaction_states import State
from tests.support.transactions import A0, A1, B0, WALL, transaction

START = 1_618_475_062_600


def of_1004(state: State, **changes: object) -> Transaction:
    return transaction(
        state,
        **{
            "transactional_id": "TID-PARTITION-0",
            "producer_id": 1004,
            "producer_epoch": 1,
            "previous_producer_id": 1004,
            "start_ms": START,
            "client_version": VERSION_2,
            "partitions": frozenset(),
            **changes,
        },
    )


ONE_PARTITION = frozenset({A0._replace(topic="Topic-Test")})
KAFKAS_VALUES = {
    "a producer that has just begun": (
        of_1004(State.EMPTY, start_ms=-1, update_ms=1_618_475_062_543, client_version=0),
        "000100000000000003ec00010000ea60000000000178d4a1950fffffffffffffffff0100080000000000"
        "0003ec",
    ),
    "an open transaction": (
        of_1004(State.ONGOING, update_ms=START, partitions=ONE_PARTITION),
        "000100000000000003ec00010000ea6001020b546f7069632d5465737402000000000000000178d4a195"
        "4800000178d4a1954802000800000000000003ec02020002",
    ),
    "a decided one whose epochs are used up": (
        of_1004(
            State.PREPARE_COMMIT,
            update_ms=START + 100,
            partitions=ONE_PARTITION,
            producer_epoch=32767,
            next_producer_id=2000,
        ),
        "000100000000000003ec7fff0000ea6002020b546f7069632d5465737402000000000000000178d4a195"
        "ac00000178d4a1954803000800000000000003ec010800000000000007d002020002",
    ),
    "a complete one under the next producer id": (
        of_1004(State.COMPLETE_COMMIT, update_ms=START + 200, producer_id=2000, producer_epoch=0),
        "000100000000000007d000000000ea60040100000178d4a1961000000178d4a195480200080000000000"
        "0003ec02020002",
    ),
}
VERSION_0 = (
    "000000000000000000070003000003e80300000001000a546f7069632d546573740000000100000000000000"
    "00000000060000000000000005"
)


def replayed(batches: Sequence[bytes]) -> list[object]:
    codec = TransactionCodec()
    return [
        fact for batch in batches for fact in codec.decode(read_header(batch), decode_batch(batch))
    ]


@pytest.mark.parametrize("case", KAFKAS_VALUES)
def test_values_are_kafkas_to_the_byte(case: str) -> None:
    given, written = KAFKAS_VALUES[case]
    assert value_bytes(given).hex() == written


@pytest.mark.parametrize("case", KAFKAS_VALUES)
def test_kafkas_values_are_read_back(case: str) -> None:
    expected, written = KAFKAS_VALUES[case]
    record = Record(timestamp=WALL, key=key_bytes("TID-PARTITION-0"), value=bytes.fromhex(written))
    assert replayed([encode_batch([record])]) == [TransactionMoved(expected)]


def test_keys_are_kafkas_to_the_byte() -> None:
    assert key_bytes("TID-PARTITION-0").hex() == "0000000f5449442d504152544954494f4e2d30"
    assert key_bytes("ž").hex() == "00000002c5be"


def test_values_of_older_brokers_are_read() -> None:
    record = Record(timestamp=WALL, key=key_bytes("old"), value=bytes.fromhex(VERSION_0))
    (fact,) = replayed([encode_batch([record])])
    assert fact == TransactionMoved(
        Transaction("old", 7, 3, 1000, State.PREPARE_ABORT, ONE_PARTITION, 5, 6)
    )


def test_a_decision_is_one_batch_and_comes_back_as_it_was() -> None:
    facts = [
        TransactionMoved(transaction(State.ONGOING, partitions=frozenset({A0, A1, B0}))),
        TransactionalIdExpired("gone"),
        TransactionMoved(transaction(State.COMPLETE_ABORT, transactional_id="other")),
    ]
    (batch,) = TransactionCodec().encode(facts, WALL)
    assert replayed([batch]) == facts
    assert {record.timestamp for record in decode_batch(batch)} == {WALL}
    header = read_header(batch)
    assert not header.is_transactional
    assert not header.has_producer


def test_what_only_the_living_need_is_not_stored() -> None:
    live = TransactionMoved(transaction(last_producer_epoch=4), Cause.TIMEOUT)
    (batch,) = TransactionCodec().encode([live], WALL)
    assert replayed([batch]) == [TransactionMoved(transaction())]


def test_records_of_newer_brokers_and_control_batches_are_passed_over() -> None:
    value = value_bytes(transaction())
    strange_key = Record(timestamp=WALL, key=b"\x00\x09what", value=value)
    strange_value = Record(timestamp=WALL, key=key_bytes("tid"), value=b"\x00\x02" + value[2:])
    assert replayed([encode_batch([strange_key, strange_value])]) == []
    control = encode_batch([strange_key], control=True)
    assert replayed([control]) == []
