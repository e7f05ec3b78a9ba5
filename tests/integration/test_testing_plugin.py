"""The pytest plugin as another project would meet it: installed, in a run of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from moldau.testing import LocalBroker

USER_TESTS = """
import pytest

@pytest.fixture
def moldau_broker_settings():
    return {"num.partitions": 4}

def test_own_settings(moldau_broker):
    assert len(moldau_broker.producer().partitions_for("orders")) == 4

def test_in_process(moldau_broker_in_process):
    assert len(moldau_broker_in_process.producer().partitions_for("orders")) == 4
"""
UNUSED = """
import sys

def test_nothing_of_moldau_is_loaded():
    loaded = {name for name in sys.modules if name.split(".")[0] == "moldau"}
    assert loaded <= {"moldau", "moldau.testing", "moldau.testing.plugin"}
    assert "moldau.testing.plugin" in loaded
"""


def run_pytest(directory: Path, source: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_user.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "."],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_fixtures_are_there_without_an_import(tmp_path: Path) -> None:
    ran = run_pytest(tmp_path, USER_TESTS)
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


def test_the_plugin_costs_nothing_while_it_is_unused(tmp_path: Path) -> None:
    ran = run_pytest(tmp_path, UNUSED)
    assert ran.returncode == 0, ran.stdout


def test_every_test_gets_a_broker_of_its_own(moldau_broker: LocalBroker, tmp_path: Path) -> None:
    moldau_broker.create_topic("orders")
    assert tmp_path in moldau_broker.directory.parents


def test_a_test_may_have_both_kinds(
    moldau_broker: LocalBroker, moldau_broker_in_process: LocalBroker
) -> None:
    assert moldau_broker.bootstrap != moldau_broker_in_process.bootstrap


@pytest.mark.parametrize("fixture", ["moldau_broker", "moldau_broker_in_process"])
def test_a_fixture_is_ready_when_the_test_begins(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    broker: LocalBroker = request.getfixturevalue(fixture)
    assert list(broker.admin().list_topics()) == []
