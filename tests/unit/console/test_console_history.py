"""What changed, how fast, and how it is drawn: without a cluster."""

from __future__ import annotations

from typing import cast

import pytest

from moldau.admin import TopicDescription, TopicPartition, TopicPartitionInfo
from moldau.console.charts import Point, chart, nice_top
from moldau.console.cluster_link import ClusterLink
from moldau.console.history import GROUPS_MAX, POINTS_MAX, History, rates
from moldau.console.news import Look, differences
from moldau.console.rendering import count_text


def topic(name: str, *isrs: list[int], leader: int = 1, number: int = 1) -> TopicDescription:
    parts = [TopicPartitionInfo(i, leader, 0, [1, 2], isr, []) for i, isr in enumerate(isrs)]
    return TopicDescription(name, bytes([number]) * 16, False, parts)


def look(*topics: TopicDescription, brokers: tuple[int, ...] = (1, 2), controller: int = 1) -> Look:
    return Look(frozenset(brokers), controller, {each.name: each for each in topics})


def test_nothing_new_is_no_news() -> None:
    assert differences(look(topic("a", [1, 2])), look(topic("a", [1, 2]))) == []


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        (look(topic("a", [1, 2]), brokers=(1,)), "Broker 2 is gone."),
        (look(topic("a", [1, 2]), brokers=(1, 2, 3)), "Broker 3 has come."),
        (
            look(topic("a", [1, 2]), controller=2),
            "The controller is broker 2, no longer 1.",
        ),
        (look(), "Deleted: the topic a."),
        (look(topic("a", [1, 2]), topic("b", [1])), "New: the topic b."),
        (look(topic("a", [1])), "Replicas have fallen out of sync: a-0."),
        (look(topic("a", [1, 2], leader=-1)), "Nobody leads a-0 any more."),
        (look(topic("a", [1, 2], [1, 2])), "More partitions: a (1 → 2)."),
        (look(topic("a", [1, 2], number=2)), "The topic a was deleted and made anew."),
    ],
)
def test_what_changed_is_one_sentence(after: Look, sentence: str) -> None:
    assert differences(look(topic("a", [1, 2])), after) == [sentence]


def test_replicas_that_come_back_are_told() -> None:
    before, after = look(topic("a", [1])), look(topic("a", [1, 2]))
    assert differences(before, after) == ["Replicas are in sync again: a-0."]


def test_rates_count_by_topic_and_never_below_nothing() -> None:
    a0, a1, b0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
    assert rates({a0: 10, b0: 50}, {a0: 30, a1: 1000, b0: 0}, 10.0) == {"a": 2.0, "b": 0.0}


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (0.03, 0.05), (1, 1), (1.1, 2), (30, 50), (99, 100), (101, 200)]
)
def test_the_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert nice_top(value) == pytest.approx(top)


def test_a_curve_has_a_gap_where_nothing_was_known_and_a_title_that_is_safe() -> None:
    points = [Point(0, 1), Point(1000, 2), Point(2000, None), Point(3000, 4), Point(4000, 3)]
    made = chart('<b>"x"</b>', "records", points, count_text)
    assert made.svg.count("<polyline") == 2
    assert "<b>" not in made.svg
    assert "From 1 to 4 records, now 3 records." in made.svg
    assert [row.value for row in made.rows] == [3, 4, 2, 1]


def test_ages_are_kept_of_the_groups_that_are_looked_at() -> None:
    history = History(cast("ClusterLink", None), 1.0)
    for number in range(GROUPS_MAX + 5):
        history.note_seconds(f"group-{number}", 0, 1.0)
    for at in range(POINTS_MAX + 3):
        points = history.note_seconds(f"group-{GROUPS_MAX + 4}", at + 1, 2.0)
    assert len(points) == POINTS_MAX and points[-1] == (POINTS_MAX + 3, 2.0)
    assert history.note_seconds("group-0", 9, None) == [(9, None)], "it was let go of"


def test_one_point_is_no_curve() -> None:
    assert chart("x", "records", [Point(0, 1)], count_text).svg == ""
