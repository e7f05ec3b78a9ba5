"""All findings about a cluster, from what has been seen of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from moldau.diagnosis.evidence import Evidence, Finding, Limits, Severity
from moldau.diagnosis.ill_addresses import diagnose_addresses
from moldau.diagnosis.ill_groups import (
    diagnose_empty_topics,
    diagnose_groups,
    diagnose_transactions,
)
from moldau.diagnosis.ill_partitions import diagnose_cluster
from moldau.diagnosis.never_lose import diagnose_client_for, diagnose_cluster_for
from moldau.profiles import Profile, Subject


@dataclass(frozen=True, slots=True)
class Promise:
    """A profile, and the settings files of clients that are held to it: by name, what they are
    for and what they say."""

    profile: Profile
    clients: Mapping[str, tuple[Subject, Mapping[str, str]]]


def diagnose(seen: Evidence, limits: Limits, promise: Promise | None = None) -> list[Finding]:
    """The gravest first."""
    findings = [
        *diagnose_addresses(seen),
        *diagnose_cluster(seen, limits),
        *diagnose_transactions(seen, limits),
        *diagnose_groups(seen, limits),
        *diagnose_empty_topics(seen),
        *(() if promise is None else diagnose_promise(seen, promise)),
    ]
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def diagnose_promise(seen: Evidence, promise: Promise) -> Iterator[Finding]:
    yield from diagnose_cluster_for(promise.profile, seen)
    for name, (subject, settings) in promise.clients.items():
        yield from diagnose_client_for(promise.profile, subject, name, settings)
