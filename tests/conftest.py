"""What holds for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import hypothesis
import hypothesis.core
import pytest

from tests.support import seeds

# A shell that starts something in the background lets it ignore Ctrl-C, and that is inherited by
# every process started from there: tests that interrupt one would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hypothesis remembers no examples from run to run: a failure is replayed by its seed alone.
hypothesis.settings.register_profile(
    "moldau", database=None, print_blob=False, max_examples=seeds.times(100)
)
hypothesis.settings.load_profile("moldau")
_hypothesis_seed = seeds.given() if seeds.given() is not None else seeds.fresh()


def pytest_runtest_setup(item: pytest.Item) -> None:
    seeds.forget()
    hypothesis.core.global_force_seed = _hypothesis_seed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Any]:
    """A failed test says how to play it again."""
    seed = _seed_of(item)
    if (
        call.excinfo is not None
        and seed is not None
        and not isinstance(call.excinfo.value, pytest.skip.Exception)
    ):
        call.excinfo.value.add_note(f"play it again: {seeds.FLAG}={seed} pytest '{item.nodeid}'")
    return (yield)


def _seed_of(item: pytest.Item) -> int | None:
    test = getattr(item, "obj", None)
    if getattr(test, "is_hypothesis_test", False):
        return _hypothesis_seed
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "seed" in callspec.params:
        return int(callspec.params["seed"])
    return seeds.latest()
