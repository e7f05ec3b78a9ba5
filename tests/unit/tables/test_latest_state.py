"""The last value of each key is what a dictionary would hold."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from moldau.tables import latest_state
from moldau.tables.latest_state import latest
from tests.support import seeds

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


@pytest.mark.parametrize("seed", seeds.parameters(20))
def test_the_last_value_stays_and_null_takes_the_key_away(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_state, "ROWS_AT_LEAST", 16)
    dice = random.Random(seed)
    model: dict[tuple[int, bytes], tuple[int, bytes]] = {}
    ends = [0, 0]

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(dice.randrange(40)):
            partition = dice.randrange(2)
            rows = []
            for _ in range(dice.randrange(8)):
                key = dice.choice([None, b"a", b"b", b"c", b"d", b""])
                value = dice.choice([None, b"", str(dice.random()).encode()])
                offset = ends[partition]
                ends[partition] += 1 + dice.randrange(2)
                rows.append((partition, offset, key, value))
                if key is not None and value is not None:
                    model[partition, key] = (offset, value)
                elif key is not None:
                    model.pop((partition, key), None)
            yield pa.RecordBatch.from_pylist(
                [
                    {"topic": "t", "partition": p, "offset": o, "key": k, "value": v}
                    for p, o, k, v in rows
                ],
                SCHEMA,
            )

    found = pa.Table.from_batches(latest(batches(), SCHEMA), SCHEMA).to_pylist()
    assert {(row["partition"], row["key"]): (row["offset"], row["value"]) for row in found} == model
    assert len(found) == len(model)
