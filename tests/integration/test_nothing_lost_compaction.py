"""kill -9 at any moment of first and later compactions, of topics and of the coordinators' own:
nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from moldau.testing.broker_process import BrokerProcess
from tests.support import seeds
from tests.support.compacted_load import CompactedLoad

KILLS_SHORT, KILLS_LONG, KILLS_A_LIFE = 2, 200, 5
WATCHED = ("states-0", "ledger-0", "__consumer_offsets-0", "__transaction_state-0")
IN_THE_MIDDLE = (".cleaned", ".swap", ".deleted")
PATIENCE_SECONDS = 6.0
SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Many small segments, of the internal topics too.
    "log.roll.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}


class Life:
    """One log directory, from its first start on, through several kills. In its first run nothing
    is compacted, so that the second one begins with the first round of every log."""

    def __init__(self, chance: random.Random, directory: Path) -> None:
        self.chance = chance
        # With the larger values rounds grow past a megabyte and are done by a process.
        self.load = CompactedLoad(chance, chance.choice([10, 3_000]))
        self.broker = BrokerProcess(directory, overrides=SETTINGS)
        self.broker.start_seconds_max = 120
        self.kills: Counter[str] = Counter()

    def run(self, kills: int) -> None:
        try:
            self.broker.settings["log.cleaner.enable"] = "false"
            self.start()
            self.load.create(self.broker.bootstrap, self.chance.choice([3_000, 20_000, 200_000]))
            for _ in range(kills):
                self.load.begin(self.broker.bootstrap)
                self.await_moment()
                self.broker.kill()
                self.load.end()
                self.note()
                self.broker.settings["log.cleaner.enable"] = "true"
                self.start()
                self.load.check(self.broker.bootstrap)
            assert "Traceback" not in self.broker.log_text
            assert "is not compacted from now on" not in self.broker.log_text
        finally:
            self.broker.kill()

    def start(self) -> None:
        pick, settings = self.chance.choice, self.broker.settings
        is_slow = self.kills["all"] <= 2
        paces = ["20000"] if is_slow else ["20000", "200000", "1e12"]
        settings["log.cleaner.io.max.bytes.per.second"] = pick(paces)
        settings["log.segment.delete.delay.ms"] = pick(["60000"] if is_slow else ["0", "60000"])
        settings["log.flush.offset.checkpoint.interval.ms"] = pick(["50", "60000"])
        self.broker.start()

    def await_moment(self) -> None:
        """Some time, a file that tells of compaction, or the cleaner's checkpoint. In the first
        rounds: a log whose segments have begun to be replaced."""
        kind = self.chance.choice(["time", *["file"] * 3, "checkpoint"])
        deadline = time.monotonic() + PATIENCE_SECONDS
        if not self.kills["all"]:
            time.sleep(self.chance.uniform(1, 3))
        elif self.kills["all"] <= 2:
            self.await_file(WATCHED, ".deleted", deadline)
        elif kind == "time":
            time.sleep(self.chance.uniform(0.1, 2.5))
        elif kind == "file":
            suffix = self.chance.choice(IN_THE_MIDDLE)
            self.await_file((self.chance.choice(WATCHED),), suffix, deadline)
        else:
            path = self.broker.data / "cleaner-offset-checkpoint"
            before_ns = path.stat().st_mtime_ns if path.exists() else 0
            while time.monotonic() < deadline:
                if path.exists() and path.stat().st_mtime_ns != before_ns:
                    break
                time.sleep(0.0005)
        time.sleep(self.chance.choice([0, 0.001, 0.02]))

    def await_file(self, topics: Sequence[str], suffix: str, deadline: float) -> None:
        before = {topic: self.names(topic, suffix) for topic in topics}
        while time.monotonic() < deadline:
            if any(self.names(topic, suffix) - before[topic] for topic in topics):
                return
            time.sleep(0.0005)

    def names(self, topic: str, suffix: str) -> set[str]:
        directory = self.broker.data / topic
        if not directory.exists():
            return set()
        return {name for name in os.listdir(directory) if name.endswith(suffix)}

    def note(self) -> None:
        """Which logs were being compacted when the broker died."""
        self.kills["all"] += 1
        text = self.broker.log_text
        since = text[text.rindex(" starting version=") :]
        ended = re.findall(r"Log (\S+) cleaned up to", text)
        for topic in WATCHED:
            begun = len(re.findall(rf"Beginning cleaning of log {topic},", since))
            if begun > len(re.findall(rf"Log {topic} cleaned up to", since)):
                self.kills[f"{topic} first" if topic not in ended else f"{topic} later"] += 1


def live(seed: int, kills: int, directory: Path) -> Counter[str]:
    life = Life(random.Random(seed), directory)
    try:
        life.run(kills)
    except BaseException as error:
        error.add_note(f"seed {seed}, after {life.kills}")
        raise
    print(f"seed {seed}: {life.load.acknowledged} acknowledged, kills {dict(life.kills)}")
    return life.kills


def test_nothing_acknowledged_is_lost_by_kills_in_compactions(tmp_path: Path) -> None:
    live(seeds.one(), KILLS_SHORT, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_nothing_acknowledged_is_lost_by_two_hundred_kills_in_compactions(tmp_path: Path) -> None:
    kills: Counter[str] = Counter()
    for seed in seeds.several(KILLS_LONG // KILLS_A_LIFE):
        kills += live(seed, KILLS_A_LIFE, tmp_path / f"{seed}")
    print(f"in the middle of a round: {dict(kills)}")
    for topic in WATCHED:
        assert kills[f"{topic} first"] + kills[f"{topic} later"], f"no kill met {topic}"
