"""The screen of `moldau top`: what fits, what comes first, what a key does."""

from __future__ import annotations

import pytest

from moldau.cli.top.top import State, keys_of, pressed
from moldau.cli.top.top_sample import Look as Found
from moldau.cli.top.top_sample import Sample, sample
from moldau.cli.top.top_screen import VIEWS, Look, plain, screen, shown_width
from moldau.model.names import TopicPartition

ORDERS, LONG = TopicPartition("orders", 0), TopicPartition("a-topic-with-a-name-" * 9, 0)


def found(at: float, orders: int, committed: int) -> Found:
    return Found(
        at,
        "the-cluster",
        ((0, "127.0.0.1:9092", 2, True), (1, "127.0.0.1:9093", 0, False)),
        {ORDERS: orders, LONG: 7},
        {"orders": 1},
        (("billing", "Stable", {ORDERS: committed}), ("idle\x1b[2J", "Empty", {LONG: 1})),
        {"Produce": (orders, 1.0, 20.5, 80.0), "Fetch": (10.0, 1.0, 500.0, 501.0)},
    )


@pytest.fixture
def looked_twice() -> Sample:
    return sample(found(10.0, 100, 90), found(12.0, 300, 200))


def test_rates_are_of_the_time_between_two_looks(looked_twice: Sample) -> None:
    orders = looked_twice.topics[0]
    assert (orders.topic, orders.per_second, orders.records) == ("orders", 100.0, 300)
    assert orders.under_replicated == 1
    billing = looked_twice.groups[0]
    assert (billing.group, billing.lag, billing.per_second) == ("billing", 100, 55.0)
    assert billing.seconds_behind == pytest.approx(100 / 55)
    assert looked_twice.groups[1].seconds_behind is None
    assert [row.request for row in looked_twice.requests] == ["Fetch", "Produce"]
    assert looked_twice.requests[1].per_second == 100.0


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", [(80, 24), (200, 50), (20, 5), (140, 10)])
def test_a_screen_fits_the_terminal(looked_twice: Sample, view: str, size: tuple[int, int]) -> None:
    width, height = size
    for has_colours in (True, False):
        lines = screen(looked_twice, Look(view), width, height, has_colours=has_colours)
        assert len(lines) == height
        assert all(shown_width(line) <= width for line in lines)
        assert has_colours or not any("\x1b" in line for line in lines)


def test_a_wide_screen_has_panels_side_by_side(looked_twice: Sample) -> None:
    narrow = screen(looked_twice, Look(), 80, 40, has_colours=False)
    wide = screen(looked_twice, Look(), 200, 40, has_colours=False)
    assert not any("BROKERS" in line and "GROUPS" in line for line in narrow)
    assert any("BROKERS" in line and "GROUPS" in line for line in wide)
    for lines in (narrow, wide):
        text = "\n".join(lines)
        assert all(word in text for word in ("orders", "billing", "SLOW REQUESTS", "Fetch"))


def test_a_name_cannot_command_the_terminal(looked_twice: Sample) -> None:
    assert "\x1b" not in "".join(plain(looked_twice))
    assert "idle?[2J" in "\n".join(plain(looked_twice))


def test_a_pipe_gets_everything_as_text(looked_twice: Sample) -> None:
    text = "\n".join(plain(looked_twice))
    assert LONG.topic in text
    assert "cluster the-cluster" in text


def test_keys_choose_scroll_pause_and_end() -> None:
    chosen = Look()
    for key in keys_of("t\x1b[Bjkp"):
        chosen = pressed(key, chosen).chosen
    assert chosen == Look("topics", 1, True)
    assert pressed("a", chosen).chosen == Look("all", 0, True)
    assert pressed("k", Look()).chosen.first == 0
    assert pressed("q", chosen) == State(chosen, is_over=True)
    assert pressed("x", chosen) == State(chosen)
