"""Each foreign client writes records and reads them back by assignment, unchanged."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.compat.clients.port import CODECS, Client, Record, Refused
from tests.compat.records import (
    MANY_PARTITIONS,
    MEGABYTE,
    START_MS,
    assert_offsets,
    assert_read_back,
    counts,
    many_records,
    varied_records,
)
from tests.compat.stored import stored_codecs

MESSAGE_TOO_LARGE = 10

NewName = Callable[[str], str]


@pytest.mark.parametrize("codec", CODECS)
def test_every_shape_of_record_comes_back_unchanged(
    client: Client, codec: str, new_name: NewName, bootstrap: str
) -> None:
    topic = new_name("shapes")
    client.create_topic(topic, partitions=1, configs={})
    written = varied_records(client)

    offsets = client.produce(topic, written, codec=codec)

    assert_offsets(written, offsets)
    assert_read_back(written, client.consume(topic, counts(written)))
    assert stored_codecs(bootstrap, topic) == {codec}


@pytest.mark.parametrize("acks", ["0", "1"])
def test_records_arrive_with_weaker_acknowledgements_too(
    client: Client, acks: str, new_name: NewName
) -> None:
    topic = new_name("acks")
    client.create_topic(topic, partitions=1, configs={})
    # With acks=0 a client cannot learn that its metadata is too new, so let the topic be known.
    first = [Record(b"first", b"acknowledged", (), START_MS)]
    client.produce(topic, first)
    rest = [Record(b"k%d" % n, b"v%d" % n, (), START_MS + n) for n in range(50)]

    client.produce(topic, rest, acks=acks)

    assert_read_back(first + rest, client.consume(topic, {0: 51}))


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_of_one_megabyte_passes_where_the_topic_allows_it(
    client: Client, codec: str, new_name: NewName
) -> None:
    topic = new_name("megabyte")
    client.create_topic(topic, partitions=1, configs={"max.message.bytes": str(2 * MEGABYTE)})
    noise = random.Random(1).randbytes(MEGABYTE)
    written = [
        Record(b"before", b"small", (), START_MS),
        Record(b"large", noise, (("size", b"1 MB"),), START_MS + 1),
        Record(b"after", b"small", (), START_MS + 2),
    ]

    offsets = [client.produce(topic, [record], codec=codec)[0] for record in written]

    assert offsets == [0, 1, 2]
    assert_read_back(written, client.consume(topic, {0: 3}))


def test_a_record_above_max_message_bytes_is_refused_and_not_stored(
    client: Client, new_name: NewName
) -> None:
    topic = new_name("small")
    client.create_topic(topic, partitions=1, configs={"max.message.bytes": "10000"})
    fits = [Record(b"fits", b"x" * 9000, (), START_MS)]
    client.produce(topic, fits)

    with pytest.raises(Refused) as refused:
        client.produce(topic, [Record(b"too large", b"x" * 20_000, (), START_MS)])

    assert refused.value.code == MESSAGE_TOO_LARGE
    assert client.offsets(topic, 0) == (0, 1)


def test_producing_to_an_unknown_topic_creates_it(client: Client, new_name: NewName) -> None:
    topic = new_name("sudden")
    written = [Record(b"k", b"v", (), START_MS)]

    client.produce(topic, written)

    assert topic in client.topics()
    assert_read_back(written, client.consume(topic, {0: 1}))


def test_a_hundred_thousand_records_come_back_one_by_one(client: Client, new_name: NewName) -> None:
    topic = new_name("many")
    client.create_topic(topic, partitions=MANY_PARTITIONS, configs={})
    written = many_records()

    offsets = client.produce(topic, written, codec="lz4")

    assert_offsets(written, offsets)
    assert_read_back(written, client.consume(topic, counts(written)))
