"""The consumer reads what a broker passes on from logs that Kafka wrote before 0.11."""

from __future__ import annotations

import pytest

from moldau.client.shared.client_errors import KafkaError, error_class
from moldau.model.errors import Error
from moldau.records.compression import Codec
from tests.support.old_messages import Old, compressed, plain
from tests.unit.client.test_client_consumer_reading import batch, buffered, position, taken, values

OLDS = [Old(b"k", b"a", 100), Old(None, b"b", 200)]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_messages_of_all_shapes_are_read_and_batches_behind_them(codec: Codec) -> None:
    data = (
        plain(OLDS, 0, 0)
        + compressed(OLDS, 1, codec, 2)
        + compressed(OLDS, 0, codec, 4)
        + batch(6, "c")
    )
    assert values(buffered(data)) == "a b a b a b c"
    records = taken(buffered(data, offset=3))
    assert [(record.offset, record.timestamp) for record in records] == [
        (3, 200),
        (4, -1),
        (5, -1),
        (6, 100),
    ]


def test_messages_may_follow_batches_and_a_torn_one_is_left_for_the_next_fetch() -> None:
    buffer = buffered(batch(0, "c") + plain(OLDS, 1, 1) + plain(OLDS, 1, 3)[:-3])
    assert values(buffer) == "c a b a"
    assert position(buffer) == 4
    with pytest.raises(KafkaError, match=r"max\.partition\.fetch\.bytes"):
        buffered(compressed(OLDS, 1, Codec.GZIP)[:-1])


def test_damage_is_told() -> None:
    data = bytearray(plain(OLDS, 1))
    data[-1] ^= 1
    with pytest.raises(error_class(Error.CORRUPT_MESSAGE)):
        buffered(bytes(data))
