"""A reporter that hangs: what waits for it is bounded, in calls and in bytes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from moldau.broker.monitoring.reporting import reporter_thread
from moldau.broker.monitoring.reporting.reporter_thread import WAITING_MAX, ReporterThread
from moldau.metrics.reporting.measurements import MetricsReporter
from tests.support.eventually import eventually


class Hung:
    """A thread that has begun a call which does not end before it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        begun = threading.Event()
        self.thread = ReporterThread("hangs", MetricsReporter())

        def hang() -> None:
            begun.set()
            self.go_on.wait()

        self.thread.offer(hang, size_bytes=100)
        assert begun.wait(30)


@pytest.fixture
def hung() -> Iterator[Hung]:
    hung = Hung()
    yield hung
    hung.go_on.set()
    hung.thread.close(time.monotonic() + 30)


def test_no_more_calls_wait_than_there_may_be(hung: Hung) -> None:
    for _ in range(WAITING_MAX + 5):
        hung.thread.offer(lambda: None)
    assert hung.thread.dropped == 5
    hung.go_on.set()
    eventually(lambda: hung.thread.done == WAITING_MAX + 1)


def test_no_more_bytes_wait_than_there_may_be(hung: Hung, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_thread, "WAITING_BYTES_MAX", 1_000)
    for _ in range(3):
        hung.thread.offer(lambda: None, size_bytes=400)
    assert hung.thread.dropped == 1
    hung.thread.offer(lambda: None)
    assert hung.thread.dropped == 1, "the numbers of the broker itself are not in it"
    hung.go_on.set()
    eventually(lambda: hung.thread.done == 4)
    hung.thread.offer(lambda: None, size_bytes=1_000)
    eventually(lambda: hung.thread.done == 5)
