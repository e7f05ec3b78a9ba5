"""Bodies that are ready, sent through the producer to a running broker: order, once, bounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.client.producer.blocking_producer import Producer
from moldau.client.producer.prepared_bodies import Body, send_body
from moldau.client.shared import client_errors as errors
from moldau.records import batch_kernel
from moldau.records.compression import Codec, compress
from tests.support.pipeline_world import make_topic, read_committed

Name = Callable[[str], str]
AT_MS = 1_700_000_000_000


def body(*values: str, codec: Codec = Codec.NONE) -> Body:
    rows: list[batch_kernel.Row] = [
        (0, AT_MS + n, f"k-{value}".encode(), value.encode(), ()) for n, value in enumerate(values)
    ]
    content = bytes(batch_kernel.write_records(rows, AT_MS, range(len(rows))))
    if codec is not Codec.NONE:
        content = compress(codec, content)
    return Body(content, len(rows), AT_MS, AT_MS + len(rows) - 1)


def values_of(bootstrap: str, topic: str) -> list[tuple[int, str]]:
    return [(r.partition, r.value.decode()) for r in read_committed(bootstrap, topic)]


def test_bodies_and_records_keep_the_order_in_which_they_were_given(
    bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("bodies"), 2)
    with Producer(bootstrap_servers=bootstrap, linger_ms=1000) as producer:
        producer.send(topic, "a", partition=1)
        batch = send_body(producer, topic, 1, body("b", "c"))
        producer.send(topic, "d", partition=1)
        send_body(producer, topic, 0, body("e"))
        producer.flush(30)
        assert batch.is_done
        assert (batch.error, batch.base_offset) == (None, 1)
    assert values_of(bootstrap, topic) == [(0, "e"), (1, "a"), (1, "b"), (1, "c"), (1, "d")]
    keys = {(r.key, r.timestamp) for r in read_committed(bootstrap, topic) if r.value == b"c"}
    assert keys == {(b"k-c", AT_MS + 1)}


def test_a_body_is_compressed_as_the_producer_says(bootstrap: str, fresh_name: Name) -> None:
    topic = make_topic(bootstrap, fresh_name("bodies"))
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        send_body(producer, topic, 0, body("x", "y", codec=Codec.LZ4))
        producer.flush(30)
    assert values_of(bootstrap, topic) == [(0, "x"), (0, "y")]


def test_a_body_in_a_transaction_is_there_when_it_commits_and_not_when_it_aborts(
    bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("bodies"))
    with Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name("tx")) as producer:
        producer.init_transactions()
        with pytest.raises(errors.KafkaError, match="Cannot call send in state READY"):
            send_body(producer, topic, 0, body("outside"))
        producer.begin_transaction()
        send_body(producer, topic, 0, body("lost"))
        producer.abort_transaction()
        producer.begin_transaction()
        send_body(producer, topic, 0, body("kept"))
        producer.commit_transaction()
    assert values_of(bootstrap, topic) == [(0, "kept")]


def test_a_body_waits_for_memory_and_one_that_can_never_fit_is_refused(
    bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("bodies"))
    large = body("x" * 20_000)
    settings = {"buffer_memory": 100_000, "batch_size": 1_000}
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        for _ in range(10):  # Four times the memory there is.
            send_body(producer, topic, 0, large)
        producer.flush(30)
        with pytest.raises(errors.KafkaError, match=r"does not fit into buffer\.memory"):
            send_body(producer, topic, 0, body("x" * 30_000))
    assert len(values_of(bootstrap, topic)) == 10


def test_a_body_for_a_partition_that_is_not_there_is_given_up_in_time(
    bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("bodies"))
    with (
        Producer(bootstrap_servers=bootstrap, max_block_ms=300) as producer,
        pytest.raises(errors.KafkaError, match="5"),
    ):
        send_body(producer, topic, 5, body("x"))
