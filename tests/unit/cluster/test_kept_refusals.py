"""Refusals of single rows are values: none may keep the frames it came through, and with them the
whole request, until Python looks for garbage."""

from __future__ import annotations

from pathlib import Path

from moldau.controller.rules.leader_elections import Election
from moldau.controller.rules.reassignment_rules import Move
from moldau.controller.rules.topic_rules import NewPartitions, NewTopic
from moldau.model.errors import ApiError
from moldau.model.names import TopicPartition
from tests.support.services import Node, play


def test_what_is_refused_row_by_row_keeps_no_frames(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        ask = node.controller
        outcomes = [
            *await ask.create_topics([NewTopic("not/allowed", 1, 1)]),
            *await ask.delete_topics(["nothing"]),
            *await ask.create_partitions([NewPartitions("nothing", 3)]),
            *await ask.alter_partition_reassignments([Move("nothing", 0, (1,))]),
            *await ask.elect_leaders(Election.PREFERRED, [TopicPartition("nothing", 0)]),
        ]
        assert len(outcomes) == 5
        for outcome in outcomes:
            assert isinstance(outcome, ApiError)
            assert outcome.__traceback__ is None

    play(scenario, tmp_path)
