"""All findings about a cluster, from what has been seen of it."""

from __future__ import annotations

from moldau.diagnosis.evidence import Evidence, Finding, Limits, Severity
from moldau.diagnosis.ill_addresses import diagnose_addresses
from moldau.diagnosis.ill_groups import (
    diagnose_empty_topics,
    diagnose_groups,
    diagnose_transactions,
)
from moldau.diagnosis.ill_partitions import diagnose_cluster


def diagnose(seen: Evidence, limits: Limits) -> list[Finding]:
    """The gravest first."""
    findings = [
        *diagnose_addresses(seen),
        *diagnose_cluster(seen, limits),
        *diagnose_transactions(seen, limits),
        *diagnose_groups(seen, limits),
        *diagnose_empty_topics(seen),
    ]
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))
