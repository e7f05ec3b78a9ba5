"""Quotas are counted as Apache Kafka counts them: the same events, the same milliseconds.

First Kafka's own classes are asked, then a whole broker of either kind by the same requests.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator

import pytest

from moldau.admin import Admin
from moldau.security.quotas.sampled_rate import SampledRate
from moldau.security.quotas.token_bucket import TokenBucket
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.compat.clients.program import java_command
from tests.integration.test_quotas import CREATE, FETCH, PRODUCE, Client, read, written
from tests.support.apache_kafka import ApacheKafka
from tests.support.eventually import eventually
from tests.support.services import batch

START_MS = 1_700_000_000_000
"""Apache Kafka's buckets are full because 1970 is long ago."""

Event = tuple[int, float]


def events(draw: random.Random, limit: float) -> list[Event]:
    """Bursts and silences, around the limit; some are taken back."""
    found, now = [], START_MS + draw.randrange(10_000)
    for _ in range(draw.randrange(1, 120)):
        value = limit * draw.choice((0.01, 0.3, 1.0, 4.0, 12.0)) * draw.random()
        found.append((now, value))
        if draw.random() < 0.2:
            found.append((now, -value))
        now += draw.choice((0, 1, 40, 700, 1_000, 2_500, 11_000, 15_000))
    return found


def moldau_waits(
    kind: str, samples: int, sample_ms: int, limit: float, asked: list[Event]
) -> list[int]:
    rate, bucket = SampledRate(samples, sample_ms), TokenBucket(samples, sample_ms)
    waits = []
    for now, value in asked:
        if kind == "rate":
            rate.record(value, now)
            waits.append(rate.throttle_ms(limit, now))
        else:
            bucket.take(value, limit, now)
            waits.append(bucket.throttle_ms(limit, now) or 0)
    return waits


@pytest.mark.parametrize("kind", ["rate", "bucket"])
def test_the_same_events_cost_the_same_waits(kind: str) -> None:
    draw = random.Random(20_26)
    lines, expected = [], []
    for _ in range(400):
        limit = draw.choice((0.5, 5.0, 1_048_576.0, 100.0))
        window = draw.choice(((11, 1_000), (3, 1_000), (2, 5_000), (1, 1_000)))
        asked = events(draw, limit)
        lines.append(f"{kind} {window[0]} {window[1]} {limit!r}")
        lines += [f"{now} {value!r}" for now, value in asked]
        expected += moldau_waits(kind, *window, limit, asked)
    done = subprocess.run(
        java_command("Quotas"), input="\n".join(lines), capture_output=True, text=True, check=True
    )
    waits = [int(line) for line in done.stdout.split()]
    assert len(waits) == len(expected)
    assert sum(wait > 0 for wait in waits) > 1_000
    # A sum of doubles in another order may round the other way.
    wrong = [
        n for n, pair in enumerate(zip(waits, expected, strict=True)) if abs(pair[0] - pair[1]) > 1
    ]
    assert not wrong, [(waits[n], expected[n]) for n in wrong[:5]]
    assert sum(a != b for a, b in zip(waits, expected, strict=True)) < len(waits) / 1_000


@pytest.fixture(scope="module", params=["moldau", "kafka"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    directory = tmp_path_factory.mktemp(request.param)
    running: BrokerProcess | ApacheKafka
    running = BrokerProcess(directory) if request.param == "moldau" else ApacheKafka(directory)
    with running:
        yield running.bootstrap


def test_a_whole_broker_answers_with_the_same_waits(place: str) -> None:
    """The figures are those of Apache Kafka 4.3.1; here it has to agree with itself as well."""
    with Admin(bootstrap_servers=place) as admin, Client(place, "maker") as maker:
        topics = [CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
        maker.ask(CREATE, 6, CreateTopicsRequest(topics=topics, timeout_ms=10_000))
        eventually(lambda: "t" in admin.list_topics())
        quotas = {
            "writer": {"producer_byte_rate": 20_000},
            "reader": {"consumer_byte_rate": 10_000},
            "maker": {"controller_mutation_rate": 0.01},
        }
        admin.alter_client_quotas({(("client-id", name),): v for name, v in quotas.items()})
        eventually(lambda: len(admin.describe_client_quotas()) == 3)
        with Client(place, "writer") as writer, Client(place, "reader") as reader:
            response = writer.ask(PRODUCE, 9, written("t", batch(b"x" * 250_000)))
            assert response.throttle_time_ms == 2_506
            response = reader.ask(FETCH, 11, read("t", 0))
            assert (response.throttle_time_ms, response.responses) == (15_014, [])
        # A tiny bucket: the first topic empties it, the second is refused for minutes.
        errors, waits = [], []
        for name in ("first", "second"):
            topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1)]
            response = maker.ask(CREATE, 6, CreateTopicsRequest(topics=topics, timeout_ms=10_000))
            errors.append(response.topics[0].error_code)
            waits.append(response.throttle_time_ms)
        assert errors == [0, 89]
        assert waits[0] == 0
        assert 180_000 < waits[1] <= 189_000
