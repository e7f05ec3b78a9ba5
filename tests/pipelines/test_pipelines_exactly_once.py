"""Exactly once under fire: drivers and tasks of a stateful pipeline are killed, nothing is lost.

The model: every version of every count is in the output once, from 1 batch to the next, and the
last ones are the counts of all words that were sent.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import seeds
from tests.support.pipeline_world import make_topic, read_committed, send

Name = Callable[[str], str]
POINTS = ("begin", "tasks", "mark", "end", "ended", "open", "task")
RUN_SECONDS_MAX = 150
WORDS = 7


class Fire:
    def __init__(self, bootstrap: str, fresh_name: Name, folder: Path, master: str) -> None:
        self.bootstrap = bootstrap
        self.source = make_topic(bootstrap, fresh_name("in"), 2)
        self.target = make_topic(bootstrap, fresh_name("out"), 3)
        self.words: Counter[str] = Counter()
        self.command = [
            *(sys.executable, "-m", "tests.support.doomed_pipeline", bootstrap, self.source),
            *(self.target, fresh_name("app"), str(folder / "checkpoint"), master),
        ]
        self.log = folder / "driver.log"

    def send(self, count: int) -> None:
        words = [f"w{n % WORDS}" for n in range(count)]
        send(self.bootstrap, self.source, [(None, word) for word in words])
        self.words.update(words)

    def run(self, doom: str) -> int:
        """The exit code of a driver with this fate."""
        with self.log.open("ab") as log:
            return subprocess.run(
                self.command,
                env={**os.environ, "DOOM": doom},
                stdout=log,
                stderr=log,
                timeout=RUN_SECONDS_MAX,
                check=False,
            ).returncode

    def check(self) -> None:
        told = self.log.read_text()[-3000:]
        seen: dict[str, list[int]] = {}
        for record in read_committed(self.bootstrap, self.target):
            count: int = struct.unpack(">q", record.value)[0]
            seen.setdefault(record.key.decode(), []).append(count)
        assert {word: counts[-1] for word, counts in seen.items()} == self.words, told
        for word, counts in seen.items():
            # A batch that was written twice would repeat a count, a lost one is a wrong end.
            assert counts == sorted(set(counts)), (word, counts, told)


@pytest.fixture
def fire(bootstrap: str, fresh_name: Name, tmp_path: Path) -> Fire:
    return Fire(bootstrap, fresh_name, tmp_path, "local[2]")


def test_a_driver_killed_after_its_commit_and_a_task_killed_leave_each_batch_once(
    fire: Fire,
) -> None:
    fire.send(200)
    # Spark does not know that the batch is written; the next driver loses a task besides.
    assert fire.run("ended:0") == -signal.SIGKILL
    assert fire.run("task:0") == 0
    fire.check()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", seeds.parameters(1, first=1))
def test_thirty_kills_at_random_points_leave_each_batch_once(fire: Fire, seed: int) -> None:
    chance = random.Random(seed)
    kills = 0
    while kills < 30:
        fire.send(chance.randrange(50, 400))
        point = chance.choice(POINTS)
        code = fire.run(f"{point}:{chance.randrange(2)}")
        assert code in (0, -signal.SIGKILL), fire.log.read_text()[-3000:]
        kills += code != 0 or point == "task"
    assert fire.run("") == 0
    fire.check()
