"""Histories in, anomalies out: whether clients of a log saw what Kafka promises them.

Pure: it knows nothing of how a history came about. Each check stands in the module of its subject;
docs/testing-histories.md says what each anomaly means.
"""

from __future__ import annotations

from tests.support.histories import cycles, groups, visibility, writes
from tests.support.histories.index import Index
from tests.support.histories.model import Anomaly, History

CHECKS = (
    writes.lost,
    writes.doubled,
    writes.moved,
    writes.vanished,
    writes.reordered,
    writes.unordered_reads,
    visibility.aborted,
    visibility.dirty,
    visibility.torn,
    visibility.skipped,
    groups.offsets,
    groups.beyond,
    groups.processed,
)


def anomalies(history: History, strict: bool = False) -> list[Anomaly]:
    index = Index(history)
    found = [anomaly for check in CHECKS for anomaly in check(index)]
    return [*found, *cycles.cycles(index, strict)]


def told(found: list[Anomaly], most: int = 10) -> str:
    """The anomalies for a reader: how many of each kind, and the first of them."""
    kinds: dict[str, list[str]] = {}
    for anomaly in found:
        kinds.setdefault(anomaly.kind, []).append(anomaly.detail)
    lines = []
    for kind, details in kinds.items():
        lines += [f"{kind}: {len(details)}", *(f"  {each}" for each in details[:most])]
    return "\n".join(lines)
