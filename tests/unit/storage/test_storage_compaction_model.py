"""Random histories of a compacted log: the newest value of each key and every offset survive."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.support import seeds
from tests.support.compaction_model import CompactedLife

BLOCK = 10
STEPS = 60


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead process leaves what it wrote, flushed or not: waiting for the disk shows nothing."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def live(seed: int) -> None:
    root = Path(tempfile.mkdtemp(prefix="moldau-compaction-"))
    life = CompactedLife(seed, root)
    done = []
    try:
        for _ in range(STEPS):
            done.append(life.step())
            if done[-1] not in ("append", "append_idempotent", "append_transactional", "roll"):
                life.check()
        life.bench.compact()
        life.check()
        life.crash()
        life.check()
    except BaseException:
        print(" ".join(done))
        raise
    finally:
        life.bench.let_go()
        shutil.rmtree(root)


@pytest.mark.parametrize("block", range(10))
def test_the_newest_record_of_each_key_survives_any_history(block: int) -> None:
    for seed in seeds.several(BLOCK, first=block * BLOCK):
        live(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(12, 412))
def test_the_newest_record_of_each_key_survives_very_many_histories(block: int) -> None:
    for seed in seeds.several(BLOCK, first=block * BLOCK):
        live(seed)
