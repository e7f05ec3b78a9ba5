"""Who logs never waits: what does not fit into the queue is counted, and the rest is written."""

from __future__ import annotations

import threading

from moldau.broker.broker_log.line_writer import LineWriter


class SlowSink:
    """Takes nothing until it may."""

    def __init__(self) -> None:
        self.may_write = threading.Event()
        self.is_writing = threading.Event()
        self.lines: list[str] = []

    def write(self, lines: list[str]) -> None:
        self.is_writing.set()
        self.may_write.wait()
        self.lines += lines

    def tell_lost(self, count: int) -> None:
        self.lines.append(f"{count} lost\n")


def test_a_queue_that_is_full_counts_what_it_drops() -> None:
    sink, writer = SlowSink(), LineWriter("test", lines_max=3)
    writer.put(sink, "first\n")
    sink.is_writing.wait()
    for number in range(10):
        writer.put(sink, f"{number}\n")
    sink.may_write.set()
    assert writer.flush(60.0)
    writer.put(sink, "last\n")
    assert writer.close(60.0)
    assert sink.lines == ["first\n", "0\n", "1\n", "2\n", "7 lost\n", "last\n"]


def test_the_queue_is_bounded_in_characters() -> None:
    sink, writer = SlowSink(), LineWriter("test", characters_max=10)
    writer.put(sink, "first\n")
    sink.is_writing.wait()
    for line in ("123456\n", "7890\n", "12\n"):
        writer.put(sink, line)
    sink.may_write.set()
    assert writer.close(60.0)
    assert sink.lines == ["first\n", "123456\n", "12\n", "1 lost\n"]


def test_an_end_does_not_wait_for_ever_for_who_takes_nothing() -> None:
    sink, writer = SlowSink(), LineWriter("test")
    writer.put(sink, "first\n")
    sink.is_writing.wait()
    assert not writer.close(0.01)
    sink.may_write.set()
