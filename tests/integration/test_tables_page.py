"""Every block of code in docs/tables.md runs, one after the other, on a broker with such topics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moldau.testing
from moldau.testing.local_broker import LocalBroker

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with moldau.testing.broker(with_faults=False) as broker:
        broker.create_topic("orders", partitions=2)
        broker.create_topic("customers", partitions=1)
        producer = broker.producer()
        for number in range(100):
            order = {"id": number, "customer": f"c{number % 3}", "amount": number / 2}
            producer.send("orders", json.dumps(order), f"c{number % 3}", partition=number % 2)
        for number in range(3):
            producer.send("customers", json.dumps({"name": f"Name {number}"}), f"c{number}")
        producer.flush()
        yield broker


def test_every_block_of_python_runs(
    broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) > 5
    known: dict[str, Any] = {}
    for block in blocks:
        exec(block.replace("127.0.0.1:9092", broker.bootstrap), known)
    said = capsys.readouterr().out
    assert "Name 2" in said
    assert known["same"].arrow().num_rows == 100
    assert known["recent"].arrow().num_rows == 40
