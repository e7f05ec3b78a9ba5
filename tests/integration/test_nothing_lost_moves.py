"""Random kills over deletions, topics made anew, moves between log directories and adoptions:
nothing that was acknowledged is lost, and nothing of a deleted topic comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import seeds
from tests.support.wandering_topics import WanderingTopics

KILLS, KILLS_LONG = 3, 100


def play(root: Path, kills: int) -> None:
    world = WanderingTopics(root, seeds.chance())
    world.broker.start()
    world.broker.stop()
    try:
        while world.kills < kills:
            world.play_until_killed()
            if world.chance.random() < 0.25:
                world.adopt_if_possible()
        world.finish()
    finally:
        world.broker.kill()
    records = sum(len(life.acknowledged) for life in world.lives.values())
    text = f"{world.kills} kills, {world.lives_begun} topics, {records} records in those that live"
    print(text, world.done)
    assert "offline" not in world.broker.log_text


def test_nothing_is_lost_by_a_few_kills_over_deletions_moves_and_adoptions(tmp_path: Path) -> None:
    play(tmp_path, KILLS)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_nothing_is_lost_by_a_hundred_kills_over_deletions_moves_and_adoptions(
    tmp_path: Path,
) -> None:
    play(tmp_path, KILLS_LONG)
