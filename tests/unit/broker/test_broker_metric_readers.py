"""Readers of metrics while what they read changes, and where clients choose the names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from moldau.broker.monitoring.connection_readers import CONNECTION_READERS, KINDS_MAX
from moldau.broker.monitoring.process_readers import FILES_PER_LOOK, PROCESS_READERS
from moldau.broker.monitoring.traffic_readers import TRAFFIC_READERS
from moldau.metrics.answer_cells import OTHERS, AnswerCells
from moldau.metrics.table.connection_metrics import SOCKETS
from moldau.metrics.table.traffic_metrics import REQUESTS
from moldau.model.errors import Error
from moldau.net.request_times import RequestCells

PRODUCE = 0


def told(samples: Any) -> dict[tuple[str, ...], Any]:
    return dict(each for each in samples if each is not None)


def test_errors_that_come_while_errors_are_read_do_no_harm() -> None:
    """A scrape rests between lines, and the loop goes on."""
    answers, cells = AnswerCells(), RequestCells()
    cells.versions[9] = 10
    answers.fail(PRODUCE, [Error.NOT_LEADER_OR_FOLLOWER])
    sources: Any = SimpleNamespace(
        answers=answers, server=SimpleNamespace(times=SimpleNamespace(cells=[cells, *[None] * 256]))
    )
    reading: Iterator[Any] = iter(TRAFFIC_READERS[REQUESTS + "ErrorsPerSec"](sources))
    first, second = next(reading), next(reading)
    answers.fail(PRODUCE, [Error.CORRUPT_MESSAGE])
    assert [first, second, *reading] == [
        (("Produce", "NONE"), 9),
        (("Produce", "NOT_LEADER_OR_FOLLOWER"), 1),
    ]
    assert told(TRAFFIC_READERS[REQUESTS + "ErrorsPerSec"](sources)) == {
        ("Produce", "NONE"): 8,
        ("Produce", "NOT_LEADER_OR_FOLLOWER"): 1,
        ("Produce", "CORRUPT_MESSAGE"): 1,
    }


def test_clients_that_each_say_another_library_make_no_more_series_than_there_may_be() -> None:
    listener = SimpleNamespace(name="PLAINTEXT")
    connections = [
        SimpleNamespace(
            is_closed=False, client_software=(f"library-{number}", "1"), listener=listener
        )
        for number in range(KINDS_MAX + 30)
    ]
    connections.append(connections[0])
    sources: Any = SimpleNamespace(server=SimpleNamespace(connections=connections))
    found = told(CONNECTION_READERS[SOCKETS + "connections-software"](sources))
    assert len(found) == KINDS_MAX + 1
    assert found["library-0", "1", "PLAINTEXT", "0"] == 2
    assert found[OTHERS, OTHERS, "PLAINTEXT", "0"] == 30


def test_open_files_are_counted_with_rests() -> None:
    read = PROCESS_READERS["process_open_fds"]
    sources: Any = None
    *_, ((), before) = list(read(sources))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(FILES_PER_LOOK)]
    try:
        *rests, ((), after) = list(read(sources))
    finally:
        for each in opened:
            os.close(each)
    assert after == before + FILES_PER_LOOK
    assert rests and set(rests) == {None}
