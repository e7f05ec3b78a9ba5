"""The load of `guards`: slices on the open broker and on the locked one, in turns."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from benchmarks import requests
from benchmarks.control import Control
from benchmarks.doors import Door
from benchmarks.load import Loop, ProduceStream

WINDOW = 5
SLICE_BYTES_MAX = 60_000_000
"""Less than makes Linux hold writers up."""


class Shape(NamedTuple):
    key: str
    connections: int
    record_bytes: int
    record_count: int
    unit: float
    """What a second's answers or bytes are divided by."""
    counts_bytes: bool


def slice_of(streams: Sequence[ProduceStream], seconds: float, shape: Shape) -> float:
    before = sum(stream.answers for stream in streams)
    began = time.perf_counter()
    loop = Loop(streams, WINDOW)
    loop.run(seconds, SLICE_BYTES_MAX)
    loop.drain()
    took = time.perf_counter() - began
    loop.epoll.close()
    answers = sum(stream.answers for stream in streams) - before
    count = answers * streams[0].payload_bytes if shape.counts_bytes else answers
    return count / took / shape.unit


def compare(
    shape: Shape,
    ports: tuple[int, int],
    doors: tuple[Door, Door],
    topic: str,
    slices: int,
    s: float,
) -> dict[str, float]:
    batch = requests.batch(shape.record_bytes, shape.record_count, int(time.time() * 1000))
    sides: list[list[ProduceStream]] = []
    for port, door in zip(ports, doors, strict=True):
        with Control(port) as control:
            control.create_topic(topic, shape.connections)
        sides.append(
            [
                ProduceStream(door, topic, partition, batch.encoded, WINDOW)
                for partition in range(shape.connections)
            ]
        )
    for side in sides:
        slice_of(side, s, shape)
    pairs = []
    for number in range(slices):
        # Whoever went first goes second in the next turn.
        order = (0, 1) if number % 2 == 0 else (1, 0)
        speeds = {side: slice_of(sides[side], s, shape) for side in order}
        pairs.append((speeds[0], speeds[1]))
    for port, side in zip(ports, sides, strict=True):
        _check(port, topic, side, batch.record_count)
    return {
        f"guarded_{shape.key}": median(locked for _, locked in pairs),
        f"guarded_{shape.key}_cost": median(100 * (1 - locked / free) for free, locked in pairs),
    }


def _check(port: int, topic: str, side: Sequence[ProduceStream], record_count: int) -> None:
    with Control(port) as control:
        for partition, stream in enumerate(side):
            stream.socket.close()
            expected = stream.sent * record_count
            if control.end_offset(topic, partition) != expected:
                raise RuntimeError(f"{topic}-{partition} does not hold {expected} records")


def main() -> None:
    asked = json.loads(sys.argv[1])
    ports = asked["open_port"], asked["locked_port"]
    doors = {"port": ports[0]}, asked["door"]
    values: dict[str, float] = {}
    for shape in (
        Shape("requests", 1, 100, 1, 1.0, counts_bytes=False),
        Shape("produce", 4, 1000, asked["record_count"], 1e6, counts_bytes=True),
    ):
        topic = f"{asked['topics']}{shape.key}"
        values |= compare(shape, ports, doors, topic, asked["slices"], asked["slice_seconds"])
    print(json.dumps(values))


if __name__ == "__main__":
    main()
