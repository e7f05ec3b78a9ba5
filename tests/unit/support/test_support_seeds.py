"""A random test that fails names its seed, and the flag plays that seed again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import seeds

ROOT = Path(__file__).parents[3]
FAILING = """
import random
import pytest
from hypothesis import given, strategies as st
from tests.support import seeds

def test_one():
    assert seeds.chance().random() < 0

def test_several():
    for seed in seeds.several(10_000):
        assert random.Random(seed).random() < 0.99

@pytest.mark.parametrize("seed", seeds.parameters(3, first=5))
def test_parameter(seed):
    assert seed < 5

@given(st.integers())
def test_examples(number):
    assert number < 1000
"""


def run(folder: Path, *words: str, **flags: str) -> str:
    """What pytest prints about tests that fail."""
    (folder / "test_failing.py").write_text(FAILING)
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MOLDAU_SEED")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", "-q"]
    done = subprocess.run(
        [*command, *words, str(folder / "test_failing.py")],
        cwd=folder,
        env={**environment, **flags, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def named(output: str, test: str) -> set[str]:
    return set(re.findall(rf"play it again: pytest --seed (\d+) '\S*::{test}", output))


def test_a_failed_test_names_its_seed_and_the_flag_plays_it_again(tmp_path: Path) -> None:
    output = run(tmp_path)
    for test in ("test_one", "test_several", "test_examples"):
        assert len(named(output, test)) == 1, output
    assert named(output, "test_parameter") == {"5", "6", "7"}
    (seed,) = named(output, "test_several")
    again = run(tmp_path, MOLDAU_SEED=seed)
    for test in ("test_one", "test_several", "test_parameter", "test_examples"):
        assert named(again, test) <= {seed}, again
    assert named(again, "test_several") == {seed}
    by_option = run(tmp_path, "--seed", seed)
    assert {*named(by_option, "test_several"), *named(by_option, "test_parameter")} == {seed}


def test_the_flags_choose_the_seeds_and_multiply_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(seeds.FLAG, raising=False)
    monkeypatch.delenv(seeds.FLAG_TIMES, raising=False)
    assert list(seeds.several(3, first=6)) == [6, 7, 8]
    assert len({*seeds.several(5), *seeds.several(5)}) > 5, "fresh ones each time"
    assert seeds.one(4) == 4
    monkeypatch.setenv(seeds.FLAG_TIMES, "10")
    assert seeds.parameters(2) == list(range(20))
    assert list(seeds.several(2, first=2)) == list(range(20, 40)), "the next block"
    monkeypatch.setenv(seeds.FLAG, "17")
    assert list(seeds.several(100)) == seeds.parameters(3) == [17]
    assert seeds.one(4) == seeds.one() == 17


def test_no_test_draws_from_chance_that_nobody_can_play_again() -> None:
    unseeded = re.compile(r"(?<![.\w])random\.(?!Random\b)[a-z]\w*\(|\bRandom\(\)|SystemRandom")
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text()
        if path.name in ("seeds.py", Path(__file__).name) or "import Random" in text:
            continue
        lines = [line.strip() for line in text.splitlines() if unseeded.search(line)]
        found += [f"{path.relative_to(ROOT)}: {line}" for line in lines]
    assert not found, "\n".join(found)
