"""The same kind of line is written a few times, then counted."""

from __future__ import annotations

import logging

from moldau.model.log_line_limit import LogLimit, of_caller


def record(message: str, at: float) -> logging.LogRecord:
    made = logging.LogRecord("net", logging.WARNING, "", 0, message, ("value",), None)
    made.created = at
    return made


def test_lines_beyond_the_limit_are_left_out_and_counted() -> None:
    limit = LogLimit(lines_per_window=2, window_seconds=10)
    passed = [limit.filter(record("closing %s", at=float(second))) for second in range(9)]
    assert passed == [True, True] + [False] * 7
    later = record("closing %s", at=11.0)
    assert limit.filter(later)
    assert later.getMessage() == "closing value (7 lines like this were left out)"


def test_kinds_of_lines_are_counted_apart() -> None:
    limit = LogLimit(lines_per_window=1, window_seconds=10)
    assert limit.filter(record("closing %s", at=0.0))
    assert limit.filter(record("refusing %s", at=0.0))
    assert not limit.filter(record("closing %s", at=0.0))


def test_nobody_hides_a_line_behind_those_of_somebody_else() -> None:
    limit = LogLimit(lines_per_window=1, window_seconds=10)

    def about(caller: str) -> logging.LogRecord:
        made = record("%s was denied", at=0.0)
        made.__dict__.update(of_caller(caller, "127.0.0.1"))
        return made

    assert limit.filter(about("User:noisy"))
    assert not limit.filter(about("User:noisy"))
    assert limit.filter(about("User:quiet"))
