"""What holds for every test."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.core
import pytest

from moldau.net.loop_watch import VARIABLE as LOOP_WATCH
from tests.support import loop_holds, seeds

# A shell that starts something in the background lets it ignore Ctrl-C, and that is inherited by
# every process started from there: tests that interrupt one would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hypothesis remembers no examples from run to run: a failure is replayed by its seed alone. How
# long an example takes says more about the machine, and fails nothing.
hypothesis.settings.register_profile(
    "moldau",
    database=None,
    print_blob=False,
    max_examples=seeds.times(100),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("moldau")
_hypothesis_seed = seeds.fresh()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        type=int,
        help=f"the seed of every random test that is run, as a failed one has named it "
        f"(the same as {seeds.FLAG}=n)",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    seeds.forget()
    hypothesis.core.global_force_seed = _seed_of_hypothesis()


def _seed_of_hypothesis() -> int:
    given = seeds.given()
    return _hypothesis_seed if given is None else given


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Any]:
    """A failed test says how to play it again."""
    seed = _seed_of(item)
    if (
        call.excinfo is not None
        and seed is not None
        and not isinstance(call.excinfo.value, pytest.skip.Exception)
    ):
        call.excinfo.value.add_note(f"play it again: pytest --seed {seed} '{item.nodeid}'")
    return (yield)


def _seed_of(item: pytest.Item) -> int | None:
    test = getattr(item, "obj", None)
    if getattr(test, "is_hypothesis_test", False):
        return _seed_of_hypothesis()
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "seed" in callspec.params:
        return int(callspec.params["seed"])
    return seeds.latest()


# Every broker process that a test starts is watched: nobody may hold its event loop for long.

_watch_folder = pytest.StashKey[Path]()
_holds = pytest.StashKey[list[loop_holds.Hold]]()
_failing = pytest.StashKey[list[loop_holds.Hold]]()


def pytest_configure(config: pytest.Config) -> None:
    seed = config.getoption("--seed", None)
    if seed is not None:
        # Before any test module is read: some have their seeds as parameters.
        os.environ[seeds.FLAG] = str(seed)
    if LOOP_WATCH not in os.environ:
        config.stash[_watch_folder] = Path(tempfile.mkdtemp(prefix="moldau-loops-"))
        os.environ[LOOP_WATCH] = str(config.stash[_watch_folder])


def pytest_sessionfinish(session: pytest.Session) -> None:
    folder = session.config.stash.get(_watch_folder, None)
    if folder is None:
        return  # a worker's, or somebody else gathers
    holds = loop_holds.unexplained(loop_holds.told_in(folder))
    failing = loop_holds.failing(holds)
    session.config.stash[_holds] = [hold for hold in holds if hold not in failing]
    session.config.stash[_failing] = failing
    shutil.rmtree(folder)
    if failing and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    told = {
        "callbacks that held a broker's event loop, perhaps because the machine is busy": _holds,
        "FAILED: callbacks that held a broker's event loop by their own work": _failing,
    }
    for title, key in told.items():
        holds = config.stash.get(key, [])
        if holds:
            terminalreporter.section(title, red=key is _failing)
            for line in loop_holds.summary(holds):
                terminalreporter.write_line(line)
