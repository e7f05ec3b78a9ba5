"""Cells count without bounds only what is bounded."""

from __future__ import annotations

from moldau.metrics.answer_cells import DEPRECATED_MAX, OTHERS, AnswerCells
from moldau.metrics.duration_cells import summary


def test_one_answer_may_have_several_errors() -> None:
    cells = AnswerCells()
    cells.fail(1, [6, 6, 3])
    cells.fail(1, [6])
    assert cells.errors == {1: {6: 3, 3: 1}}
    assert cells.failed == {1: 2}


def test_clients_that_name_themselves_anew_are_counted_together() -> None:
    cells = AnswerCells()
    for number in range(DEPRECATED_MAX + 50):
        cells.note_old(1, 3, (f"client-{number}", "1"))
    cells.note_old(1, 3, ("client-0", "1"))
    assert len(cells.old_versions) == DEPRECATED_MAX + 1
    assert cells.old_versions[1, 3, OTHERS, OTHERS] == 50
    assert cells.old_versions[1, 3, "client-0", "1"] == 2


def test_waits_for_quotas_are_told_in_milliseconds() -> None:
    cells = AnswerCells()
    cells.throttle(0, 1000)
    found = dict(summary([cells.throttled[0]]).quantiles)
    assert 700 < found["0.99"] < 1420
