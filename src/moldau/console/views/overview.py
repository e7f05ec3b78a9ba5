"""The first page: health in words, the doctor's findings, figures, and what changed lately."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, NamedTuple

from moldau.console.cluster_link import ClusterLink
from moldau.console.page import Asked, Shown
from moldau.diagnosis.diagnosing import diagnose
from moldau.diagnosis.evidence import Evidence, Finding, Limits, Severity, plural
from moldau.diagnosis.gathering import gather

DOCTOR_FRESH_S = 60.0
DOCTOR_TIMEOUT_MS = 5_000
REBALANCE_MS = 1_000
FINDINGS_MAX = 50


class Figure(NamedTuple):
    name: str
    text: str


class Health(NamedTuple):
    grade: str
    """good, warning, bad or unknown."""
    sentence: str
    lines: tuple[str, ...] = ()


async def overview(asked: Asked) -> Shown:
    told = asked.link.peek("doctor", lambda: examine(asked.link), fresh_s=DOCTOR_FRESH_S)
    seen, findings = told.value if told is not None else (None, None)
    return {
        "health": health_of(seen, findings),
        "figures": figures_of(seen),
        "findings": None if findings is None else findings[:FINDINGS_MAX],
        "unchecked": [] if seen is None else seen.unchecked,
        "news": [] if asked.link.history is None else list(asked.link.history.news),
    }


async def examine(link: ClusterLink) -> tuple[Evidence, list[Finding]]:
    """What `moldau doctor` does, in a thread of its own."""
    bootstrap = link.settings["bootstrap.servers"]
    addresses = [host_and_port(each) for each in bootstrap.split(",") if each.strip()]
    seen = await asyncio.to_thread(
        gather,
        bootstrap,
        addresses,
        link.settings,
        timeout_ms=DOCTOR_TIMEOUT_MS,
        rebalance_ms=REBALANCE_MS,
    )
    return seen, diagnose(seen, Limits())


def host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    return host.rpartition("://")[2].strip("[]"), int(port)


def health_of(seen: Evidence | None, findings: list[Finding] | None) -> Health:
    if seen is None or findings is None:
        return Health("unknown", "Looking at the cluster …")
    if not seen.is_reached:
        return Health("bad", "The cluster cannot be reached.")
    counts = Counter(each.severity for each in findings)
    errors, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
    if errors:
        return Health("bad", f"Something does not work: {plural(errors, 'error')} below.")
    if warnings:
        return Health(
            "warning", f"It works, and somebody should look: {plural(warnings, 'warning')} below."
        )
    return Health("good", "All is well.")


def figures_of(seen: Evidence | None) -> list[Figure]:
    if seen is None or seen.cluster is None:
        return []
    partitions: list[Any] = [each for topic in seen.topics for each in topic.partitions]
    return [
        Figure("Brokers", str(len(seen.cluster.brokers))),
        Figure("Controller", str(seen.cluster.controller_id)),
        Figure("Topics", str(len(seen.topics))),
        Figure("Partitions", str(len(partitions))),
        Figure("Under-replicated", str(sum(len(p.isr) < len(p.replicas) for p in partitions))),
        Figure("Without a leader", str(sum(p.leader < 0 for p in partitions))),
        Figure("Groups", str(len(seen.groups))),
    ]
