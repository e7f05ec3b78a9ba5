"""`moldau preferred-replica-election`: the old name of `leader-election`, for one type of it."""

from __future__ import annotations

from moldau.cli.topics.leader_election import PREFERRED_TOOL as TOOL
from moldau.cli.topics.leader_election import run_preferred as run

__all__ = ["TOOL", "run"]
