"""The examples and the programs of two pages run against a broker, each in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from moldau import Consumer
from moldau.testing.broker_process import BrokerProcess

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "examples"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
RUN_SECONDS = 120
ANOTHERS = ("confluent_kafka", "moldau.pipelines")
"""Programs that use these are run by the tests of foreign clients and of pipelines."""


def programs() -> list[tuple[str, str]]:
    """What stands in README.md and docs/client.md, in order: later ones use topics of earlier."""
    found = []
    for page in ("README.md", "docs/client.md"):
        blocks = re.findall(r"```python\n(.*?)```", (PROJECT / page).read_text(), re.DOTALL)
        ours = [block for block in blocks if not any(name in block for name in ANOTHERS)]
        found += [(f"{page} {number}", block) for number, block in enumerate(ours)]
    return found


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), overrides=SETTINGS) as broker:
        yield broker.bootstrap


def python(*words: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(name: str, *words: str, bootstrap: str, folder: Path) -> str:
    path = str(EXAMPLES / f"{name}.py")
    return python(path, *words, folder=folder, MOLDAU_BOOTSTRAP_SERVER=bootstrap)


def test_sums_and_offsets_in_one_database_count_no_record_twice(
    bootstrap: str, tmp_path: Path
) -> None:
    first = run("offsets_in_sqlite", bootstrap=bootstrap, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["payments.sqlite"]
    sums = {who: int(total) for who, total in map(str.split, first.splitlines())}
    assert sum(sums.values()) == sum(number % 7 for number in range(300))
    again = run("offsets_in_sqlite", bootstrap=bootstrap, folder=tmp_path)
    assert {who: int(total) for who, total in map(str.split, again.splitlines())} == {
        who: 2 * total for who, total in sums.items()
    }


@pytest.mark.parametrize(
    "words",
    [
        ("producer_consumer_demo", "sync", "20"),
        ("producer_consumer_demo", "20"),
        ("exactly_once_demo", "2", "2", "200"),
        ("delivery_modes", "at-most-once"),
        ("delivery_modes", "at-least-once"),
        ("delivery_modes", "exactly-once"),
        ("clearing", "600"),
    ],
    ids=" ".join,
)
def test_an_example_runs_to_its_end(bootstrap: str, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert run(*words, bootstrap=bootstrap, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


@contextmanager
def http_orders(bootstrap: str, folder: Path, **environment: str) -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "http_orders.py"), "0", str(folder / "orders.sqlite")],
        env={**os.environ, "MOLDAU_BOOTSTRAP_SERVER": bootstrap, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.communicate()


def order(url: str, key: str) -> tuple[int, str]:
    request = Request(url, b"3 apples", {"Idempotency-Key": key})
    with urlopen(request, timeout=30) as answer:
        return answer.status, answer.read().decode()


def test_an_order_that_is_sent_again_is_stored_once(bootstrap: str, tmp_path: Path) -> None:
    with http_orders(bootstrap, tmp_path) as url:
        assert order(url, "one") == (201, "order 0\n")
        assert order(url, "one") == (200, "order 0\n")
    with http_orders(bootstrap, tmp_path, DIE="after commit") as url:
        assert order(url, "one") == (200, "order 0\n")
        with pytest.raises(OSError):
            order(url, "two")
    with http_orders(bootstrap, tmp_path) as url:
        assert order(url, "two") == (200, "order 2\n")
        assert order(url, "three")[0] == 201
    (tmp_path / "orders.sqlite").unlink()
    with http_orders(bootstrap, tmp_path) as url:
        assert order(url, "two") == (200, "order 2\n")
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    with Consumer(settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([("http-orders", 0)])
        keys = [dict(record.headers)["idempotency-key"] for record in consumer.poll(10)]
    assert keys == [b"one", b"two", b"three"]


def test_the_programs_of_the_pages_run_as_they_stand(bootstrap: str, tmp_path: Path) -> None:
    assert len(programs()) > 6
    for name, block in programs():
        program = re.sub(r"(localhost|127\.0\.0\.1):9092", bootstrap, block)
        print(name, python("-c", program, folder=tmp_path))
