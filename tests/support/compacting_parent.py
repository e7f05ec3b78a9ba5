"""A process that has a log compacted by a child of its own, very slowly, and says so: for tests
that kill it. Usage: `python -m tests.support.compacting_parent DIRECTORY`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from moldau.storage.compaction.compaction_process import InProcess
from moldau.storage.directories.storage_threads import OneThread
from tests.support.compaction import CompactionBench, small_cleaner


def main() -> None:
    place = InProcess(round_bytes_min=0)
    bench = CompactionBench(Path(sys.argv[1]), place=place)
    for i in range(3):
        bench.put(("a", f"{i}"), ("b", "x" * 200))
        bench.roll()
    bench.let_go()
    bench.cleaning = small_cleaner(bytes_per_second=1.0)
    bench.open(OneThread(lambda done, outcome: None, "cleaner"))
    bench.cleaner.look()
    while place.pid is None:
        time.sleep(0.01)
    print(place.pid, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
