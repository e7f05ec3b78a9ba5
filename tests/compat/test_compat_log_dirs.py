"""Apache Kafka's reassignment tool moves a replica between the log directories of a
broker, and gives such a move up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.apache_kafka import run_tool
from tests.support.two_disks import RECORDS, TwoDisks, cancel_by_plan, move_by_plan

pytestmark = pytest.mark.compat
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


def test_the_reassignment_tool_of_apache_kafka_moves_a_replica(tmp_path: Path) -> None:
    def tool(*arguments: str) -> str:
        ran = run_tool(REASSIGN, *arguments, scratch=tmp_path / "tool")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    disks = TwoDisks(tmp_path)
    with disks.broker:
        disks.produce(RECORDS)
        move_by_plan(disks, tmp_path, tool)
        cancel_by_plan(disks, tmp_path, tool)
