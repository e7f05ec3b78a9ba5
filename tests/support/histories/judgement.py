"""What a test says about the history of a stage: no anomaly, and enough happened to show one."""

from __future__ import annotations

from collections import Counter

from tests.support.histories.checker import anomalies, told
from tests.support.histories.model import History, Outcome
from tests.support.histories.stage import KEYS


def judge(history: History) -> None:
    outcomes = Counter(
        ("transaction" if each.identity else "plain" if each.appends else "read", each.outcome.name)
        for each in history.operations
    )
    print(f"{dict(outcomes)}, {sum(map(len, history.logs.values()))} records at the end")
    found = anomalies(history)
    assert not found, told(found)
    assert outcomes["transaction", "OK"] > 20
    assert outcomes["plain", "OK"] > 50


def has_compacted(history: History) -> bool:
    appended = sum(
        append.place[0] == KEYS
        for each in history.operations
        if each.outcome is Outcome.OK
        for append in each.appends
    )
    left = sum(len(records) for place, records in history.logs.items() if place[0] == KEYS)
    return left < appended
